"""Unique keys: who has one, what becomes of a call that finds it held, and who comes after.

A key is its holder's until that is over or deleted, and in any case for its window. One successor may wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.job import NewJob
from windlass.core.terms import Policy, Terms
from windlass.store.base import Accept, Answer, UniqueInfo
from windlass.store.sqlite.codes import FIRST_TERMINAL, READY, RUNNING, SCHEDULED, WAITING, to_text
from windlass.store.sqlite.moves import shift
from windlass.store.sqlite.tx import Tx, encode, ids_json

HELD = (
    "SELECT u.key, u.holder, u.job, u.successor, u.until, coalesce(j.state, -1), coalesce(j.task, ''), "
    "coalesce((SELECT id FROM jobs WHERE n = u.successor), '') "
    "FROM json_each(?) AS e CROSS JOIN uniques AS u ON u.key = e.value LEFT JOIN jobs AS j ON j.n = u.job"
)
TAKE = (
    "INSERT INTO uniques (key, job, until, holder) SELECT e.value ->> 0, j.n, e.value ->> 2, j.id "
    "FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.id = e.value ->> 1 WHERE true ON CONFLICT (key) DO UPDATE SET "
    "job = excluded.job, until = excluded.until, holder = excluded.holder, successor = 0"
)
TAKEN_BY = "SELECT n, task, queue, state, enqueued_at, crashes, max_crashes FROM jobs WHERE n = ?"
REPLACE = "UPDATE jobs SET payload = ?, meta = ?, version = ?, priority = ? WHERE n = ?"
SUCCESSOR = (
    "SELECT n, id, queue, due_at, crashes, max_crashes, enqueued_at + (terms ->> 12) FROM jobs "
    "WHERE n = ? AND state = 0"
)


class Hold(NamedTuple):
    """Who has a key; ``state`` is the holder's, -1 where it is over."""

    key: str
    holder: str
    job: int
    successor: int
    until: int
    state: int
    task: str
    successor_id: str

    def is_held(self, now: int) -> bool:
        return 0 <= self.state < FIRST_TERMINAL or self.until > now

    def info(self, now: int) -> UniqueInfo:
        return UniqueInfo(holder=self.holder, successor=self.successor_id, window=max(0, self.until - now))


def held(tx: Tx, keys: Iterable[str]) -> dict[str, Hold]:
    """The keys among these that somebody has."""
    if not tx.uniques:
        return {}
    rows = msgspec.convert(tx.all(HELD, (ids_json(dict.fromkeys(keys)),)), list[Hold])
    return {row.key: row for row in rows if row.is_held(tx.now)}


def uniques(tx: Tx, keys: Sequence[str]) -> list[UniqueInfo | None]:
    found = held(tx, keys)
    return [
        UniqueInfo(holder=hold.holder, successor=hold.successor_id, window=max(0, hold.until - tx.now))
        if hold
        else None
        for hold in (found.get(key) for key in keys)
    ]


def take(tx: Tx, jobs: Sequence[tuple[str, str, int]]) -> None:
    """Jobs that were just accepted, or start again, have their keys: (key, id, until)."""
    if jobs:
        tx.run(TAKE, (encode(jobs).decode(),))
        tx.uniques = 1


class Call(NamedTuple):
    """What becomes of a call whose key is held: an answer; or none, if it is accepted as a successor."""

    answer: Answer | None
    event: str = ""
    row: Sequence[Any] = ()


def meet(tx: Tx, job: NewJob, terms: Terms, hold: Hold) -> Call:
    over = not 0 <= hold.state < FIRST_TERMINAL
    if over or terms.policy is Policy.KEEP:
        event = [job.id, job.task, job.queue, {"holder": hold.holder}]
        return Call(Answer(Accept.DUPLICATE, "", hold.holder), "duplicate", event)
    if hold.state == RUNNING and not hold.successor:
        return Call(None)
    # What was called last runs last.
    target, id = (hold.successor, hold.successor_id) if hold.successor else (hold.job, hold.holder)
    n, task, queue, state, enqueued_at, crashes, most = tx.one(TAKEN_BY, (target,))
    if task != job.task:
        return Call(Answer(Accept.REFUSED, f"the unique key is held by {id!r}, a job of task {task!r}"))
    tx.run(REPLACE, (to_text(job.payload), to_text(job.meta), job.version, job.priority, n))
    if terms.policy is Policy.DEBOUNCE:
        due = max(job.at, tx.now + job.delay)
        due = min(due, enqueued_at + terms.most) if terms.most else due
        _put_off(tx, [n, queue, state, due, crashes, most])
    return Call(Answer(Accept.REPLACED, "", id), "replaced", [id, task, queue])


def _put_off(tx: Tx, row: list[Any]) -> None:
    """A holder or successor is due at another time."""
    n, queue, state, due, crashes, most = row
    if state == WAITING:
        tx.run("UPDATE jobs SET due_at = ? WHERE n = ? AND node = 0", (due, n))
        return
    if due > tx.now:
        wake_for_due(tx, due, queue)
        shift(tx, [[n, SCHEDULED, due, 0, None, None, None, crashes, most]])
    else:
        plain = Counter([queue]) - shift(tx, [[n, READY, 0, int(state == READY), None, None, None, crashes, most]])
        for name, count in plain.items():
            tx.wake(name, count)


def wake_for_due(tx: Tx, due: int, queue: str) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    before = tx.value("SELECT min(due_at) FROM jobs WHERE state = 1")
    if before is None or due < before:
        tx.wake(queue, 1)


def succeed_to(tx: Tx, key: str, id: str) -> None:
    """A job was accepted as the successor of a key's holder."""
    tx.run("UPDATE uniques SET successor = (SELECT n FROM jobs WHERE id = ?) WHERE key = ?", (id, key))


def succeed(tx: Tx) -> Counter[str]:
    """Jobs with keys are over or gone: their successors come to the keys. By queue, how many became ready."""
    over, tx.over = tx.over, []
    ready: Counter[str] = Counter()
    rows = []
    for key, job in over:
        row = tx.one("SELECT job, successor, until FROM uniques WHERE key = ?", (key,))
        if row is None:
            continue
        if row[1] == job:
            tx.run("UPDATE uniques SET successor = 0 WHERE key = ?", (key,))
        elif row[0] == job:
            rows += _hand_on(tx, key, row[1], row[2], ready)
    return ready - shift(tx, rows)


def _hand_on(tx: Tx, key: str, successor: int, until: int, ready: Counter[str]) -> list[list[Any]]:
    """The holder of a key is over; how its successor moves."""
    found = tx.one(SUCCESSOR, (successor,)) if successor else None
    if found is None:
        if until > tx.now:
            tx.run("UPDATE uniques SET job = 0, successor = 0 WHERE key = ?", (key,))
        else:
            tx.run("DELETE FROM uniques WHERE key = ?", (key,))
        return []
    n, id, queue, due, crashes, most, window_end = found
    tx.run("UPDATE uniques SET job = ?, holder = ?, until = ?, successor = 0 WHERE key = ?", (n, id, window_end, key))
    if due > tx.now:
        wake_for_due(tx, due, queue)
        return [[n, SCHEDULED, due, 0, None, None, None, crashes, most]]
    ready[queue] += 1
    return [[n, READY, 0, 0, None, None, None, crashes, most]]


KEYS_OF = (
    "SELECT jobs.id, terms ->> 10, enqueued_at + (terms ->> 12) FROM json_each(?) AS e CROSS JOIN jobs ON n = e.value "
    "WHERE terms ->> 10 <> '' AND node = 0"
)


def take_again(tx: Tx, jobs: Sequence[int]) -> dict[str, str]:
    """Jobs that start again take their keys; the ids of those whose keys others have, and why they cannot."""
    wanted = tx.all(KEYS_OF, (ids_json(jobs),))
    if not wanted:
        return {}
    found = {key: hold.holder for key, hold in held(tx, (key for _, key, _ in wanted)).items()}
    refused, taken = {}, []
    for id, key, until in wanted:
        if found.setdefault(key, id) != id:
            refused[id] = f"unique key held by {found[key]}"
        else:
            taken.append((key, id, until))
    take(tx, taken)
    return refused
