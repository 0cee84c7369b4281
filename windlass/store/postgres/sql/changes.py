"""What operators do to jobs."""

from __future__ import annotations

TARGETS = (
    "SELECT n, id, task, queue, state, worker, bucket, crashes, max_crashes, node, lane FROM whole "
    "WHERE id IN (SELECT names($1::jsonb))"
)
ASK_TO_CANCEL = "UPDATE live SET cancel = 1, reason = $1 WHERE n IN (SELECT numbers($2::jsonb))"
ROUSE = "UPDATE workers SET idle = 0 WHERE n IN (SELECT numbers($1::jsonb)) RETURNING id"
LESS = (
    "UPDATE buckets SET size = size - (e ->> 1)::bigint FROM jsonb_array_elements($1::jsonb) AS e "
    "WHERE n = (e ->> 0)::bigint"
)
# The place of an ended job is one among the ended, whatever its queue is.
MOVE = """
WITH narrow AS (UPDATE live SET queue = $1, place = 0 WHERE n IN (SELECT numbers($2::jsonb))),
over AS (UPDATE ended SET queue = $1 WHERE n IN (SELECT numbers($2::jsonb)))
UPDATE jobs SET queue = $1 WHERE n IN (SELECT numbers($2::jsonb))
"""
PRIORITY = """
WITH narrow AS (UPDATE live SET priority = $1::smallint WHERE n IN (SELECT numbers($2::jsonb)))
UPDATE jobs SET priority = $1::smallint WHERE n IN (SELECT numbers($2::jsonb))
"""
PAYLOAD = "UPDATE jobs SET payload = $1 WHERE n IN (SELECT numbers($2::jsonb))"
TERMS = (
    "UPDATE jobs SET terms = (e ->> 1)::jsonb, lane = e ->> 2, number = (e ->> 3)::bigint "
    "FROM jsonb_array_elements($1::jsonb) AS e WHERE n = (e ->> 0)::bigint"
)
WATCHED = (
    "SELECT j.id, w.name FROM watches AS w JOIN jobs AS j ON j.n = w.job WHERE w.job IN (SELECT numbers($1::jsonb))"
)
DELETE = "SELECT uproot($1::jsonb, '[]', '[]')"
