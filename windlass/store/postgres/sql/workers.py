"""The lives of workers."""

from __future__ import annotations

BEATEN = "SELECT n, dead, lease_until, mark FROM workers WHERE id = $1"
RUNNING = "SELECT l.n, j.id, l.seq FROM live AS l JOIN jobs AS j ON j.n = l.n WHERE l.state = 3 AND l.worker = $1"
ADD = "INSERT INTO workers (id, lease, lease_until, beat_at, mark) VALUES ($1, $2, $3, $4, $5) RETURNING n"
SAY = "INSERT INTO presences VALUES ($1, $2) ON CONFLICT (worker) DO UPDATE SET body = excluded.body"
DEAD = "UPDATE workers SET dead = 1 WHERE n = $1"
RENEW = "UPDATE workers SET lease = $1, lease_until = $2, beat_at = $3, mark = $4 WHERE n = $5"
HAS_WORK = """
SELECT q, (plain OR alone)::int, EXISTS (SELECT 1 FROM lanes WHERE queue = q AND state = 0)::int
FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY AS e (q, i) CROSS JOIN LATERAL (SELECT
    EXISTS (SELECT 1 FROM live WHERE state = 2 AND hold = 0 AND queue = q) AS plain,
    EXISTS (SELECT 1 FROM live WHERE state = 2 AND hold = 2 AND queue = q) AS alone,
    EXISTS (SELECT 1 FROM live WHERE state = 2 AND hold = 1 AND queue = q) AS aside,
    EXISTS (SELECT 1 FROM live WHERE state = 2 AND hold = 3 AND queue = q) AS lane
) AS has
WHERE plain OR alone OR aside OR lane ORDER BY i
"""
