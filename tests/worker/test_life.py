"""A job's life on a worker: retries, signals, timeouts, expiry, order and the dead letters, on each engine."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, in_child
from tests.worker.life_kit import is_state
from windlass import (
    Cancel,
    Exponential,
    Fixed,
    Handle,
    JobCancelled,
    JobFailed,
    Reject,
    Retry,
    Snooze,
    State,
    Windlass,
    current,
)

# -- retries


async def failing_times(app: Windlass, **options: Any) -> list[float]:
    """When each attempt of an always failing task began."""
    began: list[float] = []

    @app.task(name="failing", **options)
    async def failing() -> None:
        began.append(time.monotonic())
        raise ValueError(f"attempt {current().attempt}")

    async with app.worker():
        handle = await failing.enqueue()
        with pytest.raises(JobFailed) as caught:
            await within(handle)
    assert caught.value.error_type == "ValueError"
    assert caught.value.error_message == f"attempt {len(began)}"
    info = await handle.info()
    assert info is not None
    assert (info.state, info.attempts, info.crashes) == (State.FAILED, len(began), 0)
    error = await handle.error()
    assert error is not None
    assert [(item.attempt, item.message) for item in error.attempts] == [
        (n, f"attempt {n}") for n in range(1, len(began))
    ]
    assert "raise ValueError" in error.traceback
    assert "/windlass/worker/" not in error.traceback
    return began


def gaps(began: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(began)]


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (0.05, [0.05, 0.05, 0.05]),
        ("60ms", [0.06, 0.06, 0.06]),
        (Fixed(0.05), [0.05, 0.05, 0.05]),
        (Exponential(base=0.04, factor=2, jitter=0), [0.04, 0.08, 0.16]),
        ([0.03, "0.12s"], [0.03, 0.12, 0.12]),
        (lambda attempt, exc: 0.04 * attempt, [0.04, 0.08, 0.12]),
    ],
    ids=["number", "text", "fixed", "exponential", "list", "function"],
)
async def test_retries_come_after_the_backoff(app: Windlass, backoff: Any, delays: list[float]) -> None:
    began = await failing_times(app, retries=3, backoff=backoff)
    assert len(began) == 4
    for gap, delay in zip(gaps(began), delays, strict=True):
        assert delay - 0.002 <= gap < delay + 0.5


async def test_no_retries_unless_asked_for(app: Windlass) -> None:
    assert len(await failing_times(app)) == 1


async def test_a_backoff_function_may_give_up(app: Windlass) -> None:
    began = await failing_times(app, retries=9, backoff=lambda attempt, exc: None if attempt == 2 else 0.001)
    assert len(began) == 2


async def test_a_backoff_function_that_raises_loses_nothing(app: Windlass) -> None:
    def broken(attempt: int, exc: BaseException) -> float:
        raise ZeroDivisionError("in the backoff")

    @app.task(retries=3, backoff=broken)
    async def failing() -> None:
        raise ValueError("the task's own")

    async with app.worker():
        with pytest.raises(JobFailed, match="the retry policy raised") as caught:
            await within(await failing.enqueue())
    assert "ZeroDivisionError" in caught.value.traceback
    assert "the task's own" in caught.value.traceback


@pytest.mark.parametrize(
    ("options", "attempts", "reason"),
    [
        ({"retry_on": KeyError}, 1, "ValueError is not in retry_on"),
        ({"retry_on": [KeyError, ValueError]}, 3, "no retries left"),
        ({"retry_on": lambda exc: "attempt 1" in str(exc)}, 2, "ValueError is not in retry_on"),
        ({"give_up_on": ValueError}, 1, "gave up on ValueError"),
        ({"give_up_on": lambda exc: "attempt 2" in str(exc)}, 2, "gave up on ValueError"),
        ({"retry_on": Exception, "give_up_on": LookupError}, 3, "no retries left"),
    ],
)
async def test_which_errors_are_retried(app: Windlass, options: Any, attempts: int, reason: str) -> None:
    began = await failing_times(app, retries=2, backoff=0.001, **options)
    assert len(began) == attempts
    (job,) = (await app.dead.list()).jobs
    assert job.reason == reason


async def test_a_retry_is_scheduled_and_counted(app: Windlass) -> None:
    @app.task(retries=1, backoff=60)
    async def failing() -> None:
        raise ValueError("no")

    async with app.worker():
        handle = await failing.enqueue()
        await eventually(lambda: is_state(handle, State.SCHEDULED))
        info = await handle.info()
        assert info is not None
        assert (info.attempts, info.state) == (1, State.SCHEDULED)
        assert info.error is not None
        assert await handle.retry()
        with pytest.raises(JobFailed):
            await within(handle)


# -- what a task may say about its own job


async def run_once(app: Windlass, body: Callable[[], Awaitable[Any]], **options: Any) -> Handle[Any]:
    task = app.task(name="body", **options)(body)
    async with app.worker():
        handle: Handle[Any] = await task.enqueue()
        await eventually(handle.ready)
    return handle


async def test_retry_with_a_delay_costs_an_attempt(app: Windlass) -> None:
    seen: list[tuple[int, float]] = []

    async def body() -> str:
        seen.append((current().attempt, time.monotonic()))
        if len(seen) < 3:
            raise Retry("not yet", delay=0.1)
        return "done"

    handle = await run_once(app, body, retries=5, backoff=60)
    assert await handle == "done"
    assert [attempt for attempt, _ in seen] == [1, 2, 3]
    assert all(0.098 <= gap < 0.6 for gap in gaps([at for _, at in seen]))


async def test_retry_is_not_endless(app: Windlass) -> None:
    async def body() -> None:
        raise Retry(delay=0)

    handle = await run_once(app, body, retries=2)
    info = await handle.info()
    assert info is not None
    assert (info.state, info.attempts) == (State.FAILED, 3)


async def test_retry_beats_retry_on(app: Windlass) -> None:
    async def body() -> int:
        if current().attempt == 1:
            raise Retry(delay=0)
        return current().attempt

    assert await (await run_once(app, body, retries=1, retry_on=KeyError)) == 2


async def test_snooze_costs_no_attempt(app: Windlass) -> None:
    began: list[float] = []

    async def body() -> int:
        began.append(time.monotonic())
        if len(began) < 4:
            raise Snooze("50ms")
        return current().attempt

    handle = await run_once(app, body)
    assert await handle == 1
    info = await handle.info()
    assert info is not None
    assert (info.attempts, info.snoozes) == (0, 3)
    assert all(gap >= 0.048 for gap in gaps(began))


async def test_reject_is_a_dead_letter_at_once(app: Windlass) -> None:
    async def body() -> None:
        raise Reject("bad customer")

    handle = await run_once(app, body, retries=10)
    info = await handle.info()
    assert info is not None
    assert (info.state, info.reason, info.attempts) == (State.FAILED, "bad customer", 1)


async def test_cancel_ends_the_job_as_cancelled(app: Windlass) -> None:
    async def body() -> None:
        raise Cancel("not needed any more")

    handle = await run_once(app, body, retries=10)
    with pytest.raises(JobCancelled, match="not needed any more"):
        await handle


@pytest.mark.parametrize(
    "signal", [Retry(delay="soon"), Snooze("later"), Snooze(-1)], ids=["retry", "snooze", "negative"]
)
async def test_a_wrong_delay_in_a_signal_fails_the_job_and_not_the_worker(app: Windlass, signal: Exception) -> None:
    async def body() -> None:
        raise signal

    handle = await run_once(app, body, retries=1)
    assert await handle.failed()


@pytest.mark.parametrize(
    "wrong", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("own"), GeneratorExit("own")], ids=repr
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_no_exception_gets_past_the_worker(app: Windlass, wrong: BaseException, kind: str) -> None:
    async def on_loop() -> None:
        raise wrong

    def in_thread() -> None:
        raise wrong

    task = app.task(name="wrong")(on_loop if kind == "async" else in_thread)
    ok = app.task(name="ok")(on_loop_ok)
    async with app.worker():
        with pytest.raises(JobFailed) as caught:
            await within(await task.enqueue())
        assert caught.value.error_type.endswith(type(wrong).__name__)
        assert await within(await ok.enqueue()) == "ok"


async def on_loop_ok() -> str:
    return "ok"


# -- the same id


async def test_an_explicit_id_keeps_duplicates_out(app: Windlass) -> None:
    ran: list[int] = []

    @app.task
    async def once(n: int) -> int:
        ran.append(n)
        return n

    async with app.worker():
        first = await once.options(id="welcome:42").enqueue(1)
        again = await once.options(id="welcome:42").enqueue(1)
        assert first.id == again.id == "welcome:42"
        assert await within(first) == await within(again) == 1
        assert await within(await once.options(id="welcome:42").enqueue(1)) == 1
    assert ran == [1]


async def test_process_jobs_that_no_child_can_run_yet_are_left_to_other_workers(app: Windlass, ledger: Ledger) -> None:
    """Ten slots and one child: the first claim may fill the slots, but no more are claimed while jobs queue for it."""
    (slow,) = adopt(app, in_child)
    async with app.worker(children=1, concurrency=10) as worker:

        async def few_held_and_many_ready() -> bool:
            return len(worker.executor.held) <= 3 and (await app.queue(slow.queue).counts()).get("ready", 0) >= 10

        handles = [await slow.enqueue(n, pause=0.03) for n in range(40)]
        await eventually(few_held_and_many_ready)
        assert [await within(handle) for handle in handles] == list(range(40))
