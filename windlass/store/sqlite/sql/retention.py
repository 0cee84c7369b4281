"""Buckets of workflows."""

from __future__ import annotations

from windlass.store.machine.graphs.nodes import DROPPED
from windlass.store.sqlite.sql.nodes import GRAPH

_OLDEST_ENDED = "SELECT finished_at FROM graphs WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1"
ADD = f"""
INSERT INTO buckets (name, most, age, size)
SELECT value ->> 0, CAST(value ->> 0 AS INTEGER), CAST(substr(value ->> 0, instr(value ->> 0, '|') + 1) AS INTEGER),
    value ->> 1
FROM json_each(?) WHERE true
ON CONFLICT DO UPDATE SET size = size + excluded.size RETURNING n, name, size, ({_OLDEST_ENDED})
"""
TAKE_OUT = "UPDATE buckets SET size = size - (c.value ->> 1) FROM json_each(?) AS c WHERE buckets.n = c.value ->> 0"
NAMES = "SELECT n, name FROM buckets WHERE n IN (SELECT value FROM json_each(?))"
OF_GRAPH = "SELECT bucket, nodes, (SELECT name FROM buckets WHERE n = bucket) FROM graphs WHERE n = ?"
OLDEST = f"""
SELECT b.value, json_group_array({GRAPH} ORDER BY g.place) FROM json_each(?) AS b CROSS JOIN graphs AS g
WHERE g.n IN (SELECT n FROM graphs WHERE bucket = b.value AND bucket > 0 ORDER BY place LIMIT ?)
GROUP BY b.key
"""
HIDE = f"UPDATE graphs SET state = {DROPPED}, bucket = 0, id = NULL WHERE n IN (SELECT value FROM json_each(?))"
FULL = f"""
SELECT n, name, size FROM buckets WHERE size > 0 AND substr(name, -1) = char(1) AND (
    (most >= 0 AND size > most) OR (age >= 0 AND age + ({_OLDEST_ENDED}) <= ?)
)
"""
