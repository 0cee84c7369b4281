"""Worker processes: stopping gracefully, at once and by themselves, and what becomes of their jobs."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.worker.helpers import Fleet, Ledger, WorkerProcess, eventually, within
from tests.worker.jobs import (
    blocks_the_loop,
    caller,
    in_child,
    kills_its_worker,
    leaves_a_thread,
    leaves_an_executor_busy,
    never_stops,
    once_only,
    quick,
    stuck_thread,
    swallows_the_stop,
    threaded,
)
from windlass import Handle, State, Windlass

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals need POSIX")


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Windlass]:
    async with caller(fleet.env["E2E_URL"]) as app:
        yield app


async def ended(worker: WorkerProcess) -> int:
    return int(await asyncio.to_thread(worker.wait, 20))


async def state_is(handle: Handle[int], state: State) -> bool:
    return await handle.state() is state


async def test_sigterm_lets_running_jobs_finish_and_hands_the_rest_back(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    worker = fleet.start(concurrency=3, children=1, grace=10)
    tasks = [quick, threaded, in_child]
    running = [await app.tasks[task.name].enqueue(n, pause=2.5) for n, task in enumerate(tasks)]
    await eventually(lambda: len(ledger.lines("start")) == 3)  # a child takes a while to start: the others must last
    waiting = [await app.tasks[quick.name].enqueue(n) for n in range(5)]
    worker.term()
    assert [await within(handle) for handle in running] == [0, 1, 2]
    assert await ended(worker) == 0
    assert {await handle.state() for handle in waiting} == {State.READY}
    assert ledger.jobs("start") == ledger.jobs("end")
    assert await (await app.client()).store.workers() == [], "it signed off"
    infos = [await handle.info() for handle in [*running, *waiting]]
    assert [(info.attempts, info.crashes) for info in infos if info] == [(0, 0)] * 8


@pytest.mark.parametrize("how", ["sigterm", "sigint"])
async def test_an_idle_worker_stops_at_once(app: Windlass, fleet: Fleet, how: str) -> None:
    worker = fleet.start()
    await eventually(lambda: "is up" in worker.logged())
    began = time.monotonic()
    worker.signal(signal.SIGTERM if how == "sigterm" else signal.SIGINT)
    assert await ended(worker) == 0
    assert time.monotonic() - began < 3
    assert "Traceback" not in worker.logged()


async def test_jobs_beyond_the_grace_are_handed_back_with_no_attempt_lost(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    worker = fleet.start(concurrency=5, children=1, grace=0.3)
    tasks = [swallows_the_stop, threaded, in_child]
    handles = [
        await app.tasks[swallows_the_stop.name].enqueue(),
        await app.tasks[threaded.name].enqueue(1, pause=8),
        await app.tasks[in_child.name].enqueue(2, pause=8),
    ]
    await eventually(lambda: len(ledger.lines("start")) == len(tasks))
    began = time.monotonic()
    worker.term()
    for handle in handles:
        await eventually(lambda handle=handle: state_is(handle, State.READY))
    assert await ended(worker) == 0
    assert time.monotonic() - began < 3.5, "the thread that goes on does not hold the process up"
    assert len(ledger.lines("stopped")) == 1, "the coroutine was told"
    for handle in handles:
        info = await handle.info()
        assert info is not None
        assert (info.state, info.attempts, info.crashes, info.run) == (State.READY, 0, 0, 1)
    assert "handing back 3 jobs" in worker.logged()


async def test_a_second_signal_stops_at_once(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start(grace=60)
    handle = await app.tasks[quick.name].enqueue(1, pause=60)
    await eventually(lambda: ledger.lines("start"))
    worker.term()
    await eventually(lambda: "is stopping" in worker.logged())
    began = time.monotonic()
    worker.term()
    assert await ended(worker) == 1
    assert time.monotonic() - began < 3
    info = await handle.info()
    assert info is not None
    assert (info.state, info.attempts, info.crashes) == (State.READY, 0, 0)


async def test_handed_back_jobs_are_taken_up_by_another_worker(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    first = fleet.start(grace=0.2)
    handle = await app.tasks[threaded.name].enqueue(7, pause=4.0)  # longer than it takes to start another
    await eventually(lambda: ledger.lines("start"))
    fleet.start()
    await eventually(lambda: "is up" in fleet.workers[1].logged())
    waiting = asyncio.ensure_future(handle.result())
    first.term()
    assert await within(waiting) == 7
    assert len(ledger.lines("start")) == 2


async def test_a_quarter_of_stuck_threads_replaces_the_worker(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start(concurrency=4, grace=1)
    stuck = await app.tasks[stuck_thread.name].enqueue(30.0)
    await eventually(lambda: state_is(stuck, State.FAILED))
    assert await ended(worker) == 75
    assert "1 of its 4 slots are taken by threads that timed out" in worker.logged()
    assert len(ledger.lines("end")) == 0


async def test_less_than_a_quarter_is_borne(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start(concurrency=5, grace=1)
    stuck = await app.tasks[stuck_thread.name].enqueue(2.5)
    await eventually(lambda: state_is(stuck, State.FAILED))
    await eventually(lambda: ledger.lines("end"))
    assert worker.alive
    assert await stuck.state() is State.FAILED, "the late result was refused"
    assert await within(await app.tasks[quick.name].enqueue(3)) == 3


@pytest.mark.parametrize("task", [leaves_a_thread, leaves_an_executor_busy], ids=["thread", "executor"])
async def test_a_thread_that_a_task_left_does_not_keep_the_process(
    app: Windlass, fleet: Fleet, ledger: Ledger, task: Any
) -> None:
    worker = fleet.start(grace=1)
    await (await app.tasks[task.name].enqueue(600.0))
    worker.term()
    assert await ended(worker) == 0
    assert "its process ends without waiting for thread" in worker.logged()
    assert ("thread left-behind" in worker.logged()) is (task is leaves_a_thread)
    assert await (await app.client()).store.workers() == [], "it signed off"


async def test_a_coroutine_that_takes_no_stop_does_not_keep_the_process(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    worker = fleet.start(grace=0)
    handle = await app.tasks[never_stops.name].enqueue()
    await eventually(lambda: ledger.lines("start"))
    worker.term()
    assert await ended(worker) == 0
    assert "coroutine run_on_loop" in worker.logged()
    info = await handle.info()
    assert info is not None
    assert (info.state, info.attempts, info.crashes) == (State.READY, 0, 0)


async def test_max_jobs_is_exactly_so_many(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    """Also of jobs that are over in no time, taken ahead by the hundred."""
    handles = [await app.tasks[quick.name].enqueue(n) for n in range(60)]
    worker = fleet.start(max_jobs=25)
    assert await ended(worker) == 75
    assert len(ledger.lines("start")) == 25
    assert [await handle.state() for handle in handles].count(State.SUCCEEDED) == 25
    assert "it has run 25 jobs" in worker.logged()


async def test_max_jobs_lets_the_last_ones_end(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start(max_jobs=2, grace=0)
    handles = [await app.tasks[quick.name].enqueue(n, pause=pause) for n, pause in enumerate([1.5, 0.0, 0.0])]
    assert await ended(worker) == 75
    states = [await handle.state() for handle in handles]
    assert states == [State.SUCCEEDED, State.SUCCEEDED, State.READY]


async def test_max_jobs_replaces_the_worker(app: Windlass, fleet: Fleet) -> None:
    worker = fleet.start(max_jobs=5)
    handles = [await app.tasks[quick.name].enqueue(n) for n in range(5)]
    assert [await within(handle) for handle in handles] == [0, 1, 2, 3, 4]
    assert await ended(worker) == 75


async def test_a_loop_blocked_beyond_the_limit_ends_the_process(app: Windlass, fleet: Fleet) -> None:
    worker = fleet.start(stall_warning=0.2, stall_limit=0.6)
    handle = await app.tasks[blocks_the_loop.name].enqueue(30.0)
    assert await ended(worker) == 70
    text = worker.logged()
    assert text.count("the event loop has been blocked for") == 2, "one warning, and the last word"
    assert "blocks_the_loop" in text
    assert await handle.state() is not State.SUCCEEDED


async def test_a_job_that_kills_its_worker_once_only(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start()
    handle = await app.tasks[once_only.name].enqueue()
    assert await ended(worker) == -signal.SIGKILL
    fleet.start()
    await eventually(lambda: state_is(handle, State.FAILED))
    assert len(ledger.lines("start")) == 1


async def test_a_job_that_kills_its_worker_is_run_again_by_the_next(
    app: Windlass, fleet: Fleet, ledger: Ledger
) -> None:
    handle = await app.tasks[kills_its_worker.name].enqueue()
    for crashes in (1, 2, 3):
        assert await ended(fleet.start()) == -signal.SIGKILL
        assert len(ledger.lines("start")) == crashes
    fleet.start()
    await eventually(lambda: state_is(handle, State.FAILED))
    assert len(ledger.lines("start")) == 3


async def test_a_worker_serves_only_its_queues(app: Windlass, fleet: Fleet) -> None:
    fleet.start(queues=["second"])
    other = await app.tasks[quick.name].enqueue(1)
    mine = await app.tasks["tests.worker.jobs.elsewhere"].enqueue(2)
    assert await within(mine) == 2
    assert await other.state() is State.READY


EAGER = """
import os, signal, sys
from windlass import Windlass
from windlass.worker.running import run_worker

app = Windlass("eager", sys.argv[1])

@app.task
async def quick() -> None: ...

@app.on_start
async def stop(state) -> None:
    os.kill(os.getpid(), signal.SIGTERM)

@app.on_stop
async def stopped(state) -> None:
    print("stopped in order")

sys.exit(run_worker(app, {}))
"""


async def test_a_signal_while_it_starts_is_heard(fleet: Fleet) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", EAGER, fleet.env["E2E_URL"], stdout=asyncio.subprocess.PIPE
    )
    out, _ = await within(process.communicate())
    assert (process.returncode, out) == (0, b"stopped in order\n")


async def test_a_signal_right_after_the_start_is_heard(app: Windlass, fleet: Fleet) -> None:
    """However early the signal comes, no claim is left behind for the lease to find."""
    handle = await app.tasks[quick.name].enqueue(1, pause=0.3)
    worker = fleet.start()
    await eventually(lambda: state_is(handle, State.RUNNING), every=0.001)
    worker.term()
    assert await ended(worker) == 0
    assert await handle.state() in (State.SUCCEEDED, State.READY)


async def test_waiting_goes_on_when_the_worker_dies(app: Windlass, fleet: Fleet, ledger: Ledger) -> None:
    worker = fleet.start()
    handle = await app.tasks[quick.name].enqueue(5, pause=0.8)
    waiting = asyncio.ensure_future(handle.result())
    await eventually(lambda: ledger.lines("start"))
    worker.kill()
    fleet.start()
    assert await within(waiting) == 5
