"""Who waits for which job, and who follows every event: that is kept with where a name listens."""

from __future__ import annotations

FOLLOW = "UPDATE mailboxes SET follows = 1 WHERE name = ?"
UNFOLLOW = "UPDATE mailboxes SET follows = 0 WHERE name = ?"
JOBS = (
    "SELECT n, id, state, iif(state > 3, result, NULL), iif(state > 3, error, NULL), reason, "
    "node AND state = 4 AND result IS NULL AND (SELECT replaced FROM nodes WHERE n = node) FROM jobs "
    "WHERE id IN (SELECT value FROM json_each(?))"
)
NODES = """
SELECT -v.n, v.id, v.state, v.result, v.error, v.reason, v.shape > 0
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
WHERE g.state >= 0 AND (v.shape > 0 OR EXISTS (SELECT 1 FROM parts WHERE n = v.n))
"""
ADD = "INSERT OR IGNORE INTO watches SELECT value, ?1 FROM json_each(?2)"
MARK_JOBS = "UPDATE jobs SET watched = 1 WHERE n IN (SELECT value FROM json_each(?))"
MARK_NODES = "UPDATE nodes SET watched = 1 WHERE n IN (SELECT -value FROM json_each(?))"
DROP = (
    "DELETE FROM watches WHERE name = ?1 AND job IN "
    "(SELECT n FROM jobs WHERE id IN (SELECT value FROM json_each(?2)) "
    "UNION ALL SELECT -v.n FROM json_each(?2) AS w CROSS JOIN nodes AS v ON v.id = w.value)"
)
DROP_ALL = "DELETE FROM watches WHERE name IN (SELECT value FROM json_each(?))"
