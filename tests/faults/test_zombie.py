"""Workers that are slow, blocked or stopped: alive means alive, and what comes too late is refused."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time

import pytest

from tests.faults.checker import check, event_counts
from tests.faults.jobs import blocking, in_process, in_thread, on_loop
from tests.worker.helpers import Fleet, Ledger, eventually
from windlass import State, Windlass

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="stopping a process needs POSIX"),
    pytest.mark.parametrize("engine", ["sqlite", "redis7"], indirect=True),
]

LEASE = 1.5


async def test_a_blocked_loop_and_long_jobs_are_not_run_twice(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    """All on one worker while an idle one waits for its chance: three leases of a blocked loop, and long jobs."""
    first = fleet.start(children=1)
    handles = [
        await app.tasks[on_loop.name].enqueue(1, 3 * LEASE),
        await app.tasks[in_thread.name].enqueue(2, 3 * LEASE),
        await app.tasks[in_process.name].enqueue(3, 3 * LEASE),
    ]
    await eventually(lambda: len(ledger.lines("start")) == 3)
    handles.append(await app.tasks[blocking.name].enqueue(3 * LEASE))
    await eventually(lambda: len(ledger.lines("start")) == 4)
    fleet.start(children=1)
    assert [await handle.result(timeout=30) for handle in handles] == [1, 2, 3, "done"]
    await check(app, [handle.id for handle in handles], ledger, [])
    assert len(ledger.lines("start")) == 4
    counts = await event_counts(app)
    assert not any(counts[handle.id]["lost"] for handle in handles)
    stack = first.logged()
    assert "the event loop has been blocked for" in stack
    assert "time.sleep(seconds)" in stack, "the warning shows the line that blocks"
    assert stack.count("has been blocked for") == 1, "once per block"


async def test_a_stopped_worker_corrupts_nothing_when_it_goes_on(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    """SIGSTOP for three leases, SIGCONT: its jobs were run elsewhere, its late writes are refused."""
    zombie = fleet.start(children=1, concurrency=10)
    # Its child is there, so that the six are under way together, however long a process takes to start.
    first = await app.tasks[in_process.name].enqueue(7, 0.0)
    assert await first.result(timeout=30) == 7
    tasks = [on_loop, in_thread, on_loop, in_thread, on_loop, in_process]
    handles = [await app.tasks[task.name].enqueue(n, 2.0) for n, task in enumerate(tasks)]
    await eventually(lambda: len(ledger.lines("start")) == 7)
    zombie.signal(signal.SIGSTOP)
    healthy = fleet.start(children=1, concurrency=10)
    assert [await handle.result(timeout=30) for handle in handles] == [0, 1, 2, 3, 4, 5]
    before = [await handle.record() for handle in handles]
    await asyncio.sleep(max(0.0, 3 * LEASE - (time.time() - min(line.at for line in ledger.lines()))))
    zombie.signal(signal.SIGCONT)
    # It was given up as a whole, or each of its jobs was dropped or its late settle refused.
    refused = r"lost job {id}|late settle of job {id} refused|gave worker \S+ up"
    for handle in handles:
        await eventually(lambda id=handle.id: re.search(refused.replace("{id}", id), zombie.logged()))
    assert [await handle.record() for handle in handles] == before, "a zombie wrote"
    report = await check(app, [handle.id for handle in (first, *handles)], ledger, [])
    assert report.lost == 6
    assert [info.crashes for info in [await handle.info() for handle in handles] if info] == [1] * 6
    healthy.kill()
    assert await (await app.tasks[on_loop.name].enqueue(7, 0.0)).result(timeout=20) == 7, "it is a worker again"


async def test_a_single_stopped_worker_keeps_its_jobs(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    """Laptop asleep: nobody was there to miss it, so its lease goes on where it stood."""
    worker = fleet.start()
    await app.close()
    handle = await app.tasks[on_loop.name].enqueue(1, 1.0)
    await eventually(lambda: ledger.lines("start"))
    await app.close()
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(2 * LEASE)
    worker.signal(signal.SIGCONT)
    await eventually(lambda: ledger.lines("end"))
    assert await handle.result(timeout=20) == 1
    info = await handle.info()
    assert info is not None
    assert info.crashes == 0
    assert len(ledger.lines("start")) == 1


async def test_the_children_of_a_killed_worker_die_with_it(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start(children=1)
    handle = await app.tasks[in_process.name].enqueue(1, 60.0)
    (line,) = await eventually(lambda: ledger.lines("start"))
    assert line.pid != worker.pid
    worker.kill()
    await eventually(lambda: gone(line.pid), timeout=5)
    assert await handle.state() is not State.SUCCEEDED


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
