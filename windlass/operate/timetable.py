"""The timetable: schedules as the store keeps them, written and fired by compare-and-set.

A schedule is an item of one shelf. Whoever changes it says which version was read, so two changes never mix. Whoever
fires it writes the next slot and inserts the jobs in the same step, so a slot is fired once. When schedules run is
decided elsewhere (``core/schedule.py``, ``worker/scheduler.py``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from windlass.core.event import Row as EventRow
from windlass.core.job import NewJob
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Answer
from windlass.store.base import Store
from windlass.store.items import HEEDED, Commit, Item, Put, put_one, read_one

SHELF = HEEDED

TRIES = 10


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it was read, or as it is to be. ``version`` 0: it is not in the store.

    ``body`` is its plan, as JSON. ``next_slot``: when it is due, an instant; 0 for never. ``paused``: the reason, empty
    while it is not. ``last_job``: the job of the slot fired last, or the one that had its unique key.
    """

    name: str
    body: bytes
    next_slot: int = 0
    paused: str = ""
    version: int = 0
    fired: int = 0
    last_slot: int = 0
    last_at: int = 0
    last_job: str = ""


class _Body(msgspec.Struct, omit_defaults=True):
    """What is in the item of a schedule."""

    plan: msgspec.Raw
    next_slot: int = 0
    paused: str = ""
    fired: int = 0
    last_slot: int = 0
    last_at: int = 0
    last_job: str = ""


class Firing(NamedTuple):
    """A schedule to be moved from ``row`` to ``moved`` by way of ``slots``, each with its jobs; each is an event."""

    row: Schedule
    moved: Schedule
    slots: list[tuple[int, list[NewJob]]]

    @property
    def jobs(self) -> list[NewJob]:
        return [job for _, jobs in self.slots for job in jobs]

    @property
    def last(self) -> NewJob | None:
        """The job of the last slot that has one."""
        return next((jobs[0] for _, jobs in reversed(self.slots) if jobs), None)


class Fired(NamedTuple):
    """``row``: as it is now, None where there is none. ``answers``: one per job if it was done."""

    done: bool
    row: Schedule | None
    answers: list[Answer]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Body).decode


# -- reading


async def read_row(store: Store, name: str) -> tuple[Schedule | None, int]:
    """A schedule, and what time it is for the store."""
    moment, item = await asyncio.gather(store.moment(), read_one(store, SHELF, name))
    return row_of(item), moment.now


async def read_rows(store: Store, names: Sequence[str]) -> list[Schedule]:
    """Those of these names that there are."""
    return [row for item in await store.items(SHELF, names) if (row := row_of(item)) is not None]


async def read_all(store: Store) -> list[Schedule]:
    """All of them, by name."""
    rows: list[Schedule] = []
    after = ""
    while items := await store.shelf(SHELF, after, limit=MAX_BATCH):
        rows += [row for item in items if (row := row_of(item)) is not None]
        after = items[-1].key
    return rows


def row_of(item: Item) -> Schedule | None:
    """An item that nobody can read is a schedule that never runs and has no plan."""
    if not item.version:
        return None
    try:
        body = _decode(item.body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Schedule(name=item.key, body=item.body, version=item.version)
    return Schedule(
        name=item.key, body=bytes(body.plan), next_slot=body.next_slot, paused=body.paused, version=item.version,
        fired=body.fired, last_slot=body.last_slot, last_at=body.last_at, last_job=body.last_job,
    )  # fmt: skip


# -- writing


def put_of(row: Schedule, expect: int) -> Put:
    body = _Body(
        plan=msgspec.Raw(row.body), next_slot=row.next_slot, paused=row.paused, fired=row.fired,
        last_slot=row.last_slot, last_at=row.last_at, last_job=row.last_job,
    )  # fmt: skip
    return Put(shelf=SHELF, key=row.name, body=_encode(body), expect=expect)


async def put(store: Store, rows: Sequence[Schedule]) -> list[Schedule | None]:
    """Write schedules where the store has the version each was read with; None where it has another."""
    done = await store.commit([Commit(items=[put_of(row, row.version)]) for row in rows])
    return [
        msgspec.structs.replace(row, version=one.items[0].version) if one.done else None
        for row, one in zip(rows, done, strict=True)
    ]  # fmt: skip


async def drop(store: Store, name: str) -> bool:
    """Forget a schedule; whether it was there."""
    for _ in range(TRIES):
        item = await read_one(store, SHELF, name)
        if not item.version:
            return False
        done, _ = await put_one(store, Put(shelf=SHELF, key=name, body=None, expect=item.version))
        if done:
            return True
    raise StoreError(f"schedule {name!r} is being changed by others all the time")


# -- firing


async def fire(store: Store, firings: Sequence[Firing], worker: str = "") -> list[Fired]:
    """Move schedules on and insert their jobs, each in one step or not at all. At most MAX_BATCH jobs."""
    done = await store.commit([_commit(firing, worker) for firing in firings])
    fired = [Fired(one.done, row_of(one.items[0]), one.answers) for one in done]
    return [await _name_holder(store, one, firing) for one, firing in zip(fired, firings, strict=True)]


def _commit(firing: Firing, worker: str) -> Commit:
    events: list[EventRow] = []
    for slot, jobs in firing.slots:
        first = (jobs[0].task, jobs[0].queue) if jobs else ("", "")
        events.append([firing.row.name, *first, {"slot": slot, "jobs": [job.id for job in jobs]}])
    moved, last = firing.moved, firing.last
    if last is not None:
        moved = msgspec.structs.replace(moved, last_job=last.id)
    event = ("schedule_fired", worker, events) if events else None
    return Commit(items=[put_of(moved, firing.row.version)], jobs=firing.jobs, event=event)


async def _name_holder(store: Store, fired: Fired, firing: Firing) -> Fired:
    """The job that came last may have met another with its unique key: that one is the schedule's last job then."""
    if not fired.done or fired.row is None or firing.last is None:
        return fired
    holder = fired.answers[firing.jobs.index(firing.last)].holder
    if not holder:
        return fired
    [row] = await put(store, [msgspec.structs.replace(fired.row, last_job=holder)])
    return fired._replace(row=row or fired.row)
