"""When jobs start: expiry, delay, priority, order of queues. And how long they are kept."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worker.helpers import eventually, within
from tests.worker.life_kit import is_state
from windlass import (
    JobExpired,
    JobFailed,
    Keep,
    State,
    Windlass,
)

# -- expiry, times and order


async def test_an_expired_job_never_starts(app: Windlass) -> None:
    @app.task
    async def late() -> None:
        raise AssertionError("must not run")

    handle = await late.options(expires=0.05).enqueue()
    doomed = await late.options(expires=datetime.now(UTC) + timedelta(seconds=0.05), on_expire="fail").enqueue()
    await asyncio.sleep(0.06)
    async with app.worker():
        with pytest.raises(JobExpired):
            await within(handle)
        with pytest.raises(JobFailed, match="expired"):
            await within(doomed)
    assert [job.id for job in (await app.dead.list()).jobs] == [doomed.id]


async def test_a_job_expires_behind_a_busy_worker(app: Windlass) -> None:
    done = asyncio.Event()

    @app.task
    async def busy() -> None:
        await done.wait()

    async with app.worker(concurrency=1):
        first = await busy.enqueue()
        second = await busy.options(expires=0.1).enqueue()
        with pytest.raises(JobExpired):
            await within(second)
        done.set()
        await within(first)


@pytest.mark.parametrize("how", ["delay", "at", "countdown"])
async def test_delayed_jobs_start_on_time(app: Windlass, how: str) -> None:
    @app.task
    async def when() -> float:
        return time.time()

    async with app.worker():
        due = time.time() + 0.3
        options: Any = {"delay": 0.3} if how != "at" else {"at": datetime.fromtimestamp(due, UTC)}
        handle = await when.options(**options).enqueue()
        assert await handle.state() is State.SCHEDULED
        started = await within(handle)
    assert -0.005 <= started - due < 0.25


async def test_a_nearer_job_is_not_missed_behind_a_far_one(app: Windlass) -> None:
    @app.task
    async def when() -> float:
        return time.time()

    async with app.worker():
        await when.options(delay=60).enqueue()
        due = time.time() + 0.1
        handle = await when.options(delay=0.1).enqueue()
        assert -0.005 <= await within(handle) - due < 0.25


async def test_priority_first_then_order_of_arrival(app: Windlass) -> None:
    ran: list[str] = []

    @app.task
    async def run(name: str) -> None:
        ran.append(name)

    calls = [("a5", 5), ("b0", 0), ("c9", 9), ("d5", 5), ("e9", 9)]
    handles = [await run.options(priority=priority).enqueue(name) for name, priority in calls]
    async with app.worker(concurrency=1):
        for handle in handles:
            await within(handle)
    assert ran == ["c9", "e9", "a5", "d5", "b0"]


async def test_queues_are_served_in_the_given_order(app: Windlass) -> None:
    ran: list[str] = []

    @app.task
    async def run(name: str) -> None:
        ran.append(name)

    low = await run.options(queue="low", priority=9).enqueue("low")
    high = await run.options(queue="high").enqueue("high")
    async with app.worker(concurrency=1, queues=["high", "low"]):
        await within(low)
        await within(high)
    assert ran == ["high", "low"]


# -- keeping results


async def test_keep_is_exact(app: Windlass) -> None:
    @app.task(keep=Keep(count=3))
    async def kept(n: int) -> int:
        return n

    async with app.worker(concurrency=1):
        handles = [await kept.enqueue(n) for n in range(8)]
        await eventually(handles[-1].ready)
        await eventually(lambda: count_of(app, 3))
    assert [job.args["n"] for job in (await app.jobs(state="succeeded")).jobs] == [7, 6, 5]


async def count_of(app: Windlass, count: int) -> bool:
    return await app.queue("default").counts() == {"succeeded": count}


async def test_keep_nothing_still_delivers_the_result(app: Windlass) -> None:
    gate = asyncio.Event()

    @app.task(keep=0)
    async def gone() -> str:
        await gate.wait()
        return "here"

    async with app.worker():
        handle = await gone.enqueue()
        waiting = asyncio.ensure_future(handle.result())
        await eventually(lambda: is_state(handle, State.RUNNING))
        await asyncio.sleep(0.05)
        gate.set()
        assert await within(waiting) == "here"
    assert await handle.info() is None


async def test_result_false_stores_none_and_tells_success(app: Windlass) -> None:
    @app.task(result=False)
    async def quiet() -> str:
        return "not kept"

    async with app.worker():
        handle = await quiet.enqueue()
        assert await within(handle) is None
        assert await handle.successful()
        record = await handle.record()
        assert record is not None
        assert record.result is None


async def test_a_result_that_cannot_be_kept_is_a_dead_letter(app: Windlass) -> None:
    @app.task(retries=3, backoff=0)
    async def odd() -> Any:
        return object()

    async with app.worker():
        with pytest.raises(JobFailed, match="cannot be kept"):
            await within(await odd.enqueue())
