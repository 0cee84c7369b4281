"""Lanes. A job's lane is the one its terms name, else that of its task: an expression that ``live_lane`` has too."""

from __future__ import annotations

_IN_LANE = "state = 2 AND hold = 3 AND queue = e.v ->> 0 AND coalesce(lane, 't' || task) = e.v ->> 1"
LOOK = f"""
SELECT coalesce(json_agg(json_build_array(e.i - 1, coalesce(l.state, -1), coalesce(l.turn, 0), l.gate,
    coalesce(l.units, 1), coalesce(l.opens, 0), coalesce(l.holder, 0), coalesce(l.expected, 1), coalesce(l.stood, 0),
    coalesce(l.stood_at, 0), coalesce(l.head, 0), coalesce(h.n, 0), coalesce(h.number, 0),
    coalesce((hj.terms ->> 3)::bigint, 0), coalesce(b.state, -1), coalesce(b.hold, 0), coalesce(h.task, ''),
    coalesce((hj.terms ->> 4)::int, 0), coalesce(hj.terms ->> 7, ''),
    coalesce(CASE WHEN b.hold = 3 THEN b.n ELSE h.n END, 0),
    coalesce((CASE WHEN b.hold = 3 THEN b.crashes > 0 AND b.crashes = b.max_crashes - 1
                   ELSE h.crashes > 0 AND h.crashes = h.max_crashes - 1 END)::int, 0),
    CASE WHEN l.state > 0 AND ((e.v ->> 3)::boolean OR coalesce(h.n, 0) <> l.head) THEN (
        SELECT count(*) FROM (SELECT 1 FROM live WHERE {_IN_LANE} LIMIT $2) AS c
    ) WHEN (e.v ->> 2)::boolean THEN (
        SELECT count(*) FROM (SELECT 1 FROM live WHERE {_IN_LANE} LIMIT 2) AS c
    ) ELSE 0 END) ORDER BY e.i), '[]')
FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS e (v, i)
LEFT JOIN lanes AS l ON l.queue = e.v ->> 0 AND l.name = e.v ->> 1
LEFT JOIN LATERAL (SELECT * FROM live WHERE {_IN_LANE} ORDER BY number, place LIMIT 1) AS h ON true
LEFT JOIN jobs AS hj ON hj.n = h.n
LEFT JOIN LATERAL (
    SELECT n, state, hold, crashes, max_crashes FROM live WHERE n = l.holder AND queue = l.queue
    UNION ALL SELECT n, state, 0, crashes, max_crashes FROM ended WHERE n = l.holder AND queue = l.queue
) AS b ON true
"""
WRITE = "SELECT relane($1::jsonb)"
SET_SOLO = "UPDATE live SET hold = 2 WHERE n IN (SELECT numbers($1::jsonb))"
PUT_INTO = "UPDATE live SET hold = 3 WHERE n IN (SELECT numbers($1::jsonb))"
DUE = "SELECT queue, name FROM lanes WHERE opens > 0 AND opens <= $1 ORDER BY opens LIMIT $2"
NEXT = "SELECT min(opens) FROM lanes WHERE opens > 0"
AT = "SELECT l.queue, l.name FROM names($1::jsonb) AS e JOIN lanes AS l ON l.state = 1 AND l.gate = e"
AT_GATES = (
    "SELECT e, l.queue, l.name FROM names($1::jsonb) AS e CROSS JOIN LATERAL (SELECT * FROM lanes "
    "WHERE state = 1 AND gate = e LIMIT $2) AS l"
)
AT_KEYS = (
    "SELECT e, l.queue, l.name FROM names($1::jsonb) AS e CROSS JOIN LATERAL (SELECT * FROM lanes "
    "WHERE state = 1 AND queue = e AND starts_with(gate, 'key:' || e || ':') LIMIT $2) AS l"
)
FIRST_AT = (
    "SELECT e.i - 1, l.name, l.units FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS e (v, i) "
    "CROSS JOIN LATERAL (SELECT * FROM lanes WHERE state = 1 AND gate = e.v ->> 0 AND queue = e.v ->> 1 "
    "ORDER BY turn LIMIT $2) AS l ORDER BY e.i, l.turn"
)
LEAVING = (
    "SELECT queue, coalesce(lane, 't' || task), number, coalesce(terms ->> 10, ''), n, state FROM whole "
    "WHERE n IN (SELECT numbers($1::jsonb)) AND (lane IS NOT NULL OR hold = 3 OR terms IS NOT NULL)"
)
ORPHANED = (
    "SELECT coalesce(json_agg(json_build_array(l.queue, l.name)) FILTER (WHERE l.state = 2 AND j.n IS NULL), '[]'), "
    "max(l.n), count(*) FROM (SELECT * FROM lanes WHERE n > $1 ORDER BY n LIMIT $2) AS l "
    "LEFT JOIN live AS j ON j.n = l.holder AND j.queue = l.queue"
)
FORGET = "DELETE FROM lanes WHERE until > 0 AND until <= $1"
