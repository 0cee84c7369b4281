"""Who waits for which job, and who follows every event: that is kept with where a name listens."""

from __future__ import annotations

FOLLOW = "UPDATE mailboxes SET follows = 1 WHERE name = $1"
UNFOLLOW = "UPDATE mailboxes SET follows = 0 WHERE name = $1"
JOBS = (
    "SELECT n, id, state, CASE WHEN state > 3 THEN result END, CASE WHEN state > 3 THEN error END, reason, "
    "CASE WHEN node > 0 AND state = 4 AND result IS NULL "
    "THEN (SELECT v.replaced FROM nodes AS v WHERE v.n = whole.node) ELSE 0 END "
    "FROM whole WHERE id IN (SELECT names($1::jsonb))"
)
NODES = """
SELECT -v.n, v.id, v.state, v.result, v.error, v.reason, (v.shape > 0)::int
FROM names($1::jsonb) AS w JOIN nodes AS v ON v.id = w JOIN graphs AS g ON g.n = v.graph
WHERE g.state >= 0 AND (v.shape > 0 OR EXISTS (SELECT 1 FROM parts WHERE n = v.n))
"""
ADD = "INSERT INTO watches SELECT w, $1 FROM numbers($2::jsonb) AS w ON CONFLICT DO NOTHING"
MARK_JOBS = "UPDATE live SET watched = 1 WHERE n IN (SELECT numbers($1::jsonb))"
MARK_NODES = "UPDATE nodes SET watched = 1 WHERE n IN (SELECT -w FROM numbers($1::jsonb) AS w)"
DROP = (
    "DELETE FROM watches WHERE name = $1 AND job IN (SELECT n FROM jobs WHERE id IN (SELECT names($2::jsonb)) "
    "UNION ALL SELECT -v.n FROM names($2::jsonb) AS w JOIN nodes AS v ON v.id = w)"
)
DROP_ALL = "DELETE FROM watches WHERE name IN (SELECT names($1::jsonb))"
