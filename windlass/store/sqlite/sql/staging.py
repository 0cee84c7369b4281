"""Graphs while they are handed in, and adopted."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import DROPPED

KNOWN = "SELECT n, state, digest, staged FROM graphs WHERE id = ?"
IS_TO_OPEN = "SELECT opened < nodes FROM graphs WHERE n = ?"
HAS_END = "SELECT 1 FROM nodes WHERE id = ? AND graph = ?"
TAKEN = (
    "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?1)) UNION ALL "
    "SELECT v.id FROM json_each(?1) AS w CROSS JOIN nodes AS v ON v.id = w.value WHERE "
    f"coalesce((SELECT state FROM graphs WHERE n = v.graph), 0) <> {DROPPED} LIMIT 1"
)
_LEFT_OVER = "DELETE FROM {0} WHERE n IN (SELECT v.n FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value)"
CLEAR_LINKS, CLEAR_PARTS = _LEFT_OVER.format("links"), _LEFT_OVER.format("parts")
CLEAR_NODES = _LEFT_OVER.format("nodes")
GRAPH = """
INSERT INTO graphs (n, id, nodes, size, digest, name, meta, fail_fast, parent, keep_done, keep_failed, looked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
NODES = """
INSERT INTO nodes (n, graph, id, shape, spare, aftermath, open, source, inject, delay, at, expires_in, edges)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
    value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12 FROM jsonb_each(?)
"""
LINKS = "INSERT INTO links SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)"
PARTS = "INSERT INTO parts SELECT value ->> 0, value ->> 1 FROM json_each(?)"
STAGED = "UPDATE graphs SET staged = ?, looked_at = ? WHERE n = ?"
COMMIT = """
UPDATE graphs SET state = 0, staged = nodes, created_at = ?2, looked_at = ?2
WHERE n IN (SELECT value FROM json_each(?1))
"""
WHOLE = (
    "SELECT g.n FROM json_each(?) AS w CROSS JOIN graphs AS g ON g.n = w.value WHERE g.staged = g.nodes "
    "AND EXISTS (SELECT 1 FROM nodes WHERE id = g.id AND graph = g.n)"
)
HAVE_NODES = "UPDATE jobs SET node = c.value ->> 1 FROM json_each(?) AS c WHERE jobs.n = c.value ->> 0"
