"""What follows from moves. ``moved`` is filled by the function ``settle`` of functions.sql."""

from __future__ import annotations

CANCELLED = (
    "SELECT j.id FROM jobs AS j JOIN live AS l ON l.n = j.n WHERE l.cancel > 0 AND j.id IN (SELECT names($1::jsonb))"
)
ENDED = (
    "SELECT coalesce(json_agg(json_build_array(node, was, i) ORDER BY i), '[]') FROM moved WHERE goes > 3 AND node > 0"
)
KEEP = """
UPDATE jobs SET keep_done = coalesce(nullif(k ->> 1, ''), keep_done),
    keep_failed = coalesce(nullif(k ->> 2, ''), keep_failed)
FROM jsonb_array_elements($1::jsonb) AS k WHERE id = k ->> 0
"""
WAIT = "SELECT i, job, id, node FROM moved WHERE goes = 0 ORDER BY i"
BACK = "SELECT queue, count(*) FROM moved WHERE goes = 2 AND hold <> 3 GROUP BY queue"
