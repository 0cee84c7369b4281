"""New jobs."""

from __future__ import annotations

KNOWN = (
    "SELECT coalesce(json_agg(json_build_array(id, task, payload, state)), '[]') FROM whole "
    "WHERE id IN (SELECT names($1::jsonb))"
)
# Jobs of graphs that were not accepted yet have their task and payload in a part.
KNOWN_NODES = """
SELECT coalesce(json_agg(json_build_array(v.id, coalesce(p.body ->> 1, ''), coalesce(p.body ->> 5, ''), v.state,
    g.state)), '[]')
FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state > -2
"""
ACCEPT = ADMIT = "SELECT admit($1, $2::jsonb)"
