"""The worker's parts under orders: wake-ups that meet a reply, lost leases, poisoned records, claims taken ahead."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.drafts import draft_of
from tests.worker.helpers import eventually, within
from tests.worker.pump_kit import app, order_faults, patch_exchange
from windlass import JobFailed, State, Windlass
from windlass.core.job import Claim
from windlass.core.lifecycle import Transition
from windlass.errors import ConfigError, SoftTimeout
from windlass.store.jobs import ExchangeReply, Want
from windlass.worker import executor, threads
from windlass.worker.runner import run_blocking
from windlass.worker.service import Worker

__all__ = ["app"]


async def test_a_wake_up_that_comes_with_the_reply_is_not_lost(app: Windlass) -> None:
    """An exchange that grants nothing marks the worker idle; the wake-up may be here before its own reply is."""

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app, app.worker() as worker:
        await eventually(lambda: not worker.pump.hungry and worker.pump.seq)
        started = asyncio.get_running_loop().time()

        async def exchange(name: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
            reply = await plain(name, seq, moves, want)
            if not sent:
                sent.append(await quick.enqueue(2))
                await asyncio.sleep(0.01)  # long enough for the wake-up to be delivered
            return reply

        sent: list[Any] = []
        plain = patch_exchange(worker, exchange)
        worker.pump.poke()
        await eventually(lambda: sent)
        assert await within(sent[0]) == 2
        assert asyncio.get_running_loop().time() - started < 0.3, "only the heartbeat brought it"


async def test_a_beat_during_an_exchange_gives_nothing_back(app: Windlass) -> None:
    """What is granted and still on its way is not held yet, and must not be taken for dropped."""
    ran: list[int] = []

    @app.task
    async def quick(n: int) -> int:
        ran.append(n)
        return n

    faults = order_faults(app)
    async with app, app.worker() as worker:

        async def exchange(name: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
            reply = await plain(name, seq, moves, want)
            beats = faults.calls["beat"]
            worker._heartbeat.poke()
            await eventually(lambda: faults.calls["sweep"] and faults.calls["beat"] > beats)
            await asyncio.sleep(0.02)
            return reply

        plain = patch_exchange(worker, exchange)
        handles = [await quick.enqueue(n) for n in range(5)]
        assert [await within(handle) for handle in handles] == [0, 1, 2, 3, 4]
    assert sorted(ran) == [0, 1, 2, 3, 4]
    kinds = [event.kind async for event in app.events(since="0", follow=False)]
    assert kinds.count("started") == 5
    assert "released" not in kinds


async def test_an_interruption_that_comes_late_costs_no_thread(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """Injected a moment before the task ended, raised a moment after."""

    def late(*args: Any) -> Any:
        outcome = run_blocking(*args)
        if args[0].claim.task == "bad":
            raise SoftTimeout
        return outcome

    monkeypatch.setattr(threads, "run_blocking", late)

    @app.task(name="bad")
    def bad() -> None: ...

    @app.task(name="good")
    def good() -> int:
        return 1

    async with app, app.worker(concurrency=1) as worker:
        for _ in range(3):
            with pytest.raises(JobFailed, match="SoftTimeout"):
                await within(await bad.enqueue())
        assert await within(await good.enqueue()) == 1
        assert len(worker.executor._threads._threads) == 1


async def test_a_full_exchange_is_followed_by_another(app: Windlass) -> None:
    """What is ready beyond one exchange is fetched without any wake-up."""

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app:
        handles = await app.enqueue_many(quick.s(n) for n in range(500))
        async with app.worker(concurrency=7):
            assert [await within(handle) for handle in handles] == list(range(500))


@pytest.mark.parametrize(
    "meta", [b'{"options":oops}', b'{"options":{"backoff":{"odd":1}}}', b'{"options":{"timeout":"x"}}']
)
async def test_a_record_that_cannot_be_read_harms_only_itself(app: Windlass, meta: bytes) -> None:
    @app.task
    async def quick(n: int) -> int:
        return n

    async with app, app.worker():
        client = await app.client()
        draft = draft_of(quick.s(1))
        job = draft.to_job("", b"{}")
        job.meta = meta
        await client.store.insert([job])
        good = await quick.enqueue(2)
        assert await within(good) == 2
        with pytest.raises(JobFailed):
            await within(app.job(job.id))


async def test_claims_taken_ahead_go_back_only_when_nothing_moves(app: Windlass) -> None:
    release = asyncio.Event()

    @app.task
    async def slow(n: int) -> int:
        await release.wait()
        return n

    async with app, app.worker(concurrency=1) as worker:
        worker.pump._rate = 200.0
        handles = [await slow.enqueue(n) for n in range(4)]
        await eventually(lambda: worker.executor.active == 1)
        worker.pump._rate = 200.0
        worker.pump.poke()
        await eventually(lambda: worker.executor.waiting)
        worker.pump._rate = 0.0
        await eventually(lambda: not worker.executor.waiting, timeout=3)
        await eventually(lambda: count(app, State.READY, 3))
        release.set()
        assert [await within(handle) for handle in handles] == [0, 1, 2, 3]


async def test_a_stopping_worker_starts_nothing_it_took_ahead(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "WAIT_LIMIT", 60)
    release, ran = asyncio.Event(), []

    @app.task
    async def slow(n: int) -> int:
        ran.append(n)
        await release.wait()
        return n

    async with app:
        worker = Worker(app, {"concurrency": 1})
        await worker.start()
        handles = [await slow.enqueue(n) for n in range(4)]
        await eventually(lambda: worker.executor.active)
        worker.pump._rate = 200.0
        worker.pump.poke()
        await eventually(lambda: worker.executor.waiting)
        stopping = asyncio.ensure_future(worker.stop())
        await eventually(lambda: count(app, State.READY, 3))
        release.set()
        await within(stopping)
        assert await within(handles[0]) == 0
        assert ran == [0]
        assert await count(app, State.READY, 3)


async def count(app: Windlass, state: State, wanted: int) -> bool:
    return (await app.queue("default").counts()).get(state, 0) == wanted


async def test_claims_taken_ahead_stay_while_slots_turn_over(app: Windlass) -> None:
    """A worker that starts jobs all the time keeps the few it fetched ahead."""

    @app.task
    async def work() -> None: ...

    async with app, app.worker(concurrency=1) as worker:
        executor, timers, handed_back = worker.executor, [], []
        executor.timers.after = lambda seconds, callback, alive: timers.append(callback)  # type: ignore[method-assign]
        executor.hand_back_waiting = lambda: handed_back.append(executor.started)  # type: ignore[method-assign]
        executor.active = 1
        executor.waiting.append(object())  # type: ignore[arg-type]
        executor.take([])
        executor.started += 1
        timers.pop()()
        assert not handed_back, "something was started meanwhile"
        timers.pop()()
        assert handed_back, "nothing was started since the last look"
        executor.waiting.clear()
        executor.active = 0
        del executor.hand_back_waiting, executor.timers.after


async def test_a_thousand_instant_jobs_in_one_claim(app: Windlass) -> None:
    """Jobs that end while they are being started (eager tasks) must not be started one inside the other."""

    @app.task
    async def instant() -> None: ...

    async with app, app.worker(concurrency=2) as worker:
        worker.pump.paused = True
        worker._heartbeat._watched.on_beat = lambda worker, reply: None  # the store knows nothing of these claims
        claims = [
            Claim(f"c{n}", instant.name, 1, "default", 5, b"{}", b"{}", 1, 1, 1, 0, 0, 0, 0)
            for n in range(2 * sys.getrecursionlimit())
        ]
        worker.executor.take(claims)
        await eventually(lambda: len(worker.executor.finished) == len(claims))
        worker.executor.forget()
        worker.pump.paused = False


async def test_concurrency_is_never_exceeded(app: Windlass) -> None:
    running = most = 0

    @app.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with app, app.worker(concurrency=4) as worker:
        worker.pump._rate = 10_000.0
        handles = await app.enqueue_many(work.s() for _ in range(200))
        for handle in handles:
            await within(handle)
    assert most == 4


# -- options of a worker


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurency": 3}, "did you mean 'concurrency'"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": True}, "concurrency is True"),
        ({"max_jobs": -1}, "max_jobs is -1"),
        ({"grace": "soon"}, "grace"),
        ({"stall_warning": 0}, "stall_warning"),
        ({"queues": ["bad name"]}, "bad name"),
    ],
)
async def test_wrong_worker_options_are_refused(app: Windlass, options: Any, message: str) -> None:
    @app.task
    async def quick() -> None: ...

    with pytest.raises(ConfigError, match=message):
        Worker(app, options)


async def test_one_queue_may_be_named_without_a_list(app: Windlass) -> None:
    @app.task
    async def quick() -> None: ...

    assert Worker(app, {"queues": "emails"}).options.queues == ("emails",)
    assert Worker(app, {}).options.queues == ("default",)


async def test_a_worker_without_tasks_refuses_to_start(app: Windlass) -> None:
    with pytest.raises(ConfigError, match=r"declares no task.*include="):
        async with app.worker():
            pass


async def test_timers_fire_in_order_and_forget_the_dead() -> None:
    from windlass.worker.timers import Timers

    timers, fired = Timers(asyncio.get_running_loop()), []
    for number, seconds in enumerate((0.05, 0.01, 0.03)):
        timers.after(seconds, lambda n=number: fired.append(n), lambda: True)
    timers.after(0.02, lambda: fired.append("dead"), lambda: False)
    await eventually(lambda: len(fired) == 3)
    assert fired == [1, 2, 0]
    numbers = itertools.count()
    began = time.perf_counter()
    for _ in range(10_000):
        timers.after(60, lambda: next(numbers), lambda: False)
    assert not timers._heap, "entries of jobs that are over must not pile up"
    assert time.perf_counter() - began < 2
    timers.close()
