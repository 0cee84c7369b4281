"""Nodes of a graph that take their place among the jobs."""

from __future__ import annotations

_NODE = (
    "json_build_array(v.n, v.open, v.broken, v.spare, v.delay, v.at, v.expires_in, v.shape, v.aftermath, v.watched, "
    "p.body)"
)
PAGE = (
    f"SELECT coalesce(json_agg({_NODE} ORDER BY v.n), '[]') "
    "FROM (SELECT * FROM nodes WHERE n > $1 AND n <= $2 ORDER BY n LIMIT $3) AS v LEFT JOIN parts AS p ON p.n = v.n"
)
BY_RANGES = (
    f"SELECT coalesce(json_agg({_NODE} ORDER BY w.i, v.n), '[]') "
    "FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS w (r, i) "
    "JOIN nodes AS v ON v.n > (r ->> 0)::bigint AND v.n <= (r ->> 1)::bigint LEFT JOIN parts AS p ON p.n = v.n"
)
BY_NUMBER = (
    f"SELECT coalesce(json_agg({_NODE} ORDER BY v.n), '[]') FROM numbers($1::jsonb) AS w JOIN nodes AS v ON v.n = w "
    "LEFT JOIN parts AS p ON p.n = v.n"
)
TAKE = "DELETE FROM parts WHERE n IN (SELECT numbers($1::jsonb))"
TAKE_PAGE = "DELETE FROM parts WHERE n > $1 AND n <= $2"
ADMIT = "SELECT admit($1, $2::jsonb)"
MOVE_WATCHES = """
UPDATE watches AS w SET job = j.n FROM nodes AS v JOIN jobs AS j ON j.id = v.id
WHERE v.n IN (SELECT numbers($1::jsonb)) AND w.job = -v.n
"""
WATCHED = """
UPDATE live SET watched = 1 FROM nodes AS v JOIN jobs AS j ON j.id = v.id
WHERE v.n IN (SELECT numbers($1::jsonb)) AND live.n = j.n
"""
UNOPENED = """
SELECT v.n FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w JOIN graphs AS g ON g.n = v.graph
WHERE g.state >= 0 AND EXISTS (SELECT 1 FROM parts WHERE n = v.n)
"""
