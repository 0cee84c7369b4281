"""Timeouts of jobs in every kind of place, soft and hard, and the death of a child."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import pytest

from tests.worker.helpers import Ledger, within
from tests.worker.jobs import adopt, child_dies, child_retries, deaf_child, in_child, soft_in_child, soft_in_child_async
from windlass import (
    JobFailed,
    SoftTimeout,
    State,
    Windlass,
    current,
)

# -- timeouts


async def test_a_coroutine_is_cancelled_at_its_timeout(app: Windlass) -> None:
    stopped = asyncio.Event()

    @app.task(timeout=0.1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    async with app.worker():
        with pytest.raises(JobFailed, match=r"longer than its timeout of 0\.1 s") as caught:
            await within(await slow.enqueue())
        assert caught.value.error_type == "windlass.errors.TaskTimeout"
        await within(stopped.wait())


async def test_a_coroutine_that_swallows_the_timeout_succeeds(app: Windlass) -> None:
    @app.task(timeout=0.1)
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "made it"
        return "slept"

    async with app.worker():
        assert await within(await stubborn.enqueue()) == "made it"


async def test_a_timeout_counts_as_an_attempt_and_is_retried(app: Windlass) -> None:
    @app.task(timeout=0.1, retries=1, backoff=0.01)
    async def slow_once() -> int:
        if current().attempt == 1:
            await asyncio.sleep(60)
        return current().attempt

    async with app.worker():
        assert await within(await slow_once.enqueue()) == 2


async def test_soft_timeout_in_a_coroutine(app: Windlass) -> None:
    @app.task(soft_timeout=0.1, timeout=10)
    async def tidy() -> str:
        try:
            await asyncio.sleep(60)
        except SoftTimeout as error:
            await asyncio.sleep(0.01)  # the clean-up may wait as usual
            return f"cleaned up: {error}"
        return "slept"

    @app.task(soft_timeout=0.1)
    async def untidy() -> None:
        await asyncio.sleep(60)

    async with app.worker():
        assert "soft timeout of 0.1 s" in await within(await tidy.enqueue())
        with pytest.raises(JobFailed) as caught:
            await within(await untidy.enqueue())
        assert caught.value.error_type == "windlass.errors.SoftTimeout"


async def test_soft_then_hard_timeout_in_a_coroutine(app: Windlass) -> None:
    @app.task(soft_timeout=0.1, timeout=0.3)
    async def deaf() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except SoftTimeout:
                continue

    async with app.worker():
        with pytest.raises(JobFailed) as caught:
            await within(await deaf.enqueue())
        assert caught.value.error_type == "windlass.errors.TaskTimeout"


async def test_soft_timeout_in_a_thread(app: Windlass) -> None:
    @app.task(soft_timeout=0.1)
    def spins() -> str:
        try:
            while True:
                time.sleep(0.005)
        except SoftTimeout:
            return "cleaned up"

    async with app.worker():
        assert await within(await spins.enqueue()) == "cleaned up"


async def test_a_thread_that_times_out_keeps_its_slot_and_its_late_result_is_refused(app: Windlass) -> None:
    release, entered = threading.Event(), threading.Event()

    @app.task(timeout=0.1)
    def stuck() -> str:
        entered.set()
        while not release.is_set():
            try:
                release.wait(0.01)
            except SoftTimeout:
                continue
        return "late"

    @app.task
    async def other() -> str:
        return "ran"

    async with app.worker(concurrency=1) as worker:
        handle = await stuck.enqueue()
        with pytest.raises(JobFailed, match="timeout"):
            await within(handle)
        assert worker.executor.stuck == 1
        waiting = await other.enqueue()
        await asyncio.sleep(0.3)  # nothing can be waited for: the point is that it does not start
        assert await waiting.state() is State.READY
        release.set()
        assert await within(waiting) == "ran"
        assert worker.executor.stuck == 0
        assert await handle.state() is State.FAILED


@pytest.mark.parametrize("task", [soft_in_child, soft_in_child_async], ids=["plain", "async"])
async def test_soft_timeout_in_a_process(app: Windlass, task: Any) -> None:
    (soft,) = adopt(app, task, soft_timeout=1.0)
    async with app.worker(children=1):
        assert await within(await soft.enqueue()) == "cleaned up"


async def test_a_process_is_killed_at_its_timeout(app: Windlass, ledger: Ledger) -> None:
    (deaf,) = adopt(app, deaf_child, timeout=1.0)
    async with app.worker(children=1):
        with pytest.raises(JobFailed, match="timeout of 1 s") as caught:
            await within(await deaf.enqueue(str(ledger.path)))
        assert caught.value.error_type == "windlass.errors.TaskTimeout"
        (line,) = ledger.lines("start")
        with pytest.raises(ProcessLookupError):
            os.kill(line.pid, 0)


async def test_waiting_for_a_child_does_not_count_against_the_timeout(app: Windlass, ledger: Ledger) -> None:
    """One child, three jobs of 0.5 s with a timeout of 1.2 s: the last one waits a second before it starts."""
    (slow,) = adopt(app, in_child, timeout=1.2)
    async with app.worker(children=1, concurrency=5):
        assert await within(await slow.enqueue(0)) == 0  # the child is up now
        handles = [await slow.enqueue(n, pause=0.5) for n in range(3)]
        assert [await within(handle) for handle in handles] == [0, 1, 2]


async def test_retry_in_a_process(app: Windlass) -> None:
    (again,) = adopt(app, child_retries)
    async with app.worker(children=1):
        assert await within(await again.options(retries=5).enqueue()) == 3


async def test_the_death_of_a_child_is_charged_to_its_job_alone(app: Windlass) -> None:
    (dies,) = adopt(app, child_dies)
    async with app.worker(children=1):
        handle = await dies.enqueue()
        with pytest.raises(JobFailed, match="worker crashed"):
            await within(handle)
        info = await handle.info()
        assert info is not None
        assert (info.crashes, info.attempts) == (3, 0)
        (job,) = (await app.dead.list(fingerprint="child-died")).jobs
        assert job.id == handle.id
