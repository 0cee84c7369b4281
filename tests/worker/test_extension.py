"""Middleware around runs, hooks and state, handlers for whole queues, events and dead letters."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.worker import layered
from tests.worker.helpers import SHORT, Ledger, eventually, within
from windlass import ConfigError, Current, JobFailed, JobLost, Retry, State, Windlass, WindlassError, current
from windlass.core.event import Event

# -- middleware


def adopt_layered(app: Windlass) -> None:
    for task in layered.app.tasks.values():
        app.declared.add_task(task.fn, {"name": task.name, "runs_in": task.runs_in})


@pytest.mark.parametrize("name", ["on_loop", "in_thread", "in_child", "in_child_async"])
async def test_middleware_runs_once_around_every_kind(app: Windlass, ledger: Ledger, name: str) -> None:
    adopt_layered(app)
    app.around_run(layered.trace)
    async with app.worker(children=1):
        handle = (
            await app.tasks[f"tests.worker.layered.{name}"].options(headers={"ledger": str(ledger.path)}).enqueue(7)
        )
        assert await within(handle) == 7
    (line,) = ledger.lines("layer")
    assert (line.job, line.pid) == (handle.id, os.getpid()), "on the worker's loop, not in the child"


@pytest.mark.parametrize("name", ["on_loop", "in_thread", "in_child"])
async def test_what_middleware_returns_is_the_result(app: Windlass, name: str) -> None:
    adopt_layered(app)

    @app.around_run
    async def outer(job: Current, call_next: Any) -> Any:
        return await call_next() * 2

    @app.around_run
    async def inner(job: Current, call_next: Any) -> Any:
        return await call_next() + 1

    async with app.worker(children=1):
        assert await within(await app.tasks[f"tests.worker.layered.{name}"].enqueue(4)) == 10


@pytest.mark.parametrize("name", ["raises_in_thread", "raises_in_child"])
async def test_middleware_sees_errors_and_may_answer_for_them(app: Windlass, name: str) -> None:
    adopt_layered(app)
    seen: list[str] = []

    @app.around_run
    async def rescue(job: Current, call_next: Any) -> Any:
        try:
            return await call_next()
        except Exception as error:
            seen.append(str(error))
            if job.headers:
                raise
            return None

    async with app.worker(children=1):
        task = app.tasks[f"tests.worker.layered.{name}"]
        assert await within(await task.enqueue()) is None
        with pytest.raises(JobFailed) as caught:
            await within(await task.options(headers={"raise": "yes"}).enqueue())
        assert (caught.value.error_type, caught.value.error_message[:6]) == ("LookupError", "in the")
        assert "raise LookupError" in caught.value.traceback
    assert all("in the" in text for text in seen)


async def test_a_thread_tasks_own_exception_reaches_the_middleware(app: Windlass) -> None:
    adopt_layered(app)
    kinds: list[type] = []

    @app.around_run
    async def look(job: Current, call_next: Any) -> Any:
        try:
            return await call_next()
        except LookupError as error:
            kinds.append(type(error))
            raise

    async with app.worker():
        with pytest.raises(JobFailed):
            await within(await app.tasks["tests.worker.layered.raises_in_thread"].enqueue())
    assert kinds == [LookupError]


@pytest.mark.parametrize("name", ["on_loop", "in_thread", "in_child"])
async def test_what_middleware_raises_is_the_jobs_error(app: Windlass, name: str) -> None:
    adopt_layered(app)

    @app.around_run
    async def refuse(job: Current, call_next: Any) -> Any:
        if job.attempt == 1:
            raise Retry(delay=0)
        raise PermissionError("not you")

    async with app.worker(children=1):
        handle = await app.tasks[f"tests.worker.layered.{name}"].options(retries=1).enqueue(1)
        with pytest.raises(JobFailed, match="PermissionError: not you"):
            await within(handle)
        info = await handle.info()
        assert info is not None
        assert info.attempts == 2


async def test_timeouts_and_cancel_work_through_middleware(app: Windlass) -> None:
    import time

    @app.around_run
    async def through(job: Current, call_next: Any) -> Any:
        return await call_next()

    @app.task(timeout=0.1)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task(timeout=0.1)
    def slow_thread() -> None:
        for _ in range(20):
            time.sleep(0.02)

    async with app.worker() as worker:
        for task in (slow, slow_thread):
            with pytest.raises(JobFailed, match=r"timeout of 0\.1 s"):
                await within(await task.enqueue())
        await eventually(lambda: worker.executor.active == 0 and worker.executor.stuck == 0)


# -- hooks


async def test_hooks_run_around_the_worker_and_share_state(app: Windlass) -> None:
    order: list[str] = []

    @app.on_start
    async def connect(state: SimpleNamespace) -> None:
        state.pool = ["connection"]
        order.append("start")

    @app.on_start
    def more(state: SimpleNamespace) -> None:
        state.pool.append("second")

    @app.on_stop
    async def disconnect(state: SimpleNamespace) -> None:
        order.append(f"stop {len(state.pool)}")

    @app.task(name="on_loop")
    async def on_loop() -> list[str]:
        return list(current().state.pool)

    @app.task(name="in_thread")
    def in_thread() -> list[str]:
        return list(current().state.pool)

    async with app.worker():
        assert order == ["start"]
        for task in (on_loop, in_thread):
            assert await within(await task.enqueue()) == ["connection", "second"]
    assert order == ["start", "stop 2"]


async def test_a_start_hook_that_fails_starts_no_worker(app: Windlass) -> None:
    @app.on_start
    async def broken(state: SimpleNamespace) -> None:
        raise ConnectionError("no database")

    @app.task
    async def quick() -> None: ...

    with pytest.raises(ConnectionError):
        async with app.worker():
            pass
    assert await (await app.client()).store.workers() == []


# -- handlers


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_handler_runs_every_other_name_of_its_queue(app: Windlass, kind: str) -> None:
    async def on_loop(task: str, args: dict[str, Any]) -> Any:
        return [task, args, current().queue]

    def in_thread(task: str, args: dict[str, Any]) -> Any:
        return [task, args, current().queue]

    app.queue("notes", retries=1).handler(on_loop if kind == "async" else in_thread)

    @app.task(name="known", queue="notes")
    async def known(n: int) -> str:
        return "its own function"

    async with app.worker():
        handle = await app.queue("notes").add("anything.at.all", {"n": [1, None]})
        assert await within(handle) == ["anything.at.all", {"n": [1, None]}, "notes"]
        assert await within(await known.enqueue(1)) == "its own function"
        elsewhere = await app.queue("default").add("anything.at.all", {})
        await asyncio.sleep(0.05)
        assert await elsewhere.state() is State.READY


# -- events


async def collect(stream: Any, into: list[Event], until: Any) -> None:
    async for event in stream:
        into.append(event)
        if until(event):
            return


async def test_events_are_live(app: Windlass) -> None:
    @app.task(name="work", retries=1, backoff=0)
    async def work() -> None:
        current().progress(50)
        await asyncio.sleep(0.15)
        if current().attempt == 1:
            raise ValueError

    seen: list[Event] = []
    following = asyncio.ensure_future(collect(app.events(), seen, lambda event: event.kind == "worker_down"))
    await asyncio.sleep(0.05)
    async with app.worker() as worker:
        handle = await work.enqueue()
        await within(handle)
        name = worker.id
    await within(following)
    kinds = [event.kind for event in seen if event.job == handle.id]
    assert [kind for kind in kinds if kind not in ("progress", "log")] == [
        "enqueued", "started", "retried", "started", "succeeded",
    ]  # fmt: skip
    assert "progress" in kinds
    assert {event.task for event in seen if event.job} == {"work"}
    assert [event.worker for event in seen if event.kind in ("worker_up", "worker_down")] == [name, name]
    assert [event.at for event in seen] == sorted(event.at for event in seen)


async def test_events_are_resumable_and_filtered(app: Windlass) -> None:
    @app.task(name="a", queue="one")
    async def a() -> None: ...

    @app.task(name="b", queue="two")
    async def b() -> None: ...

    async with app.worker():
        for task in (a, b, a, b, a):
            await within(await task.enqueue())

    async def read(**options: Any) -> list[Event]:
        return [event async for event in app.events(follow=False, **options)]

    everything = await read(since="0")
    assert len(everything) == len({event.cursor for event in everything})
    for cut in range(len(everything)):
        assert await read(since=everything[cut].cursor) == everything[cut + 1 :]
    assert await read(since="0", queue="two") == [event for event in everything if event.queue == "two"]
    assert await read(since="0", task="a") == [event for event in everything if event.task == "a"]
    ends = await read(since="0", kinds=["succeeded"])
    assert [event.task for event in ends] == ["a", "b", "a", "b", "a"]
    with pytest.raises(ConfigError, match=r"unknown event kind 'sucdeeded' \(did you mean 'succeeded'\?\)"):
        await read(kinds=["sucdeeded"])
    with pytest.raises(ConfigError, match="cursor"):
        await read(since="yesterday")


async def test_a_long_stream_is_read_to_its_end(app: Windlass) -> None:
    @app.task(name="a")
    async def a(n: int) -> None: ...

    handles = []
    for n in range(350):
        handles.append(await a.enqueue(n))
    seen = [event.job async for event in app.events(since="0", follow=False)]
    assert seen == [handle.id for handle in handles]
    live: list[Event] = []
    following = asyncio.ensure_future(collect(app.events(since="0"), live, lambda event: event.kind == "deleted"))
    await eventually(lambda: len(live) == 350)
    await handles[0].forget()
    await within(following)


async def test_two_followers_and_one_that_leaves(app: Windlass) -> None:
    @app.task(name="a")
    async def a(n: int) -> None: ...

    one: list[Event] = []
    two: list[Event] = []
    first = asyncio.ensure_future(collect(app.events(since="0"), one, lambda event: len(one) == 2))
    second = asyncio.ensure_future(collect(app.events(since="0"), two, lambda event: len(two) == 5))
    for n in range(5):
        await a.enqueue(n)
    await within(asyncio.gather(first, second))
    assert [event.kind for event in two] == ["enqueued"] * 5


# -- dead letters


@pytest.fixture
async def dead(app: Windlass) -> Windlass:
    """Five dead letters of two tasks and two faults."""

    @app.task(name="ship", queue="one")
    async def ship(order: int, fail: bool = True) -> int:
        if fail:
            await _fault(order)
        return order

    @app.task(name="bill", queue="two")
    async def bill(order: int) -> None:
        raise ValueError("bill")

    async with app.worker():
        for handle in [await ship.enqueue(n) for n in range(3)] + [await bill.enqueue(n) for n in range(2)]:
            await eventually(handle.ready)
    return app


async def _fault(order: int) -> None:
    raise LookupError("odd") if order % 2 else ValueError("even")


async def test_dead_letters_are_listed_and_shown(dead: Windlass) -> None:
    assert len(await dead.dead.list()) == 5
    assert {job.task for job in (await dead.dead.list(queue="two")).jobs} == {"bill"}
    ships = (await dead.dead.list(task="ship")).jobs
    assert [job.args["order"] for job in ships] == [2, 1, 0]
    page = await dead.dead.list(limit=2)
    assert len(page) == 2
    assert len(await dead.dead.list(after=page.cursor)) == 3
    info = await dead.dead.show(ships[0].id)
    assert info.error is not None
    assert (info.state, info.error.type, info.attempts) == (State.FAILED, "ValueError", 1)
    assert "_fault" in info.error.traceback
    assert info.source
    with pytest.raises(JobLost):
        await dead.dead.show("nothing")


async def test_the_same_fault_has_the_same_fingerprint(dead: Windlass) -> None:
    records = [await dead.job(job.id).record() for job in (await dead.dead.list(task="ship")).jobs]
    prints = [record.fingerprint for record in records if record]
    assert prints[0] == prints[2] != prints[1]
    assert {job.args["order"] for job in (await dead.dead.list(fingerprint=prints[0])).jobs} == {0, 2}


async def test_a_dead_letter_is_edited_and_replayed(dead: Windlass) -> None:
    (job, *_) = (await dead.dead.list(task="ship")).jobs
    with pytest.raises(WindlassError, match="does not fit"):
        await dead.dead.edit(job.id, {"order": "x"})
    edited = await dead.dead.edit(job.id, {"order": 20, "fail": False})
    assert edited.args == {"order": 20, "fail": False}
    assert await dead.dead.replay(job.id) == 1
    async with dead.worker():
        assert await within(dead.job(job.id)) == 20
    info = await dead.job(job.id).info()
    assert info is not None
    assert (info.run, info.attempts) == (2, 0)
    assert info.error is not None
    assert info.error.run == 1, "what the run before it died of is still told"
    with pytest.raises(WindlassError, match="not a dead letter"):
        await dead.dead.replay(job.id)


async def test_replay_by_filter_fingerprint_and_all(dead: Windlass) -> None:
    (odd,) = [job for job in (await dead.dead.list(task="ship")).jobs if job.args["order"] == 1]
    record = await dead.job(odd.id).record()
    assert record is not None
    assert await dead.dead.replay(fingerprint=record.fingerprint) == 1
    assert await dead.job(odd.id).state() is State.READY
    assert await dead.dead.replay(queue="two") == 2
    assert await dead.dead.replay(task="bill") == 0
    with pytest.raises(ConfigError, match="say which dead letters"):
        await dead.dead.replay()
    assert await dead.dead.replay(every=True) == 2
    assert len(await dead.dead.list()) == 0
    assert (await dead.queue("one").counts(), await dead.queue("two").counts()) == ({"ready": 3}, {"ready": 2})


async def test_purge(dead: Windlass) -> None:
    (job, *_) = (await dead.dead.list(task="bill")).jobs
    assert await dead.dead.purge(job.id) == 1
    assert await dead.job(job.id).info() is None
    with pytest.raises(WindlassError, match="is unknown, not a dead letter"):
        await dead.dead.purge(job.id)
    with pytest.raises(ConfigError):
        await dead.dead.purge()
    assert await dead.dead.purge(task="ship") == 3
    assert await dead.dead.purge(every=True) == 1
    assert len(await dead.dead.list()) == 0


# -- a rolling deploy


async def test_an_old_worker_leaves_the_new_releases_jobs_alone(url: str, app: Windlass) -> None:
    """Undeclared tasks and versions wait, out of the way of what can run, and run when their worker comes."""

    @app.task(name="known")
    async def known(n: int) -> int:
        return n

    new = Windlass("new", app.url, **SHORT)

    @new.task(name="brand_new")
    async def brand_new(n: int) -> int:
        return n

    @new.task(name="known", version=2, upcast={1: lambda args: args})
    async def known_two(n: int, more: int = 0) -> int:
        return n + more

    async with app.worker(concurrency=2) as worker:
        early = [await brand_new.enqueue(1), await known_two.enqueue(2, 3)]
        for n in range(20):
            assert await within(await known.enqueue(n)) == n
        await asyncio.sleep(0.1)
        assert [await handle.state() for handle in early] == [State.READY, State.READY]
        assert worker.executor.completed == 20
        async with new.worker():
            assert [await within(handle) for handle in early] == [1, 5]
    await new.close()


async def test_what_no_worker_declares_for_long_is_parked(url: str, tmp_path: Any) -> None:
    url = url if url != "memory://" else "memory://"
    app = Windlass("parks", url, unknown_after="0.5s", **SHORT)

    @app.task(name="known")
    async def known() -> None: ...

    async with app.worker():
        handle = await app.queue("default").add("nobody.knows", {"n": 1})
        with pytest.raises(JobFailed, match="unknown task") as caught:
            await within(handle)
        assert "no live worker declared task 'nobody.knows' version 1" in caught.value.error_message
        (job,) = (await app.dead.list(fingerprint="unknown-task")).jobs
        assert job.args == {"n": 1}
    await app.close()
