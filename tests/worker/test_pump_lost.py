"""A pump that lost its store, its worker's id or its own life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.worker.helpers import eventually, within
from tests.worker.pump_kit import app, order_faults, patch_exchange
from windlass import State, StoreError, Windlass
from windlass.core.job import NewJob
from windlass.core.lifecycle import Transition
from windlass.store.jobs import ExchangeReply, Want
from windlass.worker.service import Worker

__all__ = ["app"]


async def test_a_worker_the_store_gave_up_drops_everything_and_returns(app: Windlass) -> None:
    stopped: list[int] = []

    @app.task
    async def slow(n: int) -> int:
        try:
            await asyncio.sleep(0 if len(stopped) >= 3 else 60)
        except asyncio.CancelledError:
            stopped.append(n)
            raise
        return n

    async with app, app.worker(concurrency=3) as worker:
        handles = [await slow.enqueue(n) for n in range(3)]
        await eventually(lambda: worker.executor.active == 3)
        old = worker.id
        await worker._store.leave(old)
        assert [await within(handle) for handle in handles] == [0, 1, 2]
        assert sorted(stopped) == [0, 1, 2]
        await eventually(lambda: not worker.executor.held)
        assert [info.presence.id for info in await worker._store.workers()] == [worker.id]
        assert (await handles[0].info()).crashes == 0


async def test_nothing_stays_held_when_the_worker_was_given_up_while_it_settled(app: Windlass) -> None:
    """Finished jobs whose exchange was answered 'gone' must not take up slots for ever."""

    @app.task
    async def quick(n: int) -> int:
        return n

    async with app, app.worker(concurrency=2) as worker:

        async def exchange(name: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
            if moves and not lost:
                lost.extend(move.id for move in moves)
                await worker._store.leave(name)
            return await plain(name, seq, moves, want)

        lost: list[str] = []
        plain = patch_exchange(worker, exchange)
        handles = [await quick.enqueue(n) for n in range(4)]
        assert [await within(handle) for handle in handles] == [0, 1, 2, 3]
        assert lost
        await eventually(lambda: not worker.executor.held)
        assert worker.pump._room(0) >= 2


async def test_two_reports_of_the_same_end_make_one_new_worker(app: Windlass) -> None:
    @app.task
    async def quick() -> None: ...

    async with app, app.worker() as worker:
        old = worker.id
        worker._on_gone()
        worker._on_gone()
        await eventually(lambda: worker.pump.worker == worker.id != old)
        assert await within(await quick.enqueue()) is None
        assert len(await worker._store.workers()) == 1


async def test_a_refused_exchange_costs_no_job_a_crash(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    release = asyncio.Event()

    @app.task
    async def slow() -> int:
        await release.wait()
        return 1

    faults = order_faults(app)
    async with app, app.worker() as worker:
        handle = await slow.enqueue()
        await eventually(lambda: worker.executor.active)
        old = worker.id
        faults.fail("exchange", StoreError("disk full"))
        worker.pump.poke()
        await eventually(lambda: worker.id != old)
        release.set()
        assert await within(handle) == 1
        info = await handle.info()
        assert info is not None
        assert (info.crashes, info.attempts) == (0, 0)
    assert "disk full" in caplog.text


async def test_silence_stops_running_jobs_and_keeps_finished_ones(app: Windlass) -> None:
    """Without a lease nothing may go on running; what was done is told, and refused only if it came too late."""
    ran: list[str] = []
    release = asyncio.Event()

    @app.task
    async def work(name: str) -> str:
        ran.append(name)
        if name == "slow":
            await release.wait()
        return name

    async with app, app.worker() as worker:
        gate = asyncio.Event()

        async def exchange(name: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
            if moves:
                await gate.wait()
            return await plain(name, seq, moves, want)

        slow = await work.enqueue("slow")
        await eventually(lambda: "slow" in ran)
        plain = patch_exchange(worker, exchange)
        done = await work.enqueue("done")
        await eventually(lambda: ran.count("done"))
        await asyncio.sleep(0.02)
        worker._on_silence()
        release.set()
        gate.set()
        assert await within(done) == "done"
        assert await within(slow) == "slow"
    assert ran.count("done") == 1
    assert ran.count("slow") == 2


async def test_the_store_coming_and_going_is_survived(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    @app.task
    async def quick(n: int) -> int:
        return n

    faults = order_faults(app)
    async with app, app.worker() as worker:
        old = worker.id
        faults.fail("exchange", times=4)
        handle = await quick.enqueue(1)
        assert await within(handle) == 1
        assert worker.id == old
    assert caplog.text.count("cannot be reached") == 1
    assert "answers again after 4 failed tries" in caplog.text


async def test_a_heartbeat_that_meets_an_unforeseen_error_goes_on(app: Windlass) -> None:
    @app.task
    async def quick(n: int) -> int:
        return n

    faults = order_faults(app)
    async with app, app.worker() as worker:
        beats = faults.calls["beat"]
        faults.fail("beat", RuntimeError("a bug"), times=2)
        await eventually(lambda: faults.calls["beat"] >= beats + 5)
        assert await within(await quick.enqueue(3)) == 3
        assert worker._heartbeat._thread.is_alive()


async def test_a_pump_that_dies_ends_the_worker(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that only looks alive is worse than none: its lease would keep its jobs from everybody else."""

    @app.task
    async def quick(n: int) -> int:
        return n

    faults = order_faults(app)
    worker = Worker(app, {"grace": 0.1})
    async with app:
        await worker.start()
        faults.fail("exchange", RuntimeError("a bug in the engine"))
        worker.pump.poke()
        await within(worker.stop_requested.wait())
        assert worker.exit_code == 70
        await worker.stop()
    assert "a bug in the engine" in caplog.text


async def test_a_worker_that_breaks_charges_what_it_held(app: Windlass) -> None:
    """One of these jobs may be why it broke: given back at no cost, it would break worker after worker."""

    @app.task
    async def slow() -> None:
        await asyncio.sleep(3600)

    faults = order_faults(app)
    worker = Worker(app, {"grace": 0.1})
    async with app:
        await worker.start()
        handle = await slow.enqueue()
        await eventually(lambda: worker.executor.active)
        faults.fail("exchange", RuntimeError("a bug in the engine"))
        worker.pump.poke()
        await within(worker.stop_requested.wait())
        await worker.stop()
        info = await handle.info()
        assert info is not None
        assert (info.state, info.crashes) == (State.READY, 1)


async def test_a_claim_that_cannot_be_begun_is_a_dead_letter_alone(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def quick(n: int) -> int:
        return n

    @app.task
    async def senseless() -> None: ...

    plain = app.declared.resolve

    def resolve(task: str, *args: Any, **named: Any) -> Any:
        if task == senseless.name:
            raise RuntimeError("this claim makes no sense")
        return plain(task, *args, **named)

    async with app, app.worker() as worker:
        id = worker.id
        monkeypatch.setattr(app.declared, "resolve", resolve)
        client = await app.client()
        jobs = [NewJob(id=f"bad-{n}", task=senseless.name, queue="default", payload=b"[]") for n in range(3)]
        await client.store.insert(jobs)
        handles = [await quick.enqueue(n) for n in range(3)]
        assert [await within(handle) for handle in handles] == [0, 1, 2]

        async def dead() -> bool:
            letters = (await app.dead.list()).jobs
            return [letter.reason for letter in letters] == ["the job cannot be begun"] * 3

        await eventually(dead)
        assert (worker.id, worker.exit_code, worker.executor.held) == (id, 0, {})
