"""Calls that replace what has not started."""

from __future__ import annotations

REPLACE = """
WITH given AS (
    SELECT (e ->> 0)::bigint AS job, e ->> 1 AS payload, e ->> 2 AS meta, (e ->> 3)::int AS version,
        (e ->> 4)::smallint AS priority FROM jsonb_array_elements($1::jsonb) AS e
), narrow AS (UPDATE live SET version = g.version, priority = g.priority FROM given AS g WHERE live.n = g.job)
UPDATE jobs SET payload = g.payload, meta = g.meta, version = g.version, priority = g.priority
FROM given AS g WHERE jobs.n = g.job
"""
PUT_OFF = (
    "UPDATE live SET due_at = (e ->> 1)::bigint FROM jsonb_array_elements($1::jsonb) AS e "
    "WHERE n = (e ->> 0)::bigint AND node = 0"
)
