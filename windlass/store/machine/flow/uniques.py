"""Unique keys: who has one, what becomes of a call that finds it held, and who comes after.

A key is its holder's until that is over or deleted, and in any case for its window. One successor may wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from windlass.store.flow import UniqueInfo
from windlass.store.machine.codes import FIRST_TERMINAL, READY, SCHEDULED
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx, encode, ids_json

# With each key the job that a call of it may replace: the successor of its holder, else the holder.
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
ENTRIES = (
    "SELECT u.key, u.job, u.successor, u.until, u.holder, j.id, j.queue, j.due_at, j.crashes, j.max_crashes, "
    "j.enqueued_at + (j.terms ->> 12) FROM json_each(?) AS e CROSS JOIN uniques AS u ON u.key = e.value "
    "LEFT JOIN jobs AS j ON j.n = u.successor AND j.state = 0"
)
SAVE = (
    "UPDATE uniques SET job = e.value ->> 1, successor = e.value ->> 2, until = e.value ->> 3, holder = e.value ->> 4 "
    "FROM json_each(?) AS e WHERE uniques.key = e.value ->> 0"
)
DROP = "DELETE FROM uniques WHERE key IN (SELECT value FROM json_each(?))"


class Target:
    """The job that a call may replace. ``row``: it is a new one, of the same batch, and not written yet."""

    __slots__ = ("crashes", "enqueued_at", "id", "max_crashes", "n", "queue", "row", "state", "stays", "task")

    def __init__(
        self, n: int, id: str, task: str, queue: str, state: int, enqueued_at: int, crashes: int, max_crashes: int
    ) -> None:
        self.n, self.id, self.task, self.queue, self.state = n, id, task, queue, state
        self.enqueued_at, self.crashes, self.max_crashes = enqueued_at, crashes, max_crashes
        self.row: list[Any] = []
        self.stays = state == READY


class Hold:
    """Who has a key; ``state`` is the holder's, -1 where it is over."""

    __slots__ = ("holder", "key", "state", "successor", "target", "until")

    def __init__(self, key: str, holder: str, successor: int, until: int, state: int, *found: Any) -> None:
        self.key, self.holder, self.successor, self.until, self.state = key, holder, bool(successor), until, state
        self.target = Target(*found) if found and found[0] is not None else None

    def is_held(self, now: int) -> bool:
        return 0 <= self.state < FIRST_TERMINAL or self.until > now

    def info(self, now: int) -> UniqueInfo:
        successor = self.target.id if self.successor and self.target is not None else ""
        return UniqueInfo(holder=self.holder, successor=successor, window=max(0, self.until - now))


def held(tx: Tx, keys: Iterable[str]) -> dict[str, Hold]:
    """The keys among these that somebody has."""
    if not tx.uniques:
        return {}
    holds = [Hold(*row) for row in tx.all(HELD, (ids_json(dict.fromkeys(keys)),))]
    return {hold.key: hold for hold in holds if hold.is_held(tx.now)}


def uniques(tx: Tx, keys: Sequence[str]) -> list[UniqueInfo | None]:
    found = held(tx, keys)
    return [found[key].info(tx.now) if key in found else None for key in keys]


def take(tx: Tx, jobs: Sequence[tuple[str, str, int]]) -> None:
    """Jobs that were just accepted, or start again, have their keys: (key, id, until)."""
    if jobs:
        tx.run(TAKE, (encode(jobs).decode(),))
        tx.uniques = 1


def wake_for_due(tx: Tx, due: int, queue: str) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    if not tx.idle:
        return
    before = tx.value("SELECT min(due_at) FROM jobs WHERE state = 1")
    if before is None or due < before:
        tx.wake(queue, 1)


SUCCEED_TO = (
    "UPDATE uniques SET successor = j.n FROM json_each(?) AS e CROSS JOIN jobs AS j ON j.id = e.value ->> 1 "
    "WHERE uniques.key = e.value ->> 0"
)


def succeed_to(tx: Tx, successors: Sequence[tuple[str, str]]) -> None:
    """Jobs were accepted as the successors of keys' holders: (key, id)."""
    if successors:
        tx.run(SUCCEED_TO, (encode(successors).decode(),))


class Entry:
    """A row of ``uniques``, with the successor that waits for the key, if there is one."""

    __slots__ = ("holder", "job", "key", "next", "successor", "until")

    def __init__(self, key: str, job: int, successor: int, until: int, holder: str, *found: Any) -> None:
        self.key, self.job, self.successor, self.until, self.holder = key, job, successor, until, holder
        self.next = Next(*found) if found[0] is not None else None

    @property
    def row(self) -> list[Any]:
        return [self.key, self.job, self.successor, self.until, self.holder]


class Next(NamedTuple):
    """A successor, and when the window ends that its key has with it."""

    id: str
    queue: str
    due: int
    crashes: int
    max_crashes: int
    window_end: int


def succeed(tx: Tx) -> Counter[str]:
    """Jobs with keys are over or gone: their successors come to the keys. By queue, how many became ready."""
    over, tx.over = tx.over, []
    found = [Entry(*row) for row in tx.all(ENTRIES, (ids_json(dict.fromkeys(key for key, _ in over)),))]
    entries = {entry.key: entry for entry in found}
    changed, dropped, started = dict[str, Entry](), list[str](), list[tuple[int, Next]]()
    for key, job in over:
        entry = entries.get(key)
        if entry is None or job not in (entry.job, entry.successor):
            continue
        changed[key] = entry
        if entry.successor != job:
            if entry.next is not None:
                started.append((entry.successor, entry.next))
            elif entry.until <= tx.now:
                dropped.append(key)
                del entries[key], changed[key]
            _hand_on(entry)
        entry.successor, entry.next = 0, None
    if changed:
        tx.run(SAVE, (encode([entry.row for entry in changed.values()]).decode(),))
    if dropped:
        tx.run(DROP, (ids_json(dropped),))
    return _start(tx, started)


def _hand_on(entry: Entry) -> None:
    """The holder of a key is over: the key is its successor's, or nobody's until its window ends."""
    entry.job = 0
    if entry.next is not None:
        entry.job, entry.holder, entry.until = entry.successor, entry.next.id, entry.next.window_end


def _start(tx: Tx, jobs: list[tuple[int, Next]]) -> Counter[str]:
    """Successors that came to their keys are due, now or later. By queue, how many became ready outside of lanes."""
    ready: Counter[str] = Counter(job.queue for _, job in jobs if job.due <= tx.now)
    later = [(job.due, job.queue) for _, job in jobs if job.due > tx.now]
    if later:
        wake_for_due(tx, *min(later))
    return ready - shift(tx, [_start_row(tx, n, job) for n, job in jobs])


def _start_row(tx: Tx, n: int, job: Next) -> list[Any]:
    goes, due = (SCHEDULED, job.due) if job.due > tx.now else (READY, 0)
    return [n, goes, due, 0, None, None, None, job.crashes, job.max_crashes]


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
