"""Buckets of workflows."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import DROPPED
from windlass.store.postgres.sql.nodes import GRAPH

_OLDEST_ENDED = "SELECT finished_at FROM graphs WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1"
ADD = f"""
INSERT INTO buckets (name, most, age, size)
SELECT e ->> 0, split_part(e ->> 0, '|', 1)::bigint, split_part(e ->> 0, '|', 2)::bigint, (e ->> 1)::bigint
FROM jsonb_array_elements($1::jsonb) AS e
ON CONFLICT (name) DO UPDATE SET size = buckets.size + excluded.size RETURNING n, name, size, ({_OLDEST_ENDED})
"""
TAKE_OUT = (
    "UPDATE buckets SET size = size - (c ->> 1)::bigint FROM jsonb_array_elements($1::jsonb) AS c "
    "WHERE n = (c ->> 0)::bigint"
)
NAMES = "SELECT n, name FROM buckets WHERE n IN (SELECT numbers($1::jsonb))"
OF_GRAPH = "SELECT bucket, nodes, (SELECT name FROM buckets WHERE n = bucket) FROM graphs WHERE n = $1"
OLDEST = f"""
SELECT b, json_agg({GRAPH} ORDER BY g.place) FROM numbers($1::jsonb) AS b CROSS JOIN LATERAL (
    SELECT * FROM graphs WHERE bucket = b AND bucket > 0 ORDER BY place LIMIT $2
) AS g GROUP BY b
"""
HIDE = f"UPDATE graphs SET state = {DROPPED}, bucket = 0, id = NULL WHERE n IN (SELECT numbers($1::jsonb))"
FULL = f"""
SELECT n, name, size FROM buckets WHERE size > 0 AND right(name, 1) = chr(1) AND (
    (most >= 0 AND size > most) OR (age >= 0 AND age + ({_OLDEST_ENDED}) <= $1)
)
"""
