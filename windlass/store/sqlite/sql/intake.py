"""New jobs: they are written by `accept` and `admit` in steps.sql."""

from __future__ import annotations

KNOWN = (
    "SELECT json_group_array(json_array(id, task, payload, state)) FROM jobs "
    "WHERE id IN (SELECT value FROM json_each(?))"
)
# Jobs of graphs that were not accepted yet have their task and payload in a part.
KNOWN_NODES = """
SELECT json_group_array(json_array(v.id, coalesce(p.body ->> 1, ''), coalesce(p.body ->> 5, ''), v.state, g.state))
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state > -2
"""
ACCEPT = "INSERT INTO accept VALUES (?, ?)"
ADMIT = "INSERT INTO admit VALUES (?, ?)"
