"""One limit, many workers, kills: never exceeded, and none of it is lost to the dead."""

from __future__ import annotations

import random
import sys
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.faults import flow_jobs
from tests.faults.checker import histories, records
from tests.faults.flow import OPTIONS, check_rate, executions, kill_some, most_at_once, nothing_left
from tests.worker.helpers import Fleet, Ledger, eventually
from windlass import State, Windlass
from windlass.core.limits import parse_rate
from windlass.core.terms import task_gate

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]


@pytest.fixture
def tasks() -> ModuleType:
    return flow_jobs


class Size(NamedTuple):
    workers: int
    limit: int
    rate: str
    limited: int
    rated: int
    kills: int
    timeout: float
    longest: float = 0.06


QUICK = Size(workers=4, limit=3, rate="40/s", limited=250, rated=250, kills=4, timeout=60, longest=0.2)
FULL = Size(workers=16, limit=8, rate="100/s", limited=6_000, rated=8_000, kills=60, timeout=600)


async def hammer(app: Windlass, fleet: Fleet, ledger: Ledger, size: Size) -> None:
    seed = random.randrange(1 << 30)
    rng = random.Random(seed)
    fleet.env |= {"E2E_LIMIT": str(size.limit), "E2E_RATE": size.rate}
    for _ in range(size.workers):
        fleet.start(**OPTIONS)
    limited, rated = app.tasks[flow_jobs.limited.name], app.tasks[flow_jobs.rated.name]
    mine = [handle.id for handle in await app.enqueue_many(
        limited.s(n, round(rng.uniform(0, size.longest), 4)) for n in range(size.limited)
    )]  # fmt: skip
    others = [handle.id for handle in await app.enqueue_many(rated.s(n) for n in range(size.rated))]
    await eventually(lambda: ledger.lines("start"))
    kills = await kill_some(app, fleet, rng, size.kills, (0.4, 1.0), at_work=ledger)
    await eventually(lambda: nothing_left(app), timeout=size.timeout, every=0.1)

    found, past = await records(app, [*mine, *others]), await histories(app)
    assert all(job is not None and job.state is State.SUCCEEDED for job in found.values())
    runs = executions(ledger.lines(), kills, past)
    limited_runs = [run for run in runs if run.job in set(mine)]
    again = len(runs) - len(found)
    plainly = most_at_once(run for run in executions(ledger.lines(), kills, {}) if run.job in set(mine))
    print(  # noqa: T201
        f"\nseed {seed}: {len(runs)} executions, {again} of them again, {len(kills)} kills, {plainly} at once if what "
        "silent workers lost is counted to its end"
    )
    assert most_at_once(limited_runs) == size.limit, "the limit was exceeded, or never reached"
    check_rate([event.at for id in others for event in past[id] if event.kind == "started"], parse_rate(size.rate))
    assert again > 0, "no job was interrupted: this proves nothing"
    await all_of_it_is_back(app, ledger, size)


async def all_of_it_is_back(app: Windlass, ledger: Ledger, size: Size) -> None:
    """What the dead held is free: as many as the limit says run at once again, and then none is held."""
    limited = app.tasks[flow_jobs.limited.name]
    last = {handle.id for handle in await app.enqueue_many(limited.s(n, 1.0) for n in range(2 * size.limit))}

    def running() -> bool:
        return len((last & ledger.jobs("start").keys()) - ledger.jobs("end").keys()) == size.limit

    await eventually(running, every=0.05)
    await eventually(lambda: nothing_left(app), every=0.05)
    [gate] = await (await app.client()).store.gates([task_gate(limited.name)])
    assert (gate.limits.limit, gate.held) == (size.limit, 0)
    runs = executions([line for line in ledger.lines() if line.job in last], [], await histories(app))
    assert most_at_once(runs) == size.limit


async def test_a_limit_holds_while_workers_are_killed(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await hammer(app, fleet, ledger, QUICK)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_a_limit_holds_while_workers_are_killed_for_long(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    await hammer(app, fleet, ledger, FULL)
