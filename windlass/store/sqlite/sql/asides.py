"""Jobs set aside. Their groups are found by jumping from one to the next in the index."""

from __future__ import annotations

ALL = """
WITH RECURSIVE found (n) AS (
    SELECT (SELECT n FROM jobs WHERE state = 2 AND hold = 1 ORDER BY queue, task, version LIMIT 1)
    UNION ALL
    SELECT (
        SELECT n FROM jobs WHERE state = 2 AND hold = 1 AND (queue, task, version) > (h.queue, h.task, h.version)
        ORDER BY queue, task, version LIMIT 1
    ) FROM found CROSS JOIN jobs AS h ON h.n = found.n
)
SELECT h.queue, h.task, h.version FROM found CROSS JOIN jobs AS h ON h.n = found.n ORDER BY 1, 2, 3
"""
OF_QUEUES = """
WITH RECURSIVE found (n) AS (
    SELECT (SELECT n FROM jobs WHERE state = 2 AND hold = 1 AND queue = value ORDER BY task, version LIMIT 1)
    FROM json_each(?)
    UNION ALL
    SELECT (
        SELECT n FROM jobs
        WHERE state = 2 AND hold = 1 AND queue = h.queue AND (task, version) > (h.task, h.version)
        ORDER BY task, version LIMIT 1
    ) FROM found CROSS JOIN jobs AS h ON h.n = found.n
)
SELECT h.queue, h.task, h.version FROM found CROSS JOIN jobs AS h ON h.n = found.n ORDER BY 1, 2, 3
"""
UNDECLARE = "INSERT OR REPLACE INTO undeclared SELECT value ->> 0, value ->> 1, value ->> 2, ?2 FROM json_each(?1)"
UNDECLARED_AT = "SELECT at FROM undeclared WHERE queue = ? AND task = ? AND version = ?"
LIVE = "SELECT n, mark FROM workers WHERE dead = 0 AND lease_until > ?"
FIRST = (
    "SELECT aside_at FROM jobs WHERE state = 2 AND hold = 1 AND queue = ? AND task = ? AND version = ? "
    "ORDER BY place LIMIT 1"
)
# The first ones have been waiting longest, give or take a priority: looking at more would not be bounded.
STALE = (
    "SELECT * FROM (SELECT n, id, crashes, max_crashes, aside_at FROM jobs WHERE state = 2 AND hold = 1 "
    "AND queue = ? AND task = ? AND version = ? ORDER BY place LIMIT ?) WHERE aside_at <= ?"
)
FORGET = (
    "DELETE FROM undeclared WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND hold = 1 "
    "AND queue = undeclared.queue AND task = undeclared.task AND version = undeclared.version)"
)
