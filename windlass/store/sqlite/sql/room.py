"""Full queues."""

from __future__ import annotations

# All ready jobs of a full queue, in nothing but the index.
OLDEST = """
SELECT o.priority, o.n, o.id, o.task, o.crashes, o.max_crashes, coalesce(o.terms ->> 10, '') FROM jobs AS o
WHERE o.n IN (
    SELECT n FROM jobs INDEXED BY jobs_ready WHERE state = 2 AND queue = ? ORDER BY priority, n LIMIT ?
)
"""
NUMBERS = "SELECT id, n FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
