"""What follows from moves. `moved` is filled by the step `settle` of steps.sql."""

from __future__ import annotations

CANCELLED = "SELECT id FROM jobs WHERE cancel > 0 AND id IN (SELECT value FROM json_each(?))"
ENDED = "SELECT json_group_array(json_array(node, was, i) ORDER BY i) FROM moved WHERE goes > 3 AND node > 0"
KEEP = """
UPDATE jobs SET keep_done = coalesce(nullif(k.value ->> 1, ''), keep_done),
    keep_failed = coalesce(nullif(k.value ->> 2, ''), keep_failed)
FROM json_each(?) AS k WHERE jobs.id = k.value ->> 0
"""
WAIT = "SELECT i, job, id, node FROM moved WHERE goes = 0 ORDER BY i"
BACK = "SELECT queue, count(*) FROM moved WHERE goes = 2 AND hold <> 3 GROUP BY queue"
