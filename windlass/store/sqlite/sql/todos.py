"""Todos of graphs."""

from __future__ import annotations

FIRST = "SELECT op, graph, node, cursor, n FROM todos ORDER BY n LIMIT ?"
KEPT_BEFORE = "SELECT n FROM todos WHERE graph = ? AND op IN (?, ?, ?)"
DONE = "DELETE FROM todos WHERE n IN (SELECT value FROM json_each(?))"
PUT_UP = """
INSERT INTO todos (op, graph, node, cursor)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)
"""
ANY = "SELECT EXISTS (SELECT 1 FROM todos)"
