"""Cancels and stops as running jobs meet them: heard at once, with the reason, and at no cost, on every engine."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, deaf_child, until_stopping
from windlass import Cancel, JobCancelled, JobInfo, Reject, State, Windlass, current

posix = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    # A beat comes too late to be of any help here: what a worker is told has to arrive by itself.
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, lease="90s", beat="30s")
    yield app
    await app.close()


async def info_of(handle: Any) -> JobInfo:
    info = await handle.info()
    assert info is not None
    return info


class Busy:
    """Jobs that take all slots of a worker until they are stopped."""

    def __init__(self, app: Windlass) -> None:
        self.started = 0

        @app.task(name="busy")
        async def busy() -> None:
            self.started += 1
            await asyncio.sleep(60)

        self.busy = busy


@pytest.mark.parametrize("slots", [1, 3])
async def test_a_cancel_reaches_a_full_worker_at_once(app: Windlass, slots: int) -> None:
    jobs = Busy(app)
    async with app.worker(concurrency=slots, grace=0):
        handles = [await jobs.busy.enqueue() for _ in range(slots)]
        waiting = await jobs.busy.enqueue()
        await eventually(lambda: jobs.started == slots)
        assert await handles[-1].cancel("not needed")
        with pytest.raises(JobCancelled, match="not needed"):
            await within(handles[-1], 10)
        await eventually(lambda: jobs.started == slots + 1)
        assert await waiting.state() is State.RUNNING, "its slot went to the next"


async def test_a_cancel_reaches_a_quiet_and_a_stopping_worker_at_once(app: Windlass) -> None:
    jobs = Busy(app)
    async with app.worker(concurrency=2, grace=60) as worker:
        first, second = await jobs.busy.enqueue(), await jobs.busy.enqueue()
        await eventually(lambda: jobs.started == 2)
        await app.order("quiet", worker.id)
        await eventually(lambda: worker.pump.quiet)
        await first.cancel("while quiet")
        with pytest.raises(JobCancelled, match="while quiet"):
            await within(first, 10)
        worker.stop_requested.set()
        await eventually(lambda: worker.pump.stopping)
        await second.cancel("while stopping")
        with pytest.raises(JobCancelled, match="while stopping"):
            await within(second, 10)


async def test_the_cancel_of_a_workflow_reaches_a_full_worker_at_once(app: Windlass) -> None:
    jobs = Busy(app)
    async with app.worker(concurrency=1, grace=0):
        flow = await (jobs.busy.s() | jobs.busy.si()).enqueue()
        await eventually(lambda: jobs.started == 1)
        await flow.cancel("the order was called off")
        with pytest.raises(JobCancelled, match="the order was called off"):
            await within(flow, 10)


# -- the reason of a cancel


async def test_a_cancelled_thread_has_the_reason_of_the_cancel(app: Windlass) -> None:
    entered = threading.Event()

    @app.task(cancel_grace=0.05)
    def deaf() -> None:
        entered.set()
        while True:
            time.sleep(0.005)

    async with app.worker():
        handle = await deaf.enqueue()
        await eventually(entered.is_set)
        await handle.cancel("wrong customer")
        with pytest.raises(JobCancelled, match="wrong customer"):
            await within(handle)
    events = [event async for event in app.events(since="0", follow=False, kinds=["cancelled"])]
    assert [event.data for event in events] == [{"reason": "wrong customer"}]


async def test_a_bare_cancel_has_the_reason_asked_for_and_another_its_own(app: Windlass) -> None:
    @app.task
    async def stops(own: str) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise (Cancel(own) if own else Cancel()) from None

    async with app.worker() as worker:
        bare, own = await stops.enqueue(""), await stops.enqueue("my own")
        await eventually(lambda: worker.executor.active == 2)
        for handle in (bare, own):
            await handle.cancel("asked for")
            await eventually(handle.ready)
    assert [(await info_of(handle)).reason for handle in (bare, own)] == ["asked for", "my own"]


@posix
async def test_a_cancelled_child_has_the_reason_of_the_cancel(app: Windlass, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    (deaf,) = adopt(app, deaf_child, cancel_grace=0.05)
    async with app.worker(children=1):
        handle = await deaf.enqueue(str(ledger.path))
        await eventually(lambda: ledger.lines("start"))
        await handle.cancel("wrong customer")
        with pytest.raises(JobCancelled, match="wrong customer"):
            await within(handle)


# -- a stop that came to the end of its grace


async def clumsy_layer(job: Any, run: Any) -> Any:
    """Middleware whose clean-up fails as well."""
    try:
        return await run()
    finally:
        raise OSError("the middleware cannot clean up")


def assert_at_no_cost(info: JobInfo) -> None:
    assert (info.state, info.attempts, info.crashes, info.error) == (State.READY, 0, 0, None)


@pytest.mark.parametrize("retries", [0, 3])
async def test_whatever_clean_up_raises_a_stopped_coroutine_goes_back_at_no_cost(app: Windlass, retries: int) -> None:
    entered = asyncio.Event()

    @app.task(retries=retries, backoff=0)
    async def clumsy() -> None:
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise ConnectionError("already closed")

    async with app.worker(grace=0):
        handle = await clumsy.enqueue()
        await within(entered.wait())
    assert_at_no_cost(await info_of(handle))


async def test_what_a_stopped_task_decides_itself_stands(app: Windlass) -> None:
    @app.task
    async def decides(how: str) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise (Cancel("half done") if how == "cancel" else Reject("half done")) from None

    async with app.worker(grace=0) as worker:
        handles = [await decides.enqueue(how) for how in ("cancel", "reject")]
        await eventually(lambda: worker.executor.active == 2)
    infos = [await info_of(handle) for handle in handles]
    assert [(info.state, info.reason) for info in infos] == [
        (State.CANCELLED, "half done"),
        (State.FAILED, "half done"),
    ]


async def test_a_stopped_batch_goes_back_at_no_cost(app: Windlass) -> None:
    entered = asyncio.Event()

    @app.task(batch=2, batch_wait="5s")
    async def clumsy(items: list[int]) -> None:
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            raise ConnectionError("already closed")

    async with app.worker(grace=0):
        handles = [await clumsy.enqueue(n) for n in range(2)]
        await within(entered.wait())
    for handle in handles:
        assert_at_no_cost(await info_of(handle))


@pytest.mark.parametrize("layered", [False, True], ids=["plain", "in middleware"])
async def test_a_stopped_thread_goes_back_at_no_cost(app: Windlass, layered: bool) -> None:
    entered, left = threading.Event(), threading.Event()

    @app.task
    def clumsy() -> None:
        entered.set()
        try:
            while not left.is_set():
                time.sleep(0.005)
        finally:
            left.set()
            raise ConnectionError("already closed")

    if layered:
        app.around_run(clumsy_layer)
    async with app.worker(grace=0):
        handle = await clumsy.enqueue()
        await eventually(entered.is_set)
    assert_at_no_cost(await info_of(handle))
    await eventually(left.is_set)


@posix
@pytest.mark.parametrize("layered", [False, True], ids=["plain", "in middleware"])
async def test_a_stopped_child_goes_back_at_no_cost(app: Windlass, tmp_path: Path, layered: bool) -> None:
    ledger = Ledger(tmp_path / "ledger")
    (deaf,) = adopt(app, deaf_child)
    if layered:
        app.around_run(clumsy_layer)
    async with app.worker(children=1, grace=0):
        handle = await deaf.enqueue(str(ledger.path))
        await eventually(lambda: ledger.lines("start"))
    assert_at_no_cost(await info_of(handle))


# -- seeing that a stop has begun


async def test_a_coroutine_and_a_thread_see_that_a_stop_has_begun(app: Windlass) -> None:
    before: list[bool] = []

    @app.task
    async def on_loop() -> str:
        before.append(current().stopping)
        while not current().stopping:  # noqa: ASYNC110 - as a task would do it
            await asyncio.sleep(0.005)
        return "finished early"

    @app.task
    def in_thread() -> str:
        before.append(current().stopping)
        while not current().stopping:
            time.sleep(0.005)
        assert not current().cancelled
        return "finished early"

    async with app.worker(grace=60) as worker:
        handles = [await on_loop.enqueue(), await in_thread.enqueue()]
        await eventually(lambda: len(before) == 2)
        worker.stop_requested.set()
        assert [await within(handle) for handle in handles] == ["finished early"] * 2
    assert before == [False, False]


@posix
async def test_a_child_sees_that_a_stop_has_begun(app: Windlass, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    (polite,) = adopt(app, until_stopping)
    async with app.worker(children=1, grace=60, concurrency=2) as worker:
        first = await polite.enqueue(str(ledger.path))
        await eventually(lambda: ledger.lines("start"))
        second = await polite.enqueue(str(ledger.path))  # it waits for the child, and gets it when the stop has begun
        await eventually(lambda: worker.executor.active == 2)
        worker.stop_requested.set()
        assert await within(first) == "finished early"
        assert await within(second) == "finished early"
