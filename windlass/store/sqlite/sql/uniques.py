"""Unique keys."""

from __future__ import annotations

HELD = (
    "SELECT u.key, u.holder, u.successor, u.until, coalesce(j.state, -1), "
    "t.n, t.id, t.task, t.queue, t.state, t.enqueued_at, t.crashes, t.max_crashes "
    "FROM json_each(?) AS e CROSS JOIN uniques AS u ON u.key = e.value LEFT JOIN jobs AS j ON j.n = u.job "
    "LEFT JOIN jobs AS t ON t.n = iif(u.successor > 0, u.successor, u.job)"
)
TAKE = (
    "INSERT INTO uniques (key, job, until, holder) SELECT e.value ->> 0, j.n, e.value ->> 2, j.id "
    "FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.id = e.value ->> 1 WHERE true ON CONFLICT (key) DO UPDATE SET "
    "job = excluded.job, until = excluded.until, holder = excluded.holder, successor = 0"
)
SUCCEED_TO = (
    "UPDATE uniques SET successor = j.n FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.id = e.value ->> 1 "
    "WHERE uniques.key = e.value ->> 0"
)
KEPT = (
    "SELECT u.key, u.job, u.successor, u.until, u.holder, j.id, j.queue, j.due_at, j.crashes, j.max_crashes, "
    "j.enqueued_at + (j.terms ->> 12) FROM json_each(?) AS e CROSS JOIN uniques AS u ON u.key = e.value "
    "LEFT JOIN jobs AS j ON j.n = u.successor AND j.state = 0"
)
SAVE = (
    "UPDATE uniques SET job = e.value ->> 1, successor = e.value ->> 2, until = e.value ->> 3, holder = e.value ->> 4 "
    "FROM json_each(?) AS e WHERE uniques.key = e.value ->> 0"
)
DROP = "DELETE FROM uniques WHERE key IN (SELECT value FROM json_each(?))"
FORGET = "DELETE FROM uniques WHERE job = 0 AND until <= ?"
KEYS_OF = (
    "SELECT jobs.id, terms ->> 10, enqueued_at + (terms ->> 12) FROM json_each(?) AS e CROSS JOIN jobs ON n = e.value "
    "WHERE terms ->> 10 <> '' AND node = 0"
)
FIRST_DUE = "SELECT min(due_at) FROM jobs WHERE state = 1"
