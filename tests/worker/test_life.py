"""A job's life on a worker: retries, signals, timeouts, expiry, order and the dead letters, on each engine."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, child_dies, child_retries, deaf_child, in_child, soft_in_child, soft_in_child_async
from windlass import (
    Cancel,
    Exponential,
    Fixed,
    Handle,
    JobCancelled,
    JobExpired,
    JobFailed,
    Keep,
    Reject,
    Retry,
    Snooze,
    SoftTimeout,
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


async def is_state(handle: Handle[Any], state: State) -> bool:
    return await handle.state() is state


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
