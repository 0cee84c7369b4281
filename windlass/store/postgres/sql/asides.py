"""Jobs set aside. Their groups are found by jumping from one to the next in the index."""

from __future__ import annotations

ALL = """
WITH RECURSIVE found AS (
    (SELECT queue, task, version FROM live WHERE state = 2 AND hold = 1 ORDER BY queue, task, version LIMIT 1)
    UNION ALL
    SELECT next.* FROM found CROSS JOIN LATERAL (
        SELECT l.queue, l.task, l.version FROM live AS l
        WHERE l.state = 2 AND l.hold = 1 AND (l.queue, l.task, l.version) > (found.queue, found.task, found.version)
        ORDER BY l.queue, l.task, l.version LIMIT 1
    ) AS next
)
SELECT queue, task, version FROM found ORDER BY 1, 2, 3
"""
OF_QUEUES = """
WITH RECURSIVE found AS (
    SELECT first.* FROM names($1::jsonb) AS q CROSS JOIN LATERAL (
        SELECT queue, task, version FROM live WHERE state = 2 AND hold = 1 AND queue = q ORDER BY task, version LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.* FROM found CROSS JOIN LATERAL (
        SELECT l.queue, l.task, l.version FROM live AS l
        WHERE l.state = 2 AND l.hold = 1 AND l.queue = found.queue
            AND (l.task, l.version) > (found.task, found.version)
        ORDER BY l.task, l.version LIMIT 1
    ) AS next
)
SELECT queue, task, version FROM found ORDER BY 1, 2, 3
"""
UNDECLARE = """
INSERT INTO undeclared SELECT DISTINCT e ->> 0, e ->> 1, (e ->> 2)::int, $2::bigint
FROM jsonb_array_elements($1::jsonb) AS e ON CONFLICT (queue, task, version) DO UPDATE SET at = excluded.at
"""
UNDECLARED_AT = "SELECT at FROM undeclared WHERE queue = $1 AND task = $2 AND version = $3"
LIVE = "SELECT n, mark FROM workers WHERE dead = 0 AND lease_until > $1"
FIRST = (
    "SELECT aside_at FROM live WHERE state = 2 AND hold = 1 AND queue = $1 AND task = $2 AND version = $3 "
    "ORDER BY place LIMIT 1"
)
# The first ones have been waiting longest, give or take a priority: looking at more would not be bounded.
STALE = (
    "SELECT f.n, j.id, f.crashes, f.max_crashes, f.aside_at FROM (SELECT * FROM live WHERE state = 2 AND hold = 1 "
    "AND queue = $1 AND task = $2 AND version = $3 ORDER BY place LIMIT $4) AS f JOIN jobs AS j ON j.n = f.n "
    "WHERE f.aside_at <= $5"
)
FORGET = (
    "DELETE FROM undeclared AS u WHERE NOT EXISTS (SELECT 1 FROM live WHERE state = 2 AND hold = 1 "
    "AND queue = u.queue AND task = u.task AND version = u.version)"
)
