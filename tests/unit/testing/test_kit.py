"""The harness as users' tests see it: nothing waits, what ran is known, and a failed assert says what there was."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from windlass import (
    Cancel,
    ConfigError,
    Fixed,
    JobCancelled,
    JobFailed,
    Reject,
    Retry,
    Snooze,
    State,
    StoreError,
    StoreUnavailable,
    Windlass,
    WindlassError,
    current,
)
from windlass.testing import Drained, Harness, VirtualClock, assert_dead_lettered, assert_enqueued

app = Windlass("kit", "memory://")
seen: list[object] = []


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    seen.clear()
    yield
    assert app.connections.store_factory is None, "a harness was left in the app"


@app.task
async def note(what: Any) -> Any:
    seen.append(what)
    return what


@app.task(queue="mail", retries=2, backoff=Fixed(10))
async def mail(to: str, subject: str = "Hi") -> None:
    seen.append((to, current().attempt))
    raise ValueError(f"no such box: {to}")


@app.task
def plain(x: int) -> int:
    seen.append(threading.current_thread() is threading.main_thread())
    return x + 1


@app.task(runs_in="process")
def heavy(x: int) -> int:
    return x * 2


@app.task(runs_in="process")
async def heavy_async(x: int) -> int:
    return x * 3


@app.task
async def parent(children: int) -> int:
    handles = [await note.enqueue(n) for n in range(children)]
    seen.append("parent")
    return sum([int(str(await handle)) for handle in handles])


@app.task
def sync_parent(x: int) -> int:
    return plain.delay(x).get(timeout=5) * 10


@app.task
async def fan(children: int) -> None:
    for n in range(children):
        await note.enqueue(n)
    seen.append("fan")


@app.task
async def again() -> None:
    await again.enqueue()


@app.task(retries=1)
async def wishes(kind: str) -> None:
    if current().attempt == 1 and not current().claim.snoozes:
        raise {"retry": Retry(delay=5), "snooze": Snooze(5), "reject": Reject("no"), "cancel": Cancel("enough")}[kind]


# -- draining and time


async def test_what_is_due_runs_and_what_that_enqueues() -> None:
    async with Harness(app) as h:
        handle = await note.enqueue("a")
        await fan.enqueue(2)
        assert await h.drain() == Drained(ran=4, succeeded=4)
        assert seen == ["a", "fan", 0, 1], "one after the other, in the order they were accepted"
        assert await handle == "a"
        assert await h.drain() == Drained()


async def test_retries_wait_for_the_clock_and_end_as_a_dead_letter() -> None:
    async with Harness(app) as h:
        await mail.enqueue("a@b.c")
        assert await h.drain() == Drained(ran=1, retried=1)
        assert await h.advance("9.9s") == Drained()
        assert await h.advance("0.1s") == Drained(ran=1, retried=1)
        assert await h.advance("1h") == Drained(ran=1, failed=1)
        assert seen == [("a@b.c", 1), ("a@b.c", 2), ("a@b.c", 3)]
        (job,) = h.assert_dead_lettered(mail, error="ValueError", match="no such box", reason="no retries left")
        assert job.attempts == 3


async def test_advance_goes_from_one_due_time_to_the_next() -> None:
    async with Harness(app, clock=VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))) as h:
        times = {}

        @app.around_run
        async def stamp(job, call_next):
            times[job.id] = h.now()
            return await call_next()

        try:
            for seconds in (30, 10, 20):
                await note.options(delay=seconds, id=f"in-{seconds}").enqueue(seconds)
            await note.options(at=datetime(2030, 1, 1, 0, 1, tzinfo=UTC), id="at").enqueue("at")
            assert (await h.advance("1m")).ran == 4
        finally:
            app.declared.run_layers.remove(stamp)
        assert seen == [10, 20, 30, "at"]
        start = datetime(2030, 1, 1, tzinfo=UTC)
        assert [round((time - start).total_seconds()) for time in times.values()] == [10, 20, 30, 60]


@pytest.mark.parametrize(
    ("kind", "first", "then"),
    [
        ("retry", Drained(ran=1, retried=1), Drained(ran=1, succeeded=1)),
        ("snooze", Drained(ran=1, snoozed=1), Drained(ran=1, succeeded=1)),
        ("reject", Drained(ran=1, failed=1), Drained()),
        ("cancel", Drained(ran=1, cancelled=1), Drained()),
    ],
)
async def test_what_a_task_wishes_comes_true(kind: str, first: Drained, then: Drained) -> None:
    async with Harness(app) as h:
        await wishes.enqueue(kind)
        assert await h.drain(with_errors="raise") == first
        assert await h.advance(5, with_errors="raise") == then


async def test_expired_and_cancelled_jobs() -> None:
    async with Harness(app) as h:
        await note.options(delay="1h", expires="30m").enqueue("late")
        handle = await note.options(delay="1h").enqueue("unwanted")
        await handle.cancel("changed my mind")
        h.assert_cancelled(note, reason="changed my mind", count=1)
        assert (await h.advance("2h")).ran == 0
        h.assert_cancelled(note, reason="expired", count=1)


async def test_an_undeclared_task_is_parked_in_time() -> None:
    async with Harness(app) as h:
        await app.queue("far").add("other.service", {"x": 1})
        await h.drain()
        assert h.jobs("other.service", State.READY)
        await h.advance("2h")
        h.assert_dead_lettered("other.service", error="UnknownTask", reason="unknown task")


# -- where jobs run


async def test_plain_functions_run_in_a_thread_or_inline() -> None:
    async with Harness(app) as h:
        handle = await plain.enqueue(1)
        await h.drain()
        assert await handle == 2
    async with Harness(app, inline=True) as h:
        await plain.enqueue(1)
        await h.drain()
    assert seen == [False, True]


@pytest.mark.parametrize("inline", [False, True])
async def test_process_tasks_run_here(inline: bool) -> None:
    async with Harness(app, inline=inline) as h:
        await heavy.enqueue(4)
        await heavy_async.enqueue(4)
        await h.drain(with_errors="raise")
        h.assert_succeeded(heavy, result=8)
        h.assert_succeeded(heavy_async, result=12)


async def test_a_job_may_wait_for_another() -> None:
    async with Harness(app) as h:
        first, second = await parent.enqueue(3), await sync_parent.enqueue(1)
        await h.drain(with_errors="raise")
        assert await first == 3
        assert await second == 20


async def test_hooks_live_as_long_as_a_drain() -> None:
    own = Windlass("hooks", "memory://")

    @own.on_start
    async def start(state: SimpleNamespace) -> None:
        state.name = "db"
        seen.append("start")

    @own.on_stop
    def stop(state: SimpleNamespace) -> None:
        seen.append(f"stop {state.name}")

    @own.task
    async def uses() -> None:
        seen.append(current().state.name)

    async with Harness(own) as h:
        await uses.enqueue()
        await h.drain()
    assert seen == ["start", "db", "stop db"]


async def test_progress_logs_and_a_cancel_by_a_running_job_arrive() -> None:
    own = Windlass("inside", "memory://")
    started = asyncio.Event()

    @own.task
    async def waits() -> None:
        current().progress(50, "half")
        current().log("a line")
        started.set()
        await asyncio.Event().wait()

    @own.task
    async def boss() -> str:
        victim = await waits.enqueue()
        waiting = asyncio.ensure_future(victim.result())
        await started.wait()
        await victim.cancel("by its boss")
        with pytest.raises(JobCancelled):
            await waiting
        return victim.id

    async with Harness(own) as h:
        handle = await boss.enqueue()
        assert await h.drain(with_errors="raise") == Drained(ran=2, succeeded=1, cancelled=1)
        victim = own.job(await handle)
        assert [line.text for line in await victim.logs()] == ["a line"]
        assert (await victim.progress()).percent == 50


def test_sync_tests_drain_too() -> None:
    with Harness(app) as h:
        handle = plain.delay(5)
        late = note.options(delay="10m").delay("late")
        assert h.drain_sync().ran == 1
        assert handle.get(timeout=5) == 6
        assert h.advance_sync("10m").ran == 1
        assert late.state is State.SUCCEEDED


async def test_the_app_is_itself_again_afterwards() -> None:
    async with Windlass("own", "memory://") as own:
        kept = await own.queue("default").add("note", {"what": 1})
        async with Harness(own) as h:
            assert await own.job(kept.id).info() is None
            assert not h.jobs()
        assert await kept.state() is State.READY


# -- errors


async def test_with_errors_raise_brings_out_the_exception_itself() -> None:
    own = Windlass("raises", "memory://")

    class Odd(Exception):
        def __init__(self) -> None:
            super().__init__("odd")

    @own.task(retries=1)
    async def on_loop() -> None:
        raise Odd

    @own.task
    def in_thread() -> None:
        raise Odd

    for task in (on_loop, in_thread):
        async with Harness(own) as h:
            await task.enqueue()
            with pytest.raises(Odd):
                await h.drain(with_errors="raise")
            (job,) = h.jobs(task)
            assert job.attempts == 1, "it was settled all the same"
    assert not own.declared.run_layers


async def test_a_payload_that_does_not_fit_is_raised_as_text() -> None:
    async with Harness(app) as h:
        job = await note.enqueue("x")
        h.store.hub.jobs[job.id].payload = b'{"who": 1}'
        with pytest.raises(JobFailed, match="does not fit"):
            await h.drain(with_errors="raise")


async def test_an_endless_loop_ends() -> None:
    async with Harness(app) as h:
        await again.enqueue()
        with pytest.raises(WindlassError, match="enqueue itself forever"):
            await h.drain(limit=50)


async def test_misuse_is_said() -> None:
    async with Harness(app) as h:
        with pytest.raises(ConfigError, match="in a harness already"):
            Harness(app).__enter__()
        with pytest.raises(ConfigError, match="'keep' or 'raise'"):
            await h.drain(with_errors="swallow")
        with pytest.raises(ConfigError, match="sync tests"):
            h.drain_sync()
        with pytest.raises(ConfigError, match="did you mean 'insert'"):
            h.fail_next("inser")


# -- failing stores


async def test_the_store_fails_and_loses_replies_on_order() -> None:
    async with Harness(app) as h:
        h.fail_next("insert", StoreError("full"))
        with pytest.raises(StoreError, match="full"):
            await note.enqueue("not kept")
        h.fail_next("insert", times=2)
        with pytest.raises(StoreUnavailable):
            await note.enqueue("not kept either")
        h.lose_reply("insert")
        await note.enqueue("kept")
        h.assert_enqueued(note, count=1, what="kept")
        h.fail_next("exchange", times=3)
        h.lose_reply("exchange", times=2)
        h.fail_next("beat")
        assert await h.drain() == Drained(ran=1, succeeded=1)
        assert seen == ["kept"]


# -- asserts


async def test_assert_enqueued_compares_what_is_named() -> None:
    async with Harness(app) as h:
        await mail.enqueue("a@b.c")
        await mail.options(delay="10m", queue="slow").enqueue("d@e.f", subject="Later")
        await note.options(at=datetime.now(UTC) + timedelta(hours=1)).enqueue({"count": 1})
        h.assert_enqueued(mail, to="a@b.c")
        h.assert_enqueued(mail, count=2)
        h.assert_enqueued(mail, subject="Hi", count=1)
        h.assert_enqueued(mail, queue="slow", delay="10m", to="d@e.f")
        h.assert_enqueued(note, delay="1h", args={"what": {"count": 1}})
        h.assert_not_enqueued(mail, to="nobody")
        h.assert_not_enqueued(mail, to="a@b.c", delay="10m")
        assert_enqueued(h, mail.name, count=2)
        h.clear_enqueued()
        h.assert_not_enqueued(mail)


async def test_a_failed_assert_lists_what_there_was() -> None:
    async with Harness(app) as h:
        with pytest.raises(AssertionError, match="Enqueued in this harness: nothing"):
            h.assert_enqueued(mail)
        await mail.options(delay="10m").enqueue("a@b.c")
        with pytest.raises(AssertionError) as caught:
            h.assert_enqueued(mail, to="x", queue="mail", count=2)
        text = str(caught.value)
        assert f"expected 2 calls of {mail.name}(to='x') in queue mail, found 0." in text
        assert f"{mail.name}(to='a@b.c', subject='Hi') in queue mail, in 10m" in text
        await h.advance("1h")
        with pytest.raises(AssertionError) as caught:
            assert_dead_lettered(h, mail, error=KeyError)
        assert "to be failed with error 'KeyError', found 0" in str(caught.value)
        assert "is failed (no retries left), ValueError: no such box: a@b.c, 3 failed attempt(s)" in str(caught.value)
        with pytest.raises(AssertionError, match="to be succeeded"):
            h.assert_succeeded(mail)
