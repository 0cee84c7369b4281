"""Lanes. A job's lane is the one its terms name, else that of its task: an expression the index `jobs_lane` has too."""

from __future__ import annotations

# The two counts are apart because a bound that is a value lets SQLite stop early.
LOOK = """
SELECT json_group_array(json_array(e.key, coalesce(l.state, -1), coalesce(l.turn, 0), l.gate, coalesce(l.units, 1),
    coalesce(l.opens, 0), coalesce(l.holder, 0), coalesce(l.expected, 1), coalesce(l.stood, 0), coalesce(l.stood_at, 0),
    coalesce(l.head, 0), coalesce(h.n, 0), coalesce(h.number, 0), coalesce(h.terms ->> 3, 0), coalesce(b.state, -1),
    coalesce(b.hold, 0), coalesce(h.task, ''), coalesce(h.terms ->> 4, 0), coalesce(h.terms ->> 7, ''),
    coalesce(iif(b.hold = 3, b.n, h.n), 0),
    coalesce(iif(b.hold = 3, b.crashes > 0 AND b.crashes = b.max_crashes - 1,
                             h.crashes > 0 AND h.crashes = h.max_crashes - 1), 0),
    CASE WHEN l.state > 0 AND (e.value ->> 3 OR coalesce(h.n, 0) <> l.head) THEN (
        SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0
                              AND coalesce(lane, 't' || task) = e.value ->> 1 LIMIT ?2)
    ) WHEN e.value ->> 2 THEN (
        SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0
                              AND coalesce(lane, 't' || task) = e.value ->> 1 LIMIT 2)
    ) ELSE 0 END))
FROM jsonb_each(?1) AS e LEFT JOIN lanes AS l ON l.queue = e.value ->> 0 AND l.name = e.value ->> 1
LEFT JOIN jobs AS h ON h.n = (
    SELECT n FROM jobs WHERE state = 2 AND hold = 3 AND queue = e.value ->> 0
        AND coalesce(lane, 't' || task) = e.value ->> 1 ORDER BY number, place LIMIT 1
)
LEFT JOIN jobs AS b ON b.n = l.holder AND b.queue = l.queue
"""
WRITE = "INSERT INTO relane VALUES (?)"
SET_SOLO = "UPDATE jobs SET hold = 2 WHERE n IN (SELECT value FROM json_each(?))"
PUT_INTO = "UPDATE jobs SET hold = 3 WHERE n IN (SELECT value FROM json_each(?))"
DUE = "SELECT queue, name FROM lanes WHERE opens > 0 AND opens <= ? ORDER BY opens LIMIT ?"
NEXT = "SELECT min(opens) FROM lanes WHERE opens > 0"
AT = "SELECT l.queue, l.name FROM json_each(?) AS e CROSS JOIN lanes AS l ON l.state = 1 AND l.gate = e.value"
AT_GATES = (
    "SELECT value, l.queue, l.name FROM json_each(?1) CROSS JOIN lanes AS l ON l.n IN (SELECT n FROM lanes "
    "WHERE state = 1 AND gate = value LIMIT ?2)"
)
AT_KEYS = (
    "SELECT value, l.queue, l.name FROM json_each(?1) CROSS JOIN lanes AS l ON l.n IN (SELECT n FROM lanes "
    "WHERE state = 1 AND gate >= 'key:' || value || ':' AND gate < 'key:' || value || ';' AND queue = value LIMIT ?2)"
)
FIRST_AT = (
    "SELECT e.key, l.name, l.units FROM json_each(?1) AS e CROSS JOIN lanes AS l ON l.n IN (SELECT n FROM lanes "
    "WHERE state = 1 AND gate = e.value ->> 0 AND queue = e.value ->> 1 ORDER BY turn LIMIT ?2) ORDER BY e.key, l.turn"
)
LEAVING = (
    "SELECT queue, coalesce(lane, 't' || task), number, coalesce(terms ->> 10, ''), n, state FROM json_each(?) AS e "
    "CROSS JOIN jobs ON n = e.value WHERE lane IS NOT NULL OR hold = 3 OR terms IS NOT NULL"
)
ORPHANED = (
    "SELECT json_group_array(json_array(l.queue, l.name)) FILTER (WHERE l.state = 2 AND j.n IS NULL), max(l.n), "
    "count(*) FROM (SELECT * FROM lanes WHERE n > ? ORDER BY n LIMIT ?) AS l "
    "LEFT JOIN jobs AS j ON j.n = l.holder AND j.queue = l.queue AND j.state < 4"
)
FORGET = "DELETE FROM lanes WHERE until > 0 AND until <= ?"
