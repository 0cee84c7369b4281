"""Unique keys."""

from __future__ import annotations

HELD = (
    "SELECT u.key, u.holder, u.successor, u.until, coalesce(j.state, -1), "
    "t.n, t.id, t.task, t.queue, t.state, t.enqueued_at, t.crashes, t.max_crashes "
    "FROM names($1::jsonb) AS e JOIN uniques AS u ON u.key = e LEFT JOIN whole AS j ON j.n = u.job "
    "LEFT JOIN whole AS t ON t.n = CASE WHEN u.successor > 0 THEN u.successor ELSE u.job END"
)
TAKE = (
    "INSERT INTO uniques (key, job, until, holder) SELECT e ->> 0, j.n, (e ->> 2)::bigint, j.id "
    "FROM jsonb_array_elements($1::jsonb) AS e JOIN jobs AS j ON j.id = e ->> 1 ON CONFLICT (key) DO UPDATE SET "
    "job = excluded.job, until = excluded.until, holder = excluded.holder, successor = 0"
)
SUCCEED_TO = (
    "UPDATE uniques SET successor = j.n FROM jsonb_array_elements($1::jsonb) AS e JOIN jobs AS j ON j.id = e ->> 1 "
    "WHERE uniques.key = e ->> 0"
)
KEPT = (
    "SELECT u.key, u.job, u.successor, u.until, u.holder, j.id, j.queue, j.due_at, j.crashes, j.max_crashes, "
    "j.enqueued_at + (j.terms ->> 12)::bigint FROM names($1::jsonb) AS e JOIN uniques AS u ON u.key = e "
    "LEFT JOIN whole AS j ON j.n = u.successor AND j.state = 0"
)
SAVE = (
    "UPDATE uniques SET job = (e ->> 1)::bigint, successor = (e ->> 2)::bigint, until = (e ->> 3)::bigint, "
    "holder = e ->> 4 FROM jsonb_array_elements($1::jsonb) AS e WHERE uniques.key = e ->> 0"
)
DROP = "DELETE FROM uniques WHERE key IN (SELECT names($1::jsonb))"
FORGET = "DELETE FROM uniques WHERE job = 0 AND until <= $1"
KEYS_OF = (
    "SELECT j.id, j.terms ->> 10, j.enqueued_at + (j.terms ->> 12)::bigint FROM jobs AS j "
    "WHERE j.n IN (SELECT numbers($1::jsonb)) AND j.terms ->> 10 <> '' AND j.node = 0"
)
FIRST_DUE = "SELECT min(due_at) FROM live WHERE state = 1"
