"""What is said of many jobs at once."""

from __future__ import annotations

COUNTS = "SELECT queue, what, many FROM counts WHERE task = '' ORDER BY queue, what"
OLDEST = """
SELECT c.queue, min((
    SELECT enqueued_at FROM jobs WHERE state = 2 AND jobs.queue = c.queue AND hold = h.value ORDER BY place LIMIT 1
))
FROM counts AS c CROSS JOIN json_each('[0, 1, 2, 3]') AS h
WHERE c.task = '' AND c.what = 2 AND c.many > 0 GROUP BY c.queue
"""
LANES = "SELECT queue, count(*) FROM lanes WHERE head > 0 GROUP BY queue"
# The index alone; only the newest of each is looked up.
FAULTS = """
SELECT f.fingerprint, f.dead, j.id FROM (
    SELECT fingerprint, count(*) AS dead, max(n) AS newest FROM jobs INDEXED BY jobs_failed_fingerprint
    WHERE state = 5 GROUP BY fingerprint ORDER BY dead DESC, newest DESC LIMIT ?
) AS f CROSS JOIN jobs AS j ON j.n = f.newest ORDER BY f.dead DESC, f.newest DESC
"""
WORKERS = (
    "SELECT p.body, w.beat_at, w.dead, w.lease, w.lease_until, w.idle, "
    "(SELECT count(*) FROM jobs WHERE state = 3 AND worker = w.n) "
    "FROM workers AS w JOIN presences AS p ON p.worker = w.n ORDER BY w.n"
)
