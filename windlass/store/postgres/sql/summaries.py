"""What is said of many jobs at once."""

from __future__ import annotations

COUNTS = """
SELECT queue, what::int, many FROM counts WHERE task = '' ORDER BY queue COLLATE "C", what::int
"""
OLDEST = """
SELECT c.queue, min(first.enqueued_at) FROM counts AS c
CROSS JOIN generate_series(0, 3) AS h
CROSS JOIN LATERAL (
    SELECT j.enqueued_at FROM (
        SELECT n FROM live WHERE state = 2 AND hold = h AND queue = c.queue ORDER BY place LIMIT 1
    ) AS l JOIN jobs AS j ON j.n = l.n
) AS first
WHERE c.task = '' AND c.what = '2' AND c.many > 0 GROUP BY c.queue
"""
LANES = "SELECT queue, count(*) FROM lanes WHERE head > 0 GROUP BY queue"
FAULTS = """
SELECT f.fingerprint, f.dead, j.id FROM (
    SELECT fingerprint, count(*) AS dead, max(n) AS newest FROM ended
    WHERE state = 5 GROUP BY fingerprint ORDER BY dead DESC, newest DESC LIMIT $1
) AS f JOIN jobs AS j ON j.n = f.newest ORDER BY f.dead DESC, f.newest DESC
"""
WORKERS = (
    "SELECT p.body, w.beat_at, w.dead, w.lease, w.lease_until, w.idle, "
    "(SELECT count(*) FROM live WHERE state = 3 AND worker = w.n) "
    "FROM workers AS w JOIN presences AS p ON p.worker = w.n ORDER BY w.n"
)
