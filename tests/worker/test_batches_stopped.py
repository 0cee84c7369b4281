"""Batches whose members time out, are cancelled, lost or handed back."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.worker.batches_kit import Calls
from tests.worker.helpers import eventually, within
from windlass import JobCancelled, JobFailed, State, Windlass
from windlass.store.jobs import Declared, Presence, Want


async def test_a_timeout_is_for_the_batch_and_each_retries(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=2, batch_wait="50ms", timeout="100ms", retries=1, backoff=0.01)
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        if len(calls) == 1:
            await asyncio.sleep(30)
        return docs

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(1), index.s(2)])
        assert [await within(handle) for handle in handles] == [1, 2]
        info = await handles[0].info()
        assert info.attempts == 1


async def test_a_thread_that_times_out_keeps_one_slot(app: Windlass) -> None:
    free = threading.Event()

    @app.task(batch=2, batch_wait="50ms", timeout="100ms")
    def index(docs: list[int]) -> None:
        while not free.is_set():
            time.sleep(0.01)

    async with app, app.worker(concurrency=5) as worker:
        for handle in await app.enqueue_many([index.s(1), index.s(2)]):
            with pytest.raises(JobFailed, match="timeout"):
                await within(handle)
        # SoftTimeout may have ended the thread by now: then nothing is stuck.
        free.set()
        await eventually(lambda: not worker.executor.stuck and not worker.executor.held)
        assert worker.executor.room(0, 0) == 5


async def test_a_cancelled_member_leaves_before_the_start(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=10, batch_wait="400ms")
    async def index(docs: list[int]) -> None:
        calls.append(docs)

    async with app, app.worker() as worker:
        stays, goes = await app.enqueue_many([index.s(1), index.s(2)])
        await eventually(lambda: len(worker.executor.held) == 2)
        await goes.cancel()
        with pytest.raises(JobCancelled):
            await within(goes)
        await within(stays)
    assert calls == [[1]]


async def test_cancelling_one_running_member_does_not_stop_the_others(app: Windlass) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task(batch=2, batch_wait="2s")
    async def index(docs: list[int]) -> list[int]:
        started.set()
        await go.wait()
        return docs

    async with app, app.worker() as worker:
        one, other = await app.enqueue_many([index.s(1), index.s(2)])
        await within(started.wait())
        await one.cancel()
        await eventually(lambda: worker.executor.held[one.id].current.cancelled)
        go.set()
        assert await within(other) == 2
        assert await within(one) == 1, "success wins over a cancel"


async def test_a_batch_nobody_wants_any_more_is_stopped(app: Windlass) -> None:
    started = asyncio.Event()

    @app.task(batch=2, batch_wait="2s")
    async def index(docs: list[int]) -> None:
        started.set()
        await asyncio.sleep(60)

    async with app, app.worker():
        handles = await app.enqueue_many([index.s(1), index.s(2)])
        await within(started.wait())
        for handle in handles:
            await handle.cancel()
        for handle in handles:
            with pytest.raises(JobCancelled):
                await within(handle)


async def test_a_lost_member_leaves_and_the_others_settle(app: Windlass) -> None:
    """Nothing is written about the one that was lost, and it runs again."""
    calls: Calls = []
    started, go = asyncio.Event(), asyncio.Event()

    @app.task(batch=3, batch_wait="500ms")
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        started.set()
        await go.wait()
        return docs

    async with app, app.worker(concurrency=1) as worker:
        early, late, stays = await app.enqueue_many([index.s(n) for n in (1, 2, 3)])
        await within(started.wait())
        worker.executor.drop([late.id])
        assert late.id not in worker.executor.held
        go.set()
        assert await within(stays) == 3
        assert await within(early) == 1
        assert await within(late) == 2, "the store gave it back after the next beat"
        await eventually(lambda: not worker.executor.held)
        assert worker.executor.room(0, 0) == 1
    assert [2] in calls


async def test_a_member_lost_while_it_gathers_is_not_called(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=3, batch_wait="300ms")
    async def index(docs: list[int]) -> list[int]:
        calls.append(docs)
        return docs

    async with app, app.worker() as worker:
        stays, goes = await app.enqueue_many([index.s(n) for n in (1, 2)])
        await eventually(lambda: len(worker.executor.held) == 2)
        worker.executor.drop([goes.id])
        assert await within(stays) == 1
        assert calls == [[1]]
        assert await within(goes) == 2


async def test_a_batch_gathers_no_longer_when_a_job_must_run_alone(app: Windlass) -> None:
    @app.task(batch=10, batch_wait="1h")
    async def index(docs: list[int]) -> list[int]:
        return docs

    @app.task(name="fragile", max_crashes=2, queue="fragile")
    async def fragile() -> str:
        return "alone"

    async with app:
        store, alone = (await app.client()).store, await fragile.enqueue()
        await store.beat(Presence(id="dies", queues=["fragile"], declares={"fragile": Declared()}), 0, [])
        assert (await store.exchange("dies", 1, [], Want([("fragile", 1)], 1))).claims
        async with app.worker(concurrency=5) as worker:
            gathers = await index.enqueue(1)
            await eventually(lambda: worker.executor.gathering == 1)
            await store.leave("dies", crashed=True)
            assert await within(alone) == "alone"
            assert await within(gathers) == 1


async def test_a_gathering_batch_is_handed_back_at_shutdown(app: Windlass) -> None:
    calls: Calls = []

    @app.task(batch=10, batch_wait="1h")
    async def index(docs: list[int]) -> None:
        calls.append(docs)

    async with app:
        async with app.worker() as worker:
            handles = await app.enqueue_many([index.s(1), index.s(2)])
            await eventually(lambda: len(worker.executor.held) == 2)
        infos = [await handle.info() for handle in handles]
        assert [info.state for info in infos] == [State.READY, State.READY]
        assert [info.attempts for info in infos] == [0, 0]
    assert not calls


async def test_a_running_batch_is_handed_back_at_the_end_of_the_grace(app: Windlass) -> None:
    started = asyncio.Event()

    @app.task(batch=2, batch_wait="1s")
    async def index(docs: list[int]) -> None:
        started.set()
        await asyncio.sleep(60)

    async with app:
        async with app.worker(grace=0.05):
            handles = await app.enqueue_many([index.s(1), index.s(2)])
            await within(started.wait())
        assert [(await handle.info()).state for handle in handles] == [State.READY, State.READY]
