"""kill -9 of workers while jobs run: nothing lost, nothing settled twice, every execution explained."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.checker import Kill, Report, check
from tests.faults.jobs import in_process, in_thread, killer, neighbour, on_loop, once
from tests.faults.load import nothing_left, slack
from tests.worker.helpers import Fleet, Ledger, WorkerProcess, eventually
from windlass import Handle, State, Windlass

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills need POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]

LEASE = 1.5
KINDS = (on_loop,) * 7 + (in_thread,) * 2 + (in_process,)
OPTIONS = {"concurrency": 8, "children": 1, "grace": 5}


async def produce(app: Windlass, count: int, pause: float, rng: random.Random) -> list[str]:
    """Accepted ids: only what an enqueue answered for."""
    ids: list[str] = []
    for start in range(0, count, 50):
        calls = [
            app.tasks[rng.choice(KINDS).name].s(n, round(rng.uniform(0, 2 * pause), 4))
            for n in range(start, min(start + 50, count))
        ]
        ids += [handle.id for handle in await app.enqueue_many(calls)]
        await asyncio.sleep(0.02)
    return ids


async def kill_now_and_then(app: Windlass, fleet: Fleet, rng: random.Random, every: tuple[float, float]) -> list[Kill]:
    """Until cancelled: kill a random worker and start another in its place.

    Three must be at work before one is killed: where all of them are dead or still starting, as on a busy machine,
    nobody is left to notice the dead in time.
    """
    kills: list[Kill] = []
    store = (await app.client()).store

    async def enough() -> bool:
        pids = {worker.pid for worker in fleet if worker.alive}
        return len(pids & {info.presence.pid for info in await store.workers()}) >= 3

    try:
        while True:
            await asyncio.sleep(rng.uniform(*every))
            await eventually(enough, every=0.05)
            victim: WorkerProcess = rng.choice([worker for worker in fleet if worker.alive])
            kills.append(Kill(victim.pid, time.time()))
            victim.kill()
            fleet.start(**OPTIONS)
    except asyncio.CancelledError:
        return kills


async def massacre(app: Windlass, fleet: Fleet, ledger: Ledger, jobs: int, pause: float, seed: int) -> Report:
    rng = random.Random(seed)
    for _ in range(4):
        fleet.start(**OPTIONS)
    producing = asyncio.create_task(produce(app, jobs, pause, rng))
    await eventually(lambda: ledger.lines("start"))
    killing = asyncio.create_task(kill_now_and_then(app, fleet, rng, (0.5, 1.1)))
    ids = await producing
    limit = 60 + jobs * pause / 4
    await eventually(lambda: nothing_left(app), timeout=limit, every=0.1)
    killing.cancel()
    kills = await killing
    report = await check(app, ids, ledger, kills)
    print(f"\nkill -9: {len(kills)} kills, seed {seed}: {report}")  # noqa: T201 - the figures of the run
    assert report.slowest_restart < LEASE + 1.0 + slack(), report
    return report


JOBS = {"sqlite": 2_000, "redis7": 3_000}
JOBS_FOR_LONG = {"sqlite": 20_000, "redis7": 50_000}


async def test_nothing_is_lost_when_workers_are_killed(
    engine: str, app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    report = await massacre(app, fleet, ledger, JOBS[engine], 0.08, seed=random.randrange(1 << 30))
    assert report.exposures > 20, f"too few jobs were interrupted to prove anything: {report}"


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_nothing_is_lost_when_workers_are_killed_for_long(
    engine: str, app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    report = await massacre(app, fleet, ledger, JOBS_FOR_LONG[engine], 0.15, seed=random.randrange(1 << 30))
    assert report.exposures > 400, report


async def test_a_job_that_kills_its_workers_is_quarantined_and_its_neighbours_are_not(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    near, bad = app.tasks[neighbour.name], app.tasks[killer.name]
    neighbours = await app.enqueue_many(near.s(n) for n in range(40))
    killers = [await bad.options(priority=9).enqueue() for _ in range(2)]
    for _ in range(2):
        fleet.start(concurrency=8)
    await keep_alive(fleet, lambda: nothing_left(app))
    for handle in killers:
        info = await handle.info()
        assert info is not None
        assert (info.state, info.crashes) == (State.FAILED, 3)
        assert info.reason in ("worker crashed", "lease lost")
        assert info.error is not None
        assert "3 times" in info.error.message
    assert [await handle for handle in neighbours] == list(range(40))
    assert max([info.crashes for info in [await handle.info() for handle in neighbours] if info]) <= 2
    assert all(count == 3 for id, count in ledger.jobs("start").items() if id in {h.id for h in killers})


async def keep_alive(fleet: Fleet, done: Callable[[], Any]) -> None:
    """Replace what dies until ``done``: what a supervisor does."""

    async def step() -> bool:
        for worker in [worker for worker in fleet if not worker.alive and not worker.replaced]:
            worker.replaced = True
            fleet.start(concurrency=8)
        return bool(await done())

    await eventually(step, timeout=40, every=0.05)


async def test_at_most_once_means_it(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    """``on_crash="fail"``: also for a call by name, by someone who does not know the task."""
    one = await app.tasks[once.name].enqueue()
    stranger = Windlass("stranger", app.url)
    two = await stranger.queue("default").add(once.name, {})
    victim = fleet.start()
    await eventually(lambda: len(ledger.lines("start")) == 2)
    victim.kill()
    fleet.start()
    for handle in (one, app.job(two.id)):
        await eventually(handle.ready)
        info = await handle.info()
        assert info is not None
        assert (info.state, info.crashes) == (State.FAILED, 1)
        assert info.reason in ("worker crashed", "lease lost")
    assert len(ledger.lines("start")) == 2
    await stranger.close()


async def test_the_jobs_of_a_dead_worker_start_within_the_lease_and_a_second(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    victim = fleet.start(concurrency=20)
    handles: list[Handle[int]] = [await app.tasks[on_loop.name].enqueue(n, 6.0) for n in range(10)]
    await eventually(lambda: len(ledger.lines("start")) == 10)
    fleet.start(concurrency=20)  # up before the jobs are over, also where a process takes seconds to start
    await eventually(lambda: alive(app, 2))
    killed = time.time()
    victim.kill()
    await eventually(lambda: len(ledger.lines("start")) == 20)
    slowest = max(line.at for line in ledger.lines("start")) - killed
    assert slowest < LEASE + 1.0 + slack()
    for n, handle in enumerate(handles):
        assert await handle.result(timeout=20) == n


async def alive(app: Windlass, count: int) -> bool:
    store = (await app.client()).store
    return sum(worker.alive for worker in await store.workers()) == count
