"""Graphs while they are handed in, and adopted."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import DROPPED

KNOWN = "SELECT n, state, digest, staged FROM graphs WHERE id = $1"
IS_TO_OPEN = "SELECT (opened < nodes)::int FROM graphs WHERE n = $1"
HAS_END = "SELECT 1 FROM nodes WHERE id = $1 AND graph = $2"
TAKEN = (
    "SELECT id FROM jobs WHERE id IN (SELECT names($1::jsonb)) UNION ALL "
    "SELECT v.id FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w WHERE "
    f"coalesce((SELECT state FROM graphs WHERE n = v.graph), 0) <> {DROPPED} LIMIT 1"
)
_LEFT_OVER = "DELETE FROM {0} WHERE n IN (SELECT v.n FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w)"
CLEAR_LINKS, CLEAR_PARTS = _LEFT_OVER.format("links"), _LEFT_OVER.format("parts")
CLEAR_NODES = _LEFT_OVER.format("nodes")
GRAPH = """
INSERT INTO graphs (n, id, nodes, size, digest, name, meta, fail_fast, parent, keep_done, keep_failed, looked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
NODES = """
INSERT INTO nodes (n, graph, id, shape, spare, aftermath, open, source, inject, delay, at, expires_in, edges)
SELECT (v ->> 0)::bigint, (v ->> 1)::bigint, v ->> 2, (v ->> 3)::smallint, (v ->> 4)::bigint, (v ->> 5)::smallint,
    (v ->> 6)::bigint, v ->> 7, (v ->> 8)::smallint, (v ->> 9)::bigint, (v ->> 10)::bigint, (v ->> 11)::bigint, v ->> 12
FROM jsonb_array_elements($1::jsonb) AS v
"""
LINKS = "INSERT INTO links SELECT (v ->> 0)::bigint, v ->> 1, v ->> 2 FROM jsonb_array_elements($1::jsonb) AS v"
PARTS = "INSERT INTO parts SELECT (v ->> 0)::bigint, (v ->> 1)::jsonb FROM jsonb_array_elements($1::jsonb) AS v"
STAGED = "UPDATE graphs SET staged = $1, looked_at = $2 WHERE n = $3"
COMMIT = """
UPDATE graphs SET state = 0, staged = nodes, created_at = $2, looked_at = $2 WHERE n IN (SELECT numbers($1::jsonb))
"""
WHOLE = (
    "SELECT g.n FROM numbers($1::jsonb) AS w JOIN graphs AS g ON g.n = w WHERE g.staged = g.nodes "
    "AND EXISTS (SELECT 1 FROM nodes WHERE id = g.id AND graph = g.n)"
)
HAVE_NODES = """
WITH given AS (
    SELECT (c ->> 0)::bigint AS job, (c ->> 1)::bigint AS node FROM jsonb_array_elements($1::jsonb) AS c
), narrow AS (UPDATE live SET node = g.node FROM given AS g WHERE live.n = g.job)
UPDATE jobs SET node = g.node FROM given AS g WHERE jobs.n = g.job
"""
