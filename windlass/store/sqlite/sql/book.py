"""The gates as a transaction reads and keeps them."""

from __future__ import annotations

GATES = (
    "SELECT json_group_array(json_array(name, version, closed_until, tat, need, opening, json(declared), json(tuned))) "
    "FROM gates"
)
RUNNING = (
    "SELECT queue, task, coalesce(terms ->> 7, ''), sum(coalesce(terms ->> 6, 1)) FROM jobs INDEXED BY jobs_running "
    "WHERE state = 3 GROUP BY 1, 2, 3"
)
SAVE = (
    "UPDATE gates SET tat = e.value ->> 1, need = e.value ->> 2, opening = e.value ->> 3 FROM json_each(?) AS e "
    "WHERE name = e.value ->> 0"
)
# Found by jumping in the index from one queue of a gate to its next.
WAITED_AT = """
WITH RECURSIVE found (gate, queue) AS (
    SELECT name, (SELECT min(queue) FROM lanes WHERE state = 1 AND gate = gates.name) FROM gates
    UNION ALL
    SELECT gate, (SELECT min(queue) FROM lanes WHERE state = 1 AND gate = found.gate AND queue > found.queue)
    FROM found WHERE queue IS NOT NULL
)
SELECT gate, queue, (
    SELECT units FROM lanes WHERE state = 1 AND gate = found.gate AND queue = found.queue ORDER BY turn LIMIT 1
) FROM found WHERE queue IS NOT NULL
"""
