"""Handles: what a caller can ask of a job, in any state, and that waiting never hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.helpers import SHORT, eventually, within
from windlass import (
    ConfigError,
    JobCancelled,
    JobExpired,
    JobFailed,
    JobLost,
    ResultTimeout,
    State,
    StoreError,
    SyncHandle,
    Windlass,
    current,
)
from windlass.connections import waiter


@pytest.fixture(params=["memory", "sqlite"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    app = Windlass("handles", url, **SHORT)

    @app.task(name="add")
    async def add(x: int, y: int = 1) -> int:
        return x + y

    @app.task(name="fail", retries=1, backoff=0)
    async def fail() -> None:
        current().log(f"attempt {current().attempt}", "warning")
        raise LookupError("nothing there")

    yield app
    await app.close()


async def test_a_handle_of_a_success(app: Windlass) -> None:
    async with app.worker():
        handle = await app.tasks["add"].enqueue(1)
        assert await within(handle) == 2
        assert await handle.result(timeout=5) == 2, "as often as one likes"
        assert await handle.state() is State.SUCCEEDED
        assert (await handle.ready(), await handle.successful(), await handle.failed()) == (True, True, False)
        assert await handle.error() is None
        assert await handle.progress() is None
        info = await handle.info()
        assert info is not None
        assert info.result == 2
        assert info.enqueued_at <= info.started_at <= info.finished_at  # type: ignore[operator]
        assert repr(handle) == f"<job {handle.id}>"


async def test_a_handle_of_a_failure(app: Windlass) -> None:
    async with app.worker():
        handle = await app.tasks["fail"].enqueue()
        with pytest.raises(JobFailed, match=r"no retries left.*LookupError: nothing there") as caught:
            await within(handle)
        assert (caught.value.error_type, caught.value.error_message) == ("LookupError", "nothing there")
        assert 'raise LookupError("nothing there")' in caught.value.traceback
        assert (await handle.ready(), await handle.successful(), await handle.failed()) == (True, False, True)
        error = await handle.error()
        assert error is not None
        assert (error.type, len(error.attempts)) == ("LookupError", 1)
        lines = await handle.logs()
        assert [(line.level, line.text) for line in lines] == [("warning", "attempt 1"), ("warning", "attempt 2")]
        assert [line.text for line in await handle.logs(after=lines[0].n)] == ["attempt 2"]


async def test_progress_is_seen_while_the_job_runs(app: Windlass) -> None:
    release = asyncio.Event()

    @app.task(name="slow")
    async def slow() -> None:
        current().progress(25, "started")
        current().progress(50, "half", file="a.txt")
        await release.wait()

    async with app.worker():
        handle = await slow.enqueue()
        progress = await eventually(handle.progress)
        assert (progress.percent, progress.message, progress.data) == (50.0, "half", {"file": "a.txt"})
        assert (await handle.state(), await handle.ready()) == (State.RUNNING, False)
        release.set()
        await within(handle)
        assert (await handle.progress()).percent == 50.0  # type: ignore[union-attr]


async def test_a_result_that_does_not_come_in_time(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    with pytest.raises(ResultTimeout, match="it goes on"):
        await handle.result(timeout=0.05)
    with pytest.raises(TimeoutError):
        await handle.result(timeout="50ms")
    async with app.worker():
        assert await within(handle) == 2


async def test_many_may_wait_for_the_same_job(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    waiting = [asyncio.ensure_future(app.job(handle.id).result()) for _ in range(20)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    async with app.worker():
        assert await within(asyncio.gather(*waiting[1:])) == [2] * 19


async def test_waiting_goes_on_over_a_restart_of_the_worker(app: Windlass) -> None:
    handle = await app.tasks["add"].options(delay=0.2).enqueue(1)
    waiting = asyncio.ensure_future(handle.result())
    async with app.worker():
        await asyncio.sleep(0.02)
    async with app.worker():
        assert await within(waiting) == 2


async def test_results_are_pushed(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not polled: with the backstop switched off they still come, large ones included."""
    monkeypatch.setattr(waiter, "REWATCH_SECONDS", 1000.0)

    @app.task(name="big")
    async def big(size: int) -> str:
        await asyncio.sleep(0.02)
        return "x" * size

    async with app.worker():
        handles = [await big.enqueue(size) for size in (1, 10_000, 50_000, 500_000)]
        assert [len(text) for text in await within(asyncio.gather(*(h.result() for h in handles)), 5)] == [
            1, 10_000, 50_000, 500_000,
        ]  # fmt: skip


async def test_a_lost_message_is_made_up_for(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiter, "REWATCH_SECONDS", 0.2)
    handle = await app.tasks["add"].enqueue(1)
    waiting = asyncio.ensure_future(handle.result())
    own = await app.client()
    await eventually(lambda: own.waiter._rewatcher is not None)
    await own.store.unwatch(own.name)
    async with app.worker():
        assert await within(waiting, 5) == 2


# -- the ends that are not a result


async def test_an_unknown_job(app: Windlass) -> None:
    handle = app.job("no-such-job")
    with pytest.raises(JobLost, match="no record of job no-such-job"):
        await within(handle, 5)
    assert await handle.info() is None
    assert await handle.state() is None
    assert await handle.error() is None
    assert await handle.progress() is None
    assert await handle.logs() == []
    assert (await handle.ready(), await handle.successful(), await handle.failed()) == (False, False, False)
    assert (await handle.cancel(), await handle.retry(), await handle.forget()) == (False, False, False)


async def test_a_job_that_is_deleted_while_someone_waits(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    waiting = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0.02)
    assert await handle.forget()
    with pytest.raises(JobLost):
        await within(waiting, 5)


async def test_a_job_whose_retention_has_passed(app: Windlass) -> None:
    async with app.worker():
        handle = await app.tasks["add"].options(keep=0).enqueue(1)
        await eventually(lambda: is_gone(app, handle.id))
        with pytest.raises(JobLost, match="see keep="):
            await within(handle, 5)


async def is_gone(app: Windlass, id: str) -> bool:
    return await app.job(id).info() is None


async def test_a_job_expires_although_no_worker_lives(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiter, "REWATCH_SECONDS", 0.1)
    handle = await app.tasks["add"].options(expires=0.05).enqueue(1)
    with pytest.raises(JobExpired):
        await within(handle, 5)


async def test_closing_the_app_ends_the_waiting(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    waiting = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0.02)
    await app.close()
    with pytest.raises(StoreError, match="closed while waiting"):
        await within(waiting, 5)


async def test_a_result_that_does_not_fit_its_annotation(app: Windlass) -> None:
    """Another service ran it: what it gave is not what this code says it gives."""
    other = Windlass("other", app.url)

    @other.task(name="add")
    async def add(x: int, y: int = 1) -> str:
        return "a text"

    async with other.worker():
        handle = await app.tasks["add"].enqueue(1)
        with pytest.raises(Exception, match="does not fit its annotation"):
            await within(handle)
        assert await within(app.job(handle.id)) == "a text"
    await other.close()


# -- acting on a job


async def test_cancel_before_it_starts(app: Windlass) -> None:
    for options in ({}, {"delay": 60}):
        handle = await app.tasks["add"].options(**options).enqueue(1)
        assert await handle.cancel("changed my mind")
        with pytest.raises(JobCancelled, match="changed my mind"):
            await within(handle)
        assert not await handle.cancel()


async def test_retry_runs_an_ended_job_again(app: Windlass) -> None:
    async with app.worker():
        handle = await app.tasks["add"].enqueue(1)
        assert await within(handle) == 2
        assert await handle.retry()
        await eventually(handle.ready)
        info = await handle.info()
        assert info is not None
        assert (info.run, info.state, info.attempts) == (2, State.SUCCEEDED, 0)
        failed = await app.tasks["fail"].enqueue()
        await eventually(failed.ready)
        assert await failed.retry()
        await eventually(failed.ready)
        assert (await failed.info()).run == 2  # type: ignore[union-attr]


async def test_retry_starts_a_waiting_retry_now(app: Windlass) -> None:
    handle = await app.tasks["add"].options(delay=3600).enqueue(1)
    assert await handle.retry()
    assert await handle.state() is State.READY
    assert not await handle.retry(), "a ready job needs no help"


async def test_a_running_job_is_not_forgotten(app: Windlass) -> None:
    release = asyncio.Event()

    @app.task(name="slow")
    async def slow() -> str:
        await release.wait()
        return "done"

    async with app.worker() as worker:
        handle = await slow.enqueue()
        await eventually(lambda: worker.executor.active)
        assert not await handle.forget()
        release.set()
        assert await within(handle) == "done"
        assert await handle.forget()
        assert await handle.info() is None


# -- for sync code


async def test_a_sync_handle_has_it_all(app: Windlass) -> None:
    def use() -> Any:
        handle = app.tasks["add"].delay(1)
        assert isinstance(handle, SyncHandle)
        assert handle.get(timeout=10) == 2
        assert (handle.state, handle.ready(), handle.successful(), handle.failed()) == (
            State.SUCCEEDED, True, True, False,
        )  # fmt: skip
        assert handle.info().result == 2  # type: ignore[union-attr]
        assert (handle.error(), handle.progress(), handle.logs()) == (None, None, [])
        assert not handle.cancel()
        assert handle.retry()
        assert handle.get(timeout=10) == 2
        assert handle.forget()
        assert handle.info() is None
        failing = app.tasks["fail"].delay()
        with pytest.raises(JobFailed):
            failing.get(timeout=10)
        slow = app.tasks["add"].options(delay=60).delay(1)
        with pytest.raises(ResultTimeout):
            slow.get(timeout=0.05)
        assert slow.cancel()
        assert app.sync.job(slow.id).state is State.CANCELLED
        assert repr(slow) == f"<job {slow.id}>"
        app.sync.close()
        return handle

    async with app.worker():
        handle = await within(asyncio.to_thread(use), 30)
        with pytest.raises(JobLost):
            await within(handle)


async def test_get_refuses_to_block_a_loop(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    with pytest.raises(ConfigError, match="write `await handle` there"):
        handle.get(timeout=1)


async def test_an_interrupted_get_stops_waiting(app: Windlass) -> None:
    """Ctrl-C in a script: the wait on the portal's loop ends with it."""
    handle = await app.tasks["add"].enqueue(1)

    class Interrupted(BaseException):
        pass

    ended = threading.Event()

    async def wait() -> int:
        try:
            return await handle.result()
        finally:
            ended.set()

    def use() -> None:
        future = app.portal.submit(wait)
        threading.Timer(0.05, future.cancel).start()
        with pytest.raises(BaseException):  # noqa: B017, PT011
            future.result(timeout=10)
        app.sync.close()

    await within(asyncio.to_thread(use))
    assert ended.wait(5)
