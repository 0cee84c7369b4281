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


class Replaceable:
    """The job that a call may replace. ``row``: it is a new one, of the same batch, and not written yet."""

    __slots__ = ("crashes", "enqueued_at", "id", "max_crashes", "n", "queue", "row", "state", "stays", "task")

    def __init__(
        self, n: int, id: str, task: str, queue: str, state: int, enqueued_at: int, crashes: int, max_crashes: int
    ) -> None:
        self.n, self.id, self.task, self.queue, self.state = n, id, task, queue, state
        self.enqueued_at, self.crashes, self.max_crashes = enqueued_at, crashes, max_crashes
        self.row: list[Any] = []
        self.stays = state == READY


class Key:
    """A key that somebody has. ``state`` is the holder's, -1 where its record is gone."""

    __slots__ = ("holder", "name", "state", "successor", "target", "until")

    def __init__(self, name: str, holder: str, successor: int, until: int, state: int, *found: Any) -> None:
        self.name, self.holder, self.successor, self.until, self.state = name, holder, bool(successor), until, state
        self.target = Replaceable(*found) if found and found[0] is not None else None

    def is_held(self, now: int) -> bool:
        return 0 <= self.state < FIRST_TERMINAL or self.until > now

    def info(self, now: int) -> UniqueInfo:
        successor = self.target.id if self.successor and self.target is not None else ""
        return UniqueInfo(holder=self.holder, successor=successor, window=max(0, self.until - now))


def held(tx: Tx, keys: Iterable[str]) -> dict[str, Key]:
    """The keys among these that somebody has."""
    if not tx.uniques:
        return {}
    found = [Key(*row) for row in tx.all(tx.sql.uniques.HELD, (ids_json(dict.fromkeys(keys)),))]
    return {key.name: key for key in found if key.is_held(tx.now)}


def uniques(tx: Tx, keys: Sequence[str]) -> list[UniqueInfo | None]:
    found = held(tx, keys)
    return [found[key].info(tx.now) if key in found else None for key in keys]


def take(tx: Tx, jobs: Sequence[tuple[str, str, int]]) -> None:
    """Jobs that were just accepted, or start again, have their keys: (key, id, until)."""
    if jobs:
        tx.run(tx.sql.uniques.TAKE, (encode(jobs).decode(),))
        tx.uniques = 1


def wake_for_due(tx: Tx, due: int, queue: str) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    if not tx.idle:
        return
    before = tx.value(tx.sql.uniques.FIRST_DUE)
    if before is None or due < before:
        tx.wake(queue, 1)


def succeed_to(tx: Tx, successors: Sequence[tuple[str, str]]) -> None:
    """Jobs were accepted as the successors of keys' holders: (key, id)."""
    if successors:
        tx.run(tx.sql.uniques.SUCCEED_TO, (encode(successors).decode(),))


class KeyRow:
    """A row of ``uniques``, with the successor that waits for the key, if there is one."""

    __slots__ = ("holder", "job", "key", "next", "successor", "until")

    def __init__(self, key: str, job: int, successor: int, until: int, holder: str, *found: Any) -> None:
        self.key, self.job, self.successor, self.until, self.holder = key, job, successor, until, holder
        self.next = Successor(*found) if found[0] is not None else None

    @property
    def row(self) -> list[Any]:
        return [self.key, self.job, self.successor, self.until, self.holder]


class Successor(NamedTuple):
    """A successor, and when the window ends that its key has with it."""

    id: str
    queue: str
    due: int
    crashes: int
    max_crashes: int
    window_end: int


def succeed(tx: Tx, over: Sequence[tuple[str, int]]) -> Counter[str]:
    """Jobs with keys are over or gone: their successors come to the keys. By queue, how many became ready."""
    found = [KeyRow(*row) for row in tx.all(tx.sql.uniques.KEPT, (ids_json(dict.fromkeys(key for key, _ in over)),))]
    entries = {entry.key: entry for entry in found}
    changed, dropped, started = dict[str, KeyRow](), list[str](), list[tuple[int, Successor]]()
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
        tx.run(tx.sql.uniques.SAVE, (encode([entry.row for entry in changed.values()]).decode(),))
    if dropped:
        tx.run(tx.sql.uniques.DROP, (ids_json(dropped),))
    return _start(tx, started)


def _hand_on(entry: KeyRow) -> None:
    """The holder of a key is over: the key is its successor's, or nobody's until its window ends."""
    entry.job = 0
    if entry.next is not None:
        entry.job, entry.holder, entry.until = entry.successor, entry.next.id, entry.next.window_end


def _start(tx: Tx, jobs: list[tuple[int, Successor]]) -> Counter[str]:
    """Successors that came to their keys are due, now or later. By queue, how many became ready outside of lanes."""
    ready: Counter[str] = Counter(job.queue for _, job in jobs if job.due <= tx.now)
    later = [(job.due, job.queue) for _, job in jobs if job.due > tx.now]
    if later:
        wake_for_due(tx, *min(later))
    return ready - shift(tx, [_start_row(tx, n, job) for n, job in jobs])


def _start_row(tx: Tx, n: int, job: Successor) -> list[Any]:
    goes, due = (SCHEDULED, job.due) if job.due > tx.now else (READY, 0)
    return [n, goes, due, 0, None, None, None, job.crashes, job.max_crashes]


def take_again(tx: Tx, jobs: Sequence[int]) -> dict[str, str]:
    """Jobs that start again take their keys; the ids of those whose keys others have, and why they cannot."""
    wanted = tx.all(tx.sql.uniques.KEYS_OF, (ids_json(jobs),))
    if not wanted:
        return {}
    found = {name: key.holder for name, key in held(tx, (name for _, name, _ in wanted)).items()}
    refused, taken = {}, []
    for id, key, until in wanted:
        if found.setdefault(key, id) != id:
            refused[id] = f"unique key held by {found[key]}"
        else:
            taken.append((key, id, until))
    take(tx, taken)
    return refused
