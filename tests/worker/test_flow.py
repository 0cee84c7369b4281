"""Flow control end to end: real workers on memory and on SQLite, through the public API."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.worker.flow_kit import Crew, all_of, crew, reason
from tests.worker.helpers import eventually, within
from windlass import ConfigError, Handle, QueueDraining, QueueFull, Rate, State, Windlass, chain, group

__all__ = ["crew"]


async def started(app: Windlass, handles: list[Handle[Any]]) -> list[int]:
    client = await app.client()
    return sorted(job.started_at for job in await client.store.get([handle.id for handle in handles]) if job)


# -- limits and rates


async def test_a_rate_holds_over_all_workers(app: Windlass) -> None:
    @app.task(name="t", rate="20/s")
    async def task(n: int) -> int:
        return n

    async with app.worker(), app.worker():
        handles = await app.enqueue_many([task.s(n) for n in range(8)])
        assert await all_of(handles) == list(range(8))
    starts = await started(app, handles)
    assert all(later - earlier >= 49 for earlier, later in pairwise(starts)), starts


async def test_a_limit_holds_over_all_workers_and_can_be_tuned(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", limit=2)
    async def task(n: int) -> int:
        return await crew.work(n)

    async with app.worker(), app.worker():
        (limit,) = await app.limits()
        assert (limit.kind, limit.name, limit.limit, limit.tuned) == ("task", "t", 2, ())
        await all_of(await app.enqueue_many([task.s(n) for n in range(20)]))
        assert crew.peak == 2
        await task.tune(limit=1, rate="1000/s")
        crew.peak = 0
        await all_of(await app.enqueue_many([task.s(n) for n in range(5)]))
        assert crew.peak == 1
        info = await app.task_gate("t").info()
        assert (info.limit, info.tuned) == (1, ("limit", "rate"))
        await task.untune()
        info = await app.task_gate("t").info()
        assert (info.limit, info.rate, info.tuned) == (2, None, ())


async def test_a_queue_has_limits_of_its_own(app: Windlass, crew: Crew) -> None:
    queue = app.queue("mail", limit=3)

    @app.task(name="t", queue="mail")
    async def task(n: int, door: bool = False) -> int:
        return await crew.work(n, door)

    async with app.worker(queues=["mail"]):
        handles = await app.enqueue_many([task.s(n, door=True) for n in range(5)])
        await eventually(lambda: crew.running == 3)
        info = await queue.info()
        assert (info.held, info.limits.limit, info.counts["running"], info.counts["ready"]) == (3, 3, 3, 2)
        late = handles[-1]
        await reason(late, "limit_reached")
        crew.open.set()
        await all_of(handles)
        assert crew.peak == 3
        await queue.tune(limit=None)
        assert (await queue.info()).limits.limit is None


async def test_units_weigh(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", limit=4, units=lambda n: n)
    async def task(n: int, door: bool = True) -> int:
        return await crew.work(n, door)

    async with app.worker():
        handles = [await task.enqueue(3), await task.enqueue(2), await task.options(units=1).enqueue(9)]
        await reason(handles[1], "limit_reached")
        await eventually(lambda: crew.running == 1)
        assert await handles[2].state() is State.READY, "the lane gives its head or nothing"
        crew.open.set()
        assert await all_of(handles) == [3, 2, 9]


# -- lanes


async def test_keys_take_turns(app: Windlass, crew: Crew) -> None:
    queue = app.queue("mail")

    @app.task(name="t", queue="mail", key=["who"])
    async def task(who: str, n: int) -> str:
        return await crew.work(f"{who}{n}")

    await queue.pause()
    handles = await app.enqueue_many([*(task.s("ann", n) for n in range(10)), task.s("bob", 0), task.s("bob", 1)])
    async with app.worker(queues=["mail"], concurrency=1):
        await reason(handles[0], "paused_queue")
        await queue.resume()
        await all_of(handles)
    assert sorted(crew.done[:4]) == ["ann0", "ann1", "bob0", "bob1"]
    assert crew.done[4:] == [f"ann{n}" for n in range(2, 10)]


async def test_a_key_has_its_limit(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", key=["who"], key_limit=1)
    async def task(who: str, door: bool) -> str:
        return await crew.work(who, door)

    async with app.worker():
        first = [await task.enqueue("ann", True), await task.enqueue("ann", False)]
        assert await within((await task.enqueue("bob", False)).result()) == "bob"
        await reason(first[1], "key_limited")
        crew.open.set()
        assert await all_of(first) == ["ann", "ann"]


async def test_strict_order_survives_a_retry(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", key=["account"], ordered=True, retries=2, backoff="20ms")
    async def task(account: int, change: str) -> None:
        await crew.work(change)
        if change == "b" and crew.done.count("b") == 1:
            raise ConnectionError("once")

    async with app.worker(), app.worker():
        await all_of(await app.enqueue_many([task.s(1, change) for change in "abcd"]))
    assert crew.done == ["a", "b", "b", "c", "d"]


async def test_numbers_are_put_in_order(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", key=["account"], gap_timeout="1h")
    async def task(account: int, what: str) -> None:
        await crew.work(what)

    async with app.worker():
        late = [await task.options(seq=n).enqueue(1, str(n)) for n in (3, 2)]
        await reason(late[1], "lane_gap")
        assert "number 1" in str(await late[1].why())
        await task.options(seq=1).enqueue(1, "1")
        await all_of(late)
    assert crew.done == ["1", "2", "3"]


async def test_members_of_workflows_keep_to_lanes(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", key="all", ordered=True)
    async def task(n: int) -> int:
        return await crew.work(n)

    @app.task(name="sum")
    async def add_up(numbers: list[int]) -> int:
        return sum(numbers)

    async with app.worker():
        flow = await chain(group(task.si(n) for n in range(5)), add_up.s())
        assert await within(flow.result()) == 10
    assert crew.peak == 1


# -- operators


async def test_pause_and_resume(app: Windlass) -> None:
    queue = app.queue("mail")

    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return n

    async with app.worker(queues=["mail"]):
        await queue.pause()
        handle = await task.enqueue(1)
        assert str((await handle.why()).main) == "queue 'mail' is paused"
        assert (await queue.info()).paused
        await queue.resume()
        assert await within(handle.result()) == 1
        await task.pause()
        handle = await task.enqueue(2)
        await reason(handle, "paused_task")
        await app.task_gate("t").resume()
        assert await within(handle.result()) == 2
        assert (await handle.why()).main.code == "over"
    assert not (await queue.info()).paused


async def test_operators_do_not_undo_each_others_word(app: Windlass) -> None:
    queue = app.queue("mail")
    await asyncio.gather(queue.pause(), queue.tune(limit=3), queue.tune(rate="5/s"), queue.tune(max_ready=7))
    limits = (await queue.info()).limits
    assert (limits.paused, limits.limit, limits.rate is not None, limits.max_ready) == (True, 3, True, 7)
    await queue.untune()
    limits = (await queue.info()).limits
    assert (limits.paused, limits.limit, limits.rate, limits.max_ready) == (True, None, None, None)
    with pytest.raises(ConfigError, match="queue mail: say what to tune"):
        await queue.tune()
    with pytest.raises(ConfigError, match="did you mean 'limit'"):
        await queue.tune(limits=3)  # type: ignore[call-arg]


async def test_drain_lets_nothing_in_and_ends_when_all_is_done(app: Windlass, crew: Crew) -> None:
    queue = app.queue("mail")

    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return await crew.work(n, door=True)

    async with app.worker(queues=["mail"]):
        handle = await task.enqueue(1)
        await eventually(lambda: crew.running)
        with pytest.raises(TimeoutError, match="1 running"):
            await queue.drain(timeout="20ms")
        with pytest.raises(QueueDraining, match="mail"):
            await task.enqueue(2)
        with pytest.raises(QueueDraining):
            await asyncio.to_thread(task.delay, 2)
        assert (await queue.info()).draining
        draining = asyncio.create_task(queue.drain())
        crew.open.set()
        await within(draining)
        assert await within(handle.result()) == 1
        await queue.resume()
        assert await within((await task.enqueue(3)).result()) == 3


async def test_jobs_are_moved_purged_and_changed(app: Windlass) -> None:
    queue, other = app.queue("mail"), app.queue("other")

    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return n

    await queue.pause()
    handles = await app.enqueue_many([task.s(n) for n in range(4)])
    later = await task.options(delay="1d").enqueue(4)
    assert await handles[0].move_to("other")
    assert await handles[1].reprioritise(9)
    assert await handles[2].reschedule(delay="1h")
    await reason(handles[2], "scheduled")
    assert await handles[2].promote()
    assert await handles[2].state() is State.READY
    assert not await handles[2].promote()
    assert await queue.move_to("other", state="scheduled") == 1
    assert await other.counts() == {"ready": 1, "scheduled": 1}
    assert await queue.purge() == 3
    assert await handles[1].state() is None
    assert await other.move_to("mail") == 2
    await later.promote()
    async with app.worker(queues=["mail"]):
        await queue.resume()
        assert await all_of([handles[0], later]) == [0, 4]


# -- backpressure


async def test_a_full_queue_makes_callers_wait(app: Windlass) -> None:
    queue = app.queue("mail", max_ready=2)

    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return n

    await queue.pause()
    handles = await app.enqueue_many([task.s(0), task.s(1)])
    with pytest.raises(QueueFull, match="mail is full after 30ms"):
        await task.options(full_timeout="30ms").enqueue(9)
    waiting = [asyncio.create_task(task.enqueue(2)), asyncio.create_task(app.enqueue_many([task.s(3), task.s(4)]))]
    from_thread = asyncio.create_task(asyncio.to_thread(task.delay, 5))
    async with app.worker(queues=["mail"]):
        assert not any(call.done() for call in [*waiting, from_thread])
        await queue.resume()
        handles += [await within(waiting[0]), *await within(waiting[1])]
        assert await all_of(handles) == [0, 1, 2, 3, 4]
        assert await within(await within(from_thread)) == 5


async def test_a_full_queue_refuses_or_drops(app: Windlass) -> None:
    queue = app.queue("mail", when_full="reject")

    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return n

    await queue.pause()
    await queue.tune(max_ready=2)
    oldest, second = await app.enqueue_many([task.s(0), task.s(1)])
    with pytest.raises(QueueFull):
        await task.enqueue(2)
    with pytest.raises(QueueFull):
        await asyncio.to_thread(task.delay, 2)
    newest = await task.options(when_full="drop_oldest").enqueue(3)
    info = await oldest.info()
    assert info is not None
    assert (info.state, info.reason) == (State.FAILED, "queue full")
    async with app.worker(queues=["mail"]):
        await queue.resume()
        assert await all_of([second, newest]) == [1, 3]


# -- why


async def test_nobody_is_there(app: Windlass) -> None:
    @app.task(name="t")
    async def task() -> None: ...

    handle = await task.enqueue()
    assert (await handle.why()).main.code == "no_worker"
    assert (await app.job("unknown").why()).main.code == "missing"
    other = await app.queue("default").add("elsewhere", {})
    async with app.worker():
        await within(handle.result())
        await reason(other, "undeclared")


async def test_what_a_workflow_waits_for(app: Windlass, crew: Crew) -> None:
    @app.task(name="t")
    async def task(n: int) -> int:
        return await crew.work(n, door=True)

    @app.task(name="sum")
    async def add_up(numbers: list[int]) -> int:
        return sum(numbers)

    async with app.worker():
        flow = await chain(group(task.si(1), task.si(2)), add_up.s())
        await eventually(lambda: crew.running == 2)
        (last,) = [job for job in await flow.jobs() if job.task == "sum"]
        why = (await app.job(last.id).why()).main
        assert why.code == "waiting_for"
        assert why.text.count("(t, running)") == 2
        crew.open.set()
        assert await within(flow.result()) == 3


async def test_sync_code_has_the_same(app: Windlass) -> None:
    @app.task(name="t", queue="mail")
    async def task(n: int) -> int:
        return n

    def operate() -> None:
        queue, gate = app.sync.queue("mail"), app.sync.task_gate("t")
        queue.pause()
        gate.tune(limit=3, rate=Rate(1_000))
        handle = task.delay(1)
        assert handle.why().main.code == "paused_queue"
        assert (queue.info().paused, gate.info().limit, len(app.sync.limits())) == (True, 3, 2)
        assert handle.reprioritise(3)
        assert handle.reschedule(delay=60)
        assert handle.promote()
        assert queue.purge() == 1
        queue.resume()
        gate.untune()
        assert app.sync.holder("t", "x") is None
        app.sync.close()

    await within(asyncio.to_thread(operate))
