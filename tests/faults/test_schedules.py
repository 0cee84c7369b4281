"""A schedule fired by many workers, some of which are killed: one job for every slot, no more and no less."""

from __future__ import annotations

import random
import socket
import sys
from collections import defaultdict
from datetime import datetime
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from tests.faults import flow_jobs
from tests.faults.checker import histories
from tests.faults.flow import OPTIONS, kill_some, nothing_left, present
from tests.worker.helpers import Fleet, Ledger, eventually
from windlass import Keep, Windlass, every
from windlass.operate.timetable import Schedule, read_rows

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
    pytest.mark.parametrize(
        "kept", [{}, {"keep": Keep(count=0)}, {"keep": Keep(age=0)}], ids=["kept", "none kept", "not kept"]
    ),
]


@pytest.fixture
def tasks() -> ModuleType:
    return flow_jobs


class Size(NamedTuple):
    workers: int
    slots: int
    every: int
    kills: int
    pause: tuple[float, float]
    timeout: float


QUICK = Size(workers=3, slots=8, every=250, kills=1, pause=(0.3, 0.8), timeout=30)
FULL = Size(workers=5, slots=60, every=1_000, kills=11, pause=(5.0, 5.0), timeout=180)


async def tick_under_fire(app: Windlass, fleet: Fleet, ledger: Ledger, size: Size, kept: dict[str, Any]) -> None:
    for _ in range(size.workers):
        fleet.start(**OPTIONS)
    await present(app, fleet, size.workers)
    tick = app.tasks[flow_jobs.tick.name]
    await app.schedules.put("tick", every(f"{size.every}ms"), tick, limit=size.slots, missed="all", **kept)
    await eventually(lambda: ledger.lines("start"))
    kills = await kill_some(
        app, fleet, random.Random(), size.kills, size.pause, least=2, chosen=lambda: fired_last(app)
    )
    assert len(kills) == size.kills

    async def through() -> bool:
        row = await the_row(app)
        return row.next_slot == 0 and await nothing_left(app)

    await eventually(through, timeout=size.timeout, every=0.1)
    await check_slots(app, ledger, size, tick.name)


async def fired_last(app: Windlass) -> int:
    """The pid of the worker that fired last."""
    fired = [event for past in (await histories(app)).values() for event in past if event.kind == "schedule_fired"]
    if not fired:
        return 0
    worker = max(fired, key=lambda event: event.at).worker
    return int(worker.removeprefix(f"{socket.gethostname()}-").partition("-")[0])


async def the_row(app: Windlass) -> Schedule:
    [row] = await read_rows((await app.client()).store, ["tick"])
    return row


async def check_slots(app: Windlass, ledger: Ledger, size: Size, task: str) -> None:
    """The same from three sides: the row, the events, and the jobs that ran."""
    assert (await the_row(app)).fired == size.slots
    events = [event for past in (await histories(app)).values() for event in past]
    fired = sorted(event.data["slot"] for event in events if event.kind == "schedule_fired" for _ in event.data["jobs"])
    assert fired == list(range(fired[0], fired[0] + size.slots * size.every, size.every))
    enqueued = [event.job for event in events if event.kind == "enqueued" and event.task == task]
    assert len(enqueued) == len(set(enqueued)) == size.slots
    ran: dict[int, set[str]] = defaultdict(set)
    for line in ledger.lines("start"):
        id, _, slot = line.job.partition("/")
        ran[round(datetime.fromisoformat(slot).timestamp() * 1000)].add(id)
    assert sorted(ran) == fired, "a slot had no job, or a job was of no slot"
    assert {len(ids) for ids in ran.values()} == {1}, "a slot had two jobs"


async def test_every_slot_has_one_job_when_workers_are_killed(
    app: Windlass, fleet: Fleet, ledger: Ledger, kept: dict[str, Any]
) -> None:
    await tick_under_fire(app, fleet, ledger, QUICK, kept)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_every_slot_has_one_job_when_workers_are_killed_for_long(
    app: Windlass, fleet: Fleet, ledger: Ledger, kept: dict[str, Any]
) -> None:
    await tick_under_fire(app, fleet, ledger, FULL, kept)
