"""Unique keys on real workers: keep, replace, debounce and throttle."""

from __future__ import annotations

import asyncio

from tests.worker.flow_kit import Crew, all_of, crew, reason
from tests.worker.helpers import eventually, within
from windlass import Windlass

__all__ = ["crew"]


# -- unique


async def test_unique_keep_gives_the_job_there_is(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", unique=["order"])
    async def task(order: int, note: str = "") -> str:
        return await crew.work(note)

    await task.pause()
    first = await task.enqueue(1, "first")
    again = await task.enqueue(1, "again")
    other = await task.enqueue(2, "other")
    assert (first.existing, again.existing, again.id, other.existing) == (False, True, first.id, False)
    assert (await asyncio.to_thread(task.delay, 1)).id == first.id
    holder = await app.holder(task, 1)
    assert holder is not None
    assert (holder.handle.id, holder.successor) == (first.id, None)
    async with app.worker():
        await reason(first, "paused_task")
        await task.resume()
        assert await all_of([first, again, other]) == ["first", "first", "other"]
        assert await app.holder("t", 1) is None
        assert (await task.enqueue(1)).existing is False


async def test_unique_replace_changes_what_waits_and_keeps_one_successor(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", unique="only", unique_policy="replace")
    async def task(text: str) -> str:
        return await crew.work(text, door=True)

    await task.pause()
    first = await task.enqueue("old")
    assert (await task.enqueue("new")).id == first.id
    async with app.worker():
        await task.resume()
        await eventually(lambda: crew.running == 1)
        second = await task.enqueue("next")
        assert second.existing is False
        assert (await task.enqueue("last")).id == second.id
        await reason(second, "unique_successor")
        holder = await app.holder(task, "only")
        assert holder is not None
        assert holder.successor is not None
        assert (holder.handle.id, holder.successor.id) == (first.id, second.id)
        crew.open.set()
        assert await all_of([first, second]) == ["new", "last"]
    assert crew.peak == 1


async def test_unique_debounce_runs_once_with_the_last(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", unique=True, unique_policy="debounce", unique_for="50ms")
    async def same() -> None: ...

    @app.task(name="save", unique=["page"], unique_policy="debounce", unique_for="100ms", debounce_max="10s")
    async def save(page: int, text: str) -> str:
        return await crew.work(text)

    async with app.worker():
        handles = [await save.enqueue(1, text) for text in "abc"]
        assert {handle.id for handle in handles} == {handles[0].id}
        assert await all_of(handles) == ["c", "c", "c"]
        assert await within((await same.enqueue()).result()) is None
    assert crew.done == ["c"]


async def test_unique_throttle_keeps_a_window(app: Windlass, crew: Crew) -> None:
    @app.task(name="t", unique=True, unique_policy="throttle", unique_for="1h")
    async def task(n: int) -> int:
        return await crew.work(n)

    async with app.worker():
        first = await task.enqueue(1)
        assert await within(first.result()) == 1
        again = await task.enqueue(1)
        assert (again.id, again.existing) == (first.id, True)
        assert await within(again.result()) == 1
        assert (await task.enqueue(2)).existing is False
