"""Ordered lanes with retries and kills: the order of every key is kept, and no key starves."""

from __future__ import annotations

import random
import sys
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.faults import flow_jobs
from tests.faults.checker import histories, records
from tests.faults.flow import OPTIONS, kill_some, nothing_left, present
from tests.worker.helpers import Fleet, Ledger, Line, eventually
from windlass import State, Windlass
from windlass.core.event import Event

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]


@pytest.fixture
def tasks() -> ModuleType:
    return flow_jobs


class Size(NamedTuple):
    keys: int
    jobs: int
    workers: int
    kills: int
    pause: float
    timeout: float


QUICK = Size(keys=20, jobs=10, workers=4, kills=3, pause=0.05, timeout=60)
FULL = Size(keys=200, jobs=25, workers=6, kills=25, pause=0.1, timeout=600)


async def in_order(app: Windlass, fleet: Fleet, ledger: Ledger, size: Size) -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    step = app.tasks[flow_jobs.step.name]
    for _ in range(size.workers):
        fleet.start(**OPTIONS)
    ids: list[str] = []
    await present(app, fleet, size.workers)
    for n in range(size.jobs):
        keys = rng.sample(range(size.keys), size.keys)
        failures = [rng.choice((0, 0, 0, 1, 2)) for _ in keys]
        calls = [
            step.options(id=f"{key}-{n}").s(str(key), n, bad, size.pause)
            for key, bad in zip(keys, failures, strict=True)
        ]
        ids += [handle.id for handle in await app.enqueue_many(calls)]
    await eventually(lambda: ledger.lines("start"))
    kills = await kill_some(app, fleet, rng, size.kills, (0.1, 0.5), at_work=ledger)
    await eventually(lambda: nothing_left(app), timeout=size.timeout, every=0.1)

    found, past = await records(app, ids), await histories(app)
    assert all(job is not None and job.state is State.SUCCEEDED for job in found.values())
    again = sum(job.crashes for job in found.values() if job)
    print(f"\nseed {seed}: {len(ids)} jobs, {len(kills)} kills, {again} interrupted")  # noqa: T201
    assert again > 0, "no job was interrupted: this proves nothing"
    lines = ledger.lines()
    for key in range(size.keys):
        check_order([line for line in lines if line.job.partition("-")[0] == str(key)], size.jobs)
    check_turns(past, size)


def check_order(lines: list[Line], jobs: int) -> None:
    """One job after the other: none starts before the one ahead of it has done its work, or after a later one."""
    over = reached = -1
    for line in lines:
        n = int(line.job.partition("-")[2])
        if line.what == "end":
            over = max(over, n)
            continue
        assert n >= reached, f"{line.job} started after number {reached} had"
        assert over >= n - 1, f"{line.job} started, and number {n - 1} had not ended"
        reached = n
    assert over == jobs - 1


def check_turns(past: dict[str, list[Event]], size: Size) -> None:
    """Every key had its first turn before any had its last."""
    first = {key: min(event.at for event in past[f"{key}-0"] if event.kind == "started") for key in range(size.keys)}
    last = min(event.at for key in first for event in past[f"{key}-{size.jobs - 1}"] if event.kind == "started")
    late = [key for key, at in first.items() if at > last]
    assert not late, f"keys {late} had no turn before another was through"


async def test_the_order_of_a_key_survives_retries_and_kills(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await in_order(app, fleet, ledger, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_the_order_of_a_key_survives_retries_and_kills_for_long(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    await in_order(app, fleet, ledger, FULL)
