"""Gates as they are tuned and told of, and what keeps jobs out of the ready order."""

from __future__ import annotations

PUT = (
    "INSERT INTO gates (name, version, closed_until, opening, declared, tuned, note) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7) "
    "ON CONFLICT (name) DO UPDATE SET version = excluded.version, closed_until = excluded.closed_until, "
    "opening = excluded.opening, need = 0, "
    "declared = excluded.declared, tuned = excluded.tuned, note = excluded.note"
)
NOTE = "SELECT note FROM gates WHERE name = $1"
WAITING_AT = "SELECT count(*) FROM lanes WHERE state = 1 AND gate = $1"
HELD_BY_KEY = (
    "SELECT coalesce(sum(units), 0) FROM live WHERE state = 3 AND queue = $1 AND lane IS NOT NULL "
    "AND lane IN ('k' || $2::text, 'o' || $2, 's' || $2)"
)
FORGET = (
    "DELETE FROM gates WHERE name = $1 AND length(note) = 0 "
    "AND NOT EXISTS (SELECT 1 FROM lanes WHERE state = 1 AND gate = $1) RETURNING 1"
)
FORGET_KEYS = "DELETE FROM keys WHERE tat <= $1"
HOLDS = """
SELECT j.id, v.state, v.hold, j.queue, coalesce(j.lane, 't' || j.task), j.number, v.place, j.n, coalesce(l.state, 0),
    l.gate, coalesce(l.opens, 0), coalesce(l.expected, 1), coalesce(l.units, 1), coalesce(l.holder, 0),
    coalesce((SELECT h.id FROM jobs AS h WHERE h.n = l.holder), ''),
    coalesce((SELECT u.holder FROM uniques AS u WHERE u.key = j.terms ->> 10 AND u.successor = j.n), '')
FROM names($1::jsonb) AS e JOIN jobs AS j ON j.id = e JOIN live AS v ON v.n = j.n
LEFT JOIN lanes AS l ON l.queue = j.queue AND l.name = coalesce(j.lane, 't' || j.task)
WHERE v.state IN (0, 2)
"""
AHEAD = (
    "SELECT count(*) FROM live WHERE state = 2 AND hold = 3 AND queue = $1 AND coalesce(lane, 't' || task) = $2 "
    "AND (number, place) < ($3, $4)"
)
