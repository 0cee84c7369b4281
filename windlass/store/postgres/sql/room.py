"""Full queues."""

from __future__ import annotations

OLDEST = """
SELECT o.priority, o.n, j.id, j.task, o.crashes, o.max_crashes, coalesce(j.terms ->> 10, '') FROM (
    SELECT priority, n, crashes, max_crashes FROM (
        SELECT * FROM live WHERE state = 2 AND hold = 0 AND queue = $1
        UNION ALL SELECT * FROM live WHERE state = 2 AND hold IN (1, 2) AND queue = $1
        UNION ALL SELECT * FROM live WHERE state = 2 AND hold = 3 AND queue = $1
    ) AS ready ORDER BY priority, n LIMIT $2
) AS o JOIN jobs AS j ON j.n = o.n
"""
NUMBERS = "SELECT id, n FROM jobs WHERE id IN (SELECT names($1::jsonb))"
