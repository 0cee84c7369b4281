"""Todos of graphs."""

from __future__ import annotations

FIRST = "SELECT op, graph, node, cursor, n FROM todos ORDER BY n LIMIT $1"
KEPT_BEFORE = "SELECT n FROM todos WHERE graph = $1 AND op IN ($2, $3, $4)"
DONE = "DELETE FROM todos WHERE n IN (SELECT numbers($1::jsonb))"
PUT_UP = """
INSERT INTO todos (op, graph, node, cursor)
SELECT (v ->> 0)::smallint, (v ->> 1)::bigint, (v ->> 2)::bigint, (v ->> 3)::bigint
FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS t (v, i) ORDER BY i
"""
ANY = "SELECT EXISTS (SELECT 1 FROM todos)::int"
