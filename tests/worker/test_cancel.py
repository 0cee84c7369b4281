"""Cancelling a job in every state and every place: cooperative first, forced after the grace."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest

from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, deaf_child, until_cancelled
from windlass import Cancel, JobCancelled, State, Windlass, current
from windlass.worker import executor


async def state_of(app: Windlass, id: str) -> State | None:
    return await app.job(id).state()


@pytest.mark.parametrize("options", [{}, {"delay": 60}], ids=["ready", "scheduled"])
async def test_before_it_starts(app: Windlass, options: Any) -> None:
    @app.task
    async def never() -> None:
        raise AssertionError("must not run")

    handle = await never.options(**options).enqueue()
    assert await handle.cancel("no need")
    async with app.worker():
        with pytest.raises(JobCancelled, match="no need"):
            await within(handle)
    info = await handle.info()
    assert info is not None
    assert (info.state, info.reason) == (State.CANCELLED, "no need")


async def test_a_coroutine(app: Windlass) -> None:
    cleaned = asyncio.Event()

    @app.task(retries=5)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            assert current().cancelled
            await asyncio.sleep(0.01)
            cleaned.set()

    async with app.worker() as worker:
        handle = await slow.enqueue()
        await eventually(lambda: worker.executor.active)
        began = time.monotonic()
        assert await handle.cancel()
        with pytest.raises(JobCancelled):
            await within(handle)
        assert time.monotonic() - began < 0.35, "the worker was woken, not found by its beat"
        assert cleaned.is_set()


async def test_a_coroutine_that_finishes_all_the_same_has_succeeded(app: Windlass) -> None:
    @app.task
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "finished"
        return "slept"

    async with app.worker() as worker:
        handle = await stubborn.enqueue()
        await eventually(lambda: worker.executor.active)
        await handle.cancel()
        assert await within(handle) == "finished"


async def test_a_coroutine_that_fails_while_it_stops_has_not_been_retried(app: Windlass) -> None:
    """Retry loses to cancel."""

    @app.task(retries=5, backoff=0)
    async def clumsy() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None

    async with app.worker() as worker:
        handle = await clumsy.enqueue()
        await eventually(lambda: worker.executor.active)
        await handle.cancel("stop")
        with pytest.raises(JobCancelled):
            await within(handle)


async def test_a_thread_that_looks(app: Windlass) -> None:
    entered = threading.Event()

    @app.task
    def polite() -> str:
        entered.set()
        while not current().cancelled:
            time.sleep(0.005)
        raise Cancel("as asked")

    async with app.worker():
        handle = await polite.enqueue()
        await eventually(entered.is_set)
        assert await handle.cancel()
        with pytest.raises(JobCancelled, match="as asked"):
            await within(handle)


async def test_a_thread_that_does_not_look_is_interrupted_after_the_grace(app: Windlass) -> None:
    entered = threading.Event()

    @app.task(cancel_grace=0.2)
    def deaf() -> None:
        entered.set()
        while True:
            time.sleep(0.005)

    async with app.worker():
        handle = await deaf.enqueue()
        await eventually(entered.is_set)
        began = time.monotonic()
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await within(handle)
        assert time.monotonic() - began >= 0.19


async def test_a_process_that_looks(app: Windlass, ledger: Ledger) -> None:
    (polite,) = adopt(app, until_cancelled)
    async with app.worker(children=1):
        handle = await polite.enqueue(str(ledger.path))
        await eventually(lambda: ledger.lines("start"))
        await handle.cancel()
        assert await within(handle) == "saw it", "it returned, so it succeeded"


async def test_a_process_that_does_not_look_is_killed_after_the_grace(app: Windlass, ledger: Ledger) -> None:
    (deaf,) = adopt(app, deaf_child, cancel_grace=0.2)
    async with app.worker(children=1):
        handle = await deaf.enqueue(str(ledger.path))
        (line,) = await eventually(lambda: ledger.lines("start"))
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await within(handle)
        await eventually(lambda: not alive(line.pid))
        info = await handle.info()
        assert info is not None
        assert (info.crashes, info.attempts) == (0, 0), "a cancelled job is not charged for the kill"


async def test_a_process_job_that_still_waits_for_a_child(app: Windlass, ledger: Ledger) -> None:
    (deaf,) = adopt(app, deaf_child, cancel_grace=0.1)
    async with app.worker(children=1, concurrency=3):
        first, second = [await deaf.enqueue(str(ledger.path)) for _ in range(2)]
        await eventually(lambda: ledger.lines("start"))
        await eventually(lambda: is_running(app, second.id))
        await second.cancel()
        with pytest.raises(JobCancelled):
            await within(second, 10)
        await first.cancel()
        with pytest.raises(JobCancelled):
            await within(first, 10)
    assert len(ledger.lines("start")) == 1


async def is_running(app: Windlass, id: str) -> bool:
    return await state_of(app, id) is State.RUNNING


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_job_claimed_ahead_that_has_not_started(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "WAIT_LIMIT", 60)  # so that only the cancel can give it back
    release = asyncio.Event()
    ran: list[int] = []

    @app.task
    async def slow(n: int) -> int:
        ran.append(n)
        await release.wait()
        return n

    async with app.worker(concurrency=1) as worker:
        first = await slow.enqueue(1)
        await eventually(lambda: worker.executor.active)
        worker.pump._rate = 200.0
        second = await slow.enqueue(2)
        worker.pump.poke()
        await eventually(lambda: worker.executor.waiting)
        await second.cancel()
        with pytest.raises(JobCancelled):
            await within(second, 5)
        release.set()
        assert await within(first) == 1
    assert ran == [1]


async def test_between_two_attempts(app: Windlass) -> None:
    @app.task(retries=3, backoff=60)
    async def failing() -> None:
        raise ValueError("no")

    async with app.worker():
        handle = await failing.enqueue()
        await eventually(lambda: scheduled(app, handle.id))
        assert await handle.cancel()
        with pytest.raises(JobCancelled):
            await within(handle)


async def scheduled(app: Windlass, id: str) -> bool:
    return await state_of(app, id) is State.SCHEDULED


async def test_on_another_worker_of_another_process(fleet: Any) -> None:
    from tests.worker.jobs import caller, quick

    fleet.start()
    async with caller(fleet.env["E2E_URL"]) as app:
        handle = await app.tasks[quick.name].enqueue(1, pause=60)
        await eventually(lambda: is_running(app, handle.id))
        assert await handle.cancel("from afar")
        with pytest.raises(JobCancelled):
            await within(handle)


async def test_a_job_that_is_over_stays_as_it_is(app: Windlass) -> None:
    @app.task
    async def quick() -> int:
        return 1

    async with app.worker():
        handle = await quick.enqueue()
        await within(handle)
        assert not await handle.cancel()
        assert await handle.successful()


async def test_cancel_races_with_the_end_in_exactly_one_state(app: Windlass) -> None:
    @app.task
    async def short() -> int:
        await asyncio.sleep(0.002)
        return 1

    async with app.worker(concurrency=20):
        handles = [await short.enqueue() for _ in range(200)]
        await asyncio.gather(*(handle.cancel() for handle in handles[::2]))
        for handle in handles:
            await eventually(handle.ready)
    ends = [await handle.state() for handle in handles]
    assert set(ends) <= {State.SUCCEEDED, State.CANCELLED}
    assert set(ends[1::2]) == {State.SUCCEEDED}
    page = [event async for event in app.events(since="0", follow=False)]
    kinds = [event.job for event in page if event.kind in ("succeeded", "cancelled")]
    assert sorted(kinds) == sorted(handle.id for handle in handles)
