"""Nodes of a graph that take their place among the jobs."""

from __future__ import annotations

_NODE = (
    "json_array(v.n, v.open, v.broken, v.spare, v.delay, v.at, v.expires_in, v.shape, v.aftermath, v.watched, "
    "json(p.body))"
)
PAGE = (
    f"SELECT json_group_array({_NODE} ORDER BY v.n) "
    "FROM (SELECT * FROM nodes WHERE n > ? AND n <= ? ORDER BY n LIMIT ?) AS v "
    "LEFT JOIN parts AS p ON p.n = v.n"
)
BY_RANGES = (
    f"SELECT json_group_array({_NODE} ORDER BY w.key, v.n) FROM json_each(?) AS w "
    "CROSS JOIN nodes AS v ON v.n > w.value ->> 0 AND v.n <= w.value ->> 1 LEFT JOIN parts AS p ON p.n = v.n"
)
BY_NUMBER = (
    f"SELECT json_group_array({_NODE} ORDER BY v.n) FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value "
    "LEFT JOIN parts AS p ON p.n = v.n"
)
TAKE = "DELETE FROM parts WHERE n IN (SELECT value FROM json_each(?))"
TAKE_PAGE = "DELETE FROM parts WHERE n > ? AND n <= ?"
ADMIT = "INSERT INTO admit VALUES (?, ?)"
MOVE_WATCHES = """
UPDATE watches SET job = (SELECT n FROM jobs WHERE id = (SELECT id FROM nodes WHERE n = -watches.job))
WHERE job IN (SELECT -value FROM json_each(?))
"""
WATCHED = """
UPDATE jobs SET watched = 1 WHERE id IN (SELECT id FROM nodes WHERE n IN (SELECT value FROM json_each(?)))
"""
UNOPENED = """
SELECT v.n FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
WHERE g.state >= 0 AND EXISTS (SELECT 1 FROM parts WHERE n = v.n)
"""
