"""The gates as a transaction reads and keeps them."""

from __future__ import annotations

GATES = (
    "SELECT coalesce(json_agg(json_build_array(name, version, closed_until, tat, need, opening, declared::json, "
    "tuned::json)), '[]') FROM gates"
)
RUNNING = (
    "SELECT queue, task, coalesce(breaker, ''), sum(units) FROM live WHERE state = 3 AND worker > 0 GROUP BY 1, 2, 3"
)
SAVE = (
    "UPDATE gates SET tat = (e ->> 1)::bigint, need = (e ->> 2)::int, opening = (e ->> 3)::smallint "
    "FROM jsonb_array_elements($1::jsonb) AS e WHERE name = e ->> 0"
)
# Found by jumping in the index from one queue of a gate to its next.
WAITED_AT = """
WITH RECURSIVE found (gate, queue) AS (
    SELECT name, (SELECT min(queue) FROM lanes WHERE state = 1 AND gate = gates.name) FROM gates
    UNION ALL
    SELECT gate, (SELECT min(l.queue) FROM lanes AS l WHERE l.state = 1 AND l.gate = found.gate
        AND l.queue > found.queue)
    FROM found WHERE queue IS NOT NULL
)
SELECT gate, queue, (
    SELECT units FROM lanes AS l WHERE l.state = 1 AND l.gate = found.gate AND l.queue = found.queue
    ORDER BY turn LIMIT 1
) FROM found WHERE queue IS NOT NULL
"""
