"""Gates as they are tuned and told of, and what keeps jobs out of the ready order."""

from __future__ import annotations

PUT = (
    "INSERT INTO gates (name, version, closed_until, opening, declared, tuned, note) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (name) DO UPDATE SET version = excluded.version, closed_until = excluded.closed_until, "
    "opening = excluded.opening, need = 0, "
    "declared = excluded.declared, tuned = excluded.tuned, note = excluded.note"
)
NOTE = "SELECT note FROM gates WHERE name = ?"
WAITING_AT = "SELECT count(*) FROM lanes WHERE state = 1 AND gate = ?"
HELD_BY_KEY = (
    "SELECT coalesce(sum(coalesce(terms ->> 6, 1)), 0) FROM jobs WHERE state = 3 AND queue = ?1 AND lane IS NOT NULL "
    "AND lane IN ('k' || ?2, 'o' || ?2, 's' || ?2)"
)
FORGET = (
    "DELETE FROM gates WHERE name = ?1 AND length(note) = 0 "
    "AND NOT EXISTS (SELECT 1 FROM lanes WHERE state = 1 AND gate = ?1) RETURNING 1"
)
FORGET_KEYS = "DELETE FROM keys WHERE tat <= ?"
HOLDS = """
SELECT j.id, j.state, j.hold, j.queue, coalesce(j.lane, 't' || j.task), j.number, j.place, j.n, coalesce(l.state, 0),
    l.gate, coalesce(l.opens, 0), coalesce(l.expected, 1), coalesce(l.units, 1), coalesce(l.holder, 0),
    coalesce((SELECT id FROM jobs WHERE n = l.holder), ''),
    coalesce((SELECT holder FROM uniques WHERE key = j.terms ->> 10 AND successor = j.n), '')
FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.id = e.value
LEFT JOIN lanes AS l ON l.queue = j.queue AND l.name = coalesce(j.lane, 't' || j.task)
WHERE j.state IN (0, 2)
"""
AHEAD = (
    "SELECT count(*) FROM jobs WHERE state = 2 AND hold = 3 AND queue = ? AND coalesce(lane, 't' || task) = ? "
    "AND (number, place) < (?, ?)"
)
