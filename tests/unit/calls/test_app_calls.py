"""Calling tasks: every way to call, what the record says, and what is refused at the call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass import ConfigError, Handle, IdConflict, PayloadError, State, SyncHandle, Windlass
from windlass.core.draft import Draft
from windlass.core.ids import make_id
from windlass.handles.handle import JobInfo
from windlass.store.answers import Answer
from windlass.testing.failing import FailingStore, Faults


@pytest.fixture
async def app() -> AsyncIterator[Windlass]:
    app = Windlass("shop", "memory://")

    @app.task(name="add")
    async def add(x: int, y: int = 1) -> int:
        return x + y

    @app.task(name="mail", queue="emails")
    def mail(to: str, *, subject: str = "", **more: str) -> None: ...

    yield app
    await app.close()


async def the_info(handle: Handle[Any] | SyncHandle[Any]) -> JobInfo:
    info = await (handle if isinstance(handle, Handle) else handle._handle).info()
    assert info is not None
    return info


# -- every way to call


async def test_enqueue(app: Windlass) -> None:
    before = datetime.now(UTC)
    info = await the_info(await app.tasks["add"].enqueue(1, y=2))
    assert (info.task, info.queue, info.state, info.args) == ("add", "default", State.READY, {"x": 1, "y": 2})
    assert (info.priority, info.version, info.run, info.attempts) == (5, 1, 1, 0)
    assert info.enqueued_at is not None
    assert timedelta(seconds=-1) < info.enqueued_at - before < timedelta(seconds=5)
    assert info.started_at is info.finished_at is info.due_at is info.expires_at is None
    assert (info.result, info.error, info.progress, info.reason, info.worker) == (None, None, None, "", "")


async def test_the_id_is_new_and_of_this_moment(app: Windlass) -> None:
    before = time.time_ns() // 1_000_000
    ids = [(await app.tasks["add"].enqueue(n)).id for n in range(50)]
    assert len(set(ids)) == 50
    for id in ids:
        assert make_id(before, 0) <= id < make_id(before + 5_000, 0)


async def test_who_enqueued_it(app: Windlass) -> None:
    import os
    import socket

    info = await the_info(await app.tasks["add"].enqueue(1))
    assert info.source == f"shop@{socket.gethostname()}:{os.getpid()}"
    assert info.correlation_id == info.id
    assert info.headers == {}


def test_delay(app: Windlass) -> None:
    handle = app.tasks["add"].delay(1)
    assert isinstance(handle, SyncHandle)
    info = handle.info()
    assert info is not None
    assert info.args == {"x": 1}
    app.sync.close()


async def test_delay_on_a_running_loop(app: Windlass) -> None:
    """It blocks for the moment of the insert, and works."""
    handle = app.tasks["add"].delay(1)
    assert (await the_info(handle)).state is State.READY
    with pytest.raises(ConfigError, match="write `await handle`"):
        handle.get(timeout=1)


async def test_send(app: Windlass) -> None:
    app.tasks["add"].send(1)
    await app.close()
    assert await app.queue("default").counts() == {"ready": 1}
    assert app.lost_sends == 0


def test_send_without_a_loop(app: Windlass) -> None:
    for n in range(20):
        app.tasks["add"].send(n)
    app.sync.close()
    assert app.sync.counts("default") == {"ready": 20}
    app.sync.close()


async def test_what_send_loses_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    app, faults = Windlass("shop", "memory://"), Faults()
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]

    @app.task
    async def ping() -> None: ...

    faults.fail("insert", times=10)
    ping.send()
    ping.send()
    await app.close()
    assert app.lost_sends == 2
    assert "lost 1 fire-and-forget calls" in caplog.text


async def test_send_refuses_bad_arguments_at_the_call(app: Windlass) -> None:
    with pytest.raises(PayloadError):
        app.tasks["add"].send("not a number")


SCRIPT = """
import sys
from windlass import Windlass

app = Windlass("shop", sys.argv[1])

@app.task(name="add")
async def add(x: int) -> int:
    return x

for n in range(100):
    add.send(n)
"""


def test_a_script_that_sends_and_ends_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    subprocess.run([sys.executable, "-c", SCRIPT, url], check=True, timeout=30)
    app = Windlass("shop", url)
    assert app.sync.counts("default") == {"ready": 100}
    app.sync.close()


def test_apply_async_with_everything(app: Windlass) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    handle = app.tasks["mail"].apply_async(
        args=["a@b.c"], kwargs={"subject": "Hi", "cc": "d"}, eta=when, expires=7200, queue="urgent", priority=8,
        task_id="mail:1", headers={"tenant": "x"}, correlation_id="trace-1",
    )  # fmt: skip
    info = handle.info()
    assert info is not None
    assert info.args == {"to": "a@b.c", "subject": "Hi", "cc": "d"}
    assert (info.id, info.queue, info.priority, info.state) == ("mail:1", "urgent", 8, State.SCHEDULED)
    assert (info.headers, info.correlation_id) == ({"tenant": "x"}, "trace-1")
    assert info.due_at is not None
    assert info.expires_at is not None
    assert abs(info.due_at - when) < timedelta(milliseconds=2)
    assert timedelta(seconds=7100) < info.expires_at - datetime.now(UTC) <= timedelta(seconds=7200)
    app.sync.close()


def test_apply_async_countdown_and_defaults(app: Windlass) -> None:
    info = app.tasks["add"].apply_async([1], countdown=60).info()
    assert info is not None
    assert info.state is State.SCHEDULED
    info = app.tasks["add"].apply_async((1,), {"y": 4}).info()
    assert info is not None
    assert (info.state, info.args, info.queue) == (State.READY, {"x": 1, "y": 4}, "default")
    app.sync.close()


async def test_one_due_time_is_enough(app: Windlass) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    for call in (
        lambda: app.tasks["add"].options(delay=1, at=when),
        lambda: app.tasks["add"].apply_async([1], countdown=1, eta=when),
    ):
        with pytest.raises(ConfigError, match="not both"):
            call()
    with pytest.raises(ConfigError, match="not both"):
        await app.queue("default").add("add", {"x": 1}, delay=1, at=when)


async def test_options_at_the_call(app: Windlass) -> None:
    call = app.tasks["add"].options(
        delay="10m", priority=9, id="welcome:42", queue="fast", headers={"k": "v"}, correlation_id="c"
    )
    info = await the_info(await call.enqueue(1))
    assert (info.id, info.priority, info.queue, info.state) == ("welcome:42", 9, "fast", State.SCHEDULED)
    assert (info.headers, info.correlation_id) == ({"k": "v"}, "c")
    assert info.due_at is not None
    assert timedelta(minutes=9) < info.due_at - datetime.now(UTC) <= timedelta(minutes=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prioritty": 9}, "unknown option 'prioritty' (did you mean 'priority'?)"),
        ({"retry_on": ValueError}, "unknown option 'retry_on'"),
        ({"name": "x"}, "unknown option 'name'"),
        ({"at": datetime(2030, 1, 1)}, "naive datetime"),  # noqa: DTZ001
        ({"at": "tomorrow"}, "at is 'tomorrow'"),
        ({"delay": -1}, "delay is -1"),
        ({"id": ""}, "job id '' is not usable"),
        ({"id": "x" * 257}, "is not usable"),
        ({"id": "a\nb"}, "is not usable"),
        ({"headers": {"n": 1}}, "headers has 'n': 1"),
        ({"headers": "x"}, "headers is 'x'"),
        ({"correlation_id": "x" * 300}, "correlation_id"),
        ({"queue": "no queue"}, "is not usable"),
        ({"priority": -1}, "priority is -1"),
    ],
)
async def test_wrong_call_options(app: Windlass, options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.tasks["add"].options(**options)
    assert message in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        await app.queue("default").add("add", {"x": 1}, **options)
    assert message in str(caught.value) or "queue" in options


async def test_a_backoff_function_cannot_travel(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="cannot travel with a call"):
        await app.tasks["add"].options(backoff=lambda attempt, exc: 1).enqueue(1)


async def test_enqueue_many(app: Windlass) -> None:
    add, mail = app.tasks["add"], app.tasks["mail"]
    calls = [add.s(1, 2), mail.s("a@b.c", subject="Hi"), add.options(priority=9, id="x").s(3)]
    assert repr(calls[1]) == "mail('a@b.c', subject='Hi')"
    handles = await app.enqueue_many(calls)
    infos = [await the_info(handle) for handle in handles]
    assert [(info.task, info.priority) for info in infos] == [("add", 5), ("mail", 5), ("add", 9)]
    assert infos[2].id == "x"
    assert await app.enqueue_many([]) == []


async def test_enqueue_many_sends_batches(app: Windlass) -> None:
    faults = Faults()
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    handles = await app.enqueue_many(app.tasks["add"].s(n) for n in range(2_500))
    assert len({handle.id for handle in handles}) == 2_500
    assert faults.calls["insert"] == 3
    assert await app.queue("default").counts() == {"ready": 2_500}


def test_enqueue_many_for_sync_code(app: Windlass) -> None:
    handles = app.sync.enqueue_many(app.tasks["add"].s(n) for n in range(3))
    assert [handle.state for handle in handles] == [State.READY] * 3
    assert len(app.sync.jobs(state="ready", task="add")) == 3
    app.sync.close()


async def test_one_bad_job_of_many_raises_after_all_were_sent(app: Windlass) -> None:
    add = app.tasks["add"]
    await add.options(id="taken").enqueue(1)
    with pytest.raises(IdConflict):
        await app.enqueue_many([add.s(1), add.options(id="taken").s(2), add.s(3)])
    assert await app.queue("default").counts() == {"ready": 3}


# -- by name


async def test_add_by_name(app: Windlass) -> None:
    info = await the_info(await app.queue("emails").add("other.service.task", {"to": "a"}, priority=9, delay=60))
    assert (info.task, info.queue, info.args) == ("other.service.task", "emails", {"to": "a"})
    assert (info.priority, info.state) == (9, State.SCHEDULED)
    assert (await the_info(await app.queue("emails").add("plain"))).args == {}


async def test_add_by_name_checks_a_declared_task(app: Windlass) -> None:
    with pytest.raises(PayloadError):
        await app.queue("default").add("add", {"x": "not a number"})
    with pytest.raises(ConfigError, match="give a mapping by name"):
        await app.queue("default").add("add", [1, 2])  # type: ignore[arg-type]


async def test_add_bulk(app: Windlass) -> None:
    handles = await app.queue("bulk").add_bulk([("a", {"n": 1}), ("b", {"n": 2})], priority=1)
    infos = [await the_info(handle) for handle in handles]
    assert [(info.task, info.args, info.queue, info.priority) for info in infos] == [
        ("a", {"n": 1}, "bulk", 1), ("b", {"n": 2}, "bulk", 1),
    ]  # fmt: skip
    assert await app.queue("bulk").counts() == {"ready": 2}
    assert await app.queue("nobody").counts() == {}


def test_add_by_name_for_sync_code(app: Windlass) -> None:
    info = app.sync.add("other.task", {"n": 1}, queue="emails").info()
    assert info is not None
    assert (info.queue, info.task) == ("emails", "other.task")
    app.sync.close()


# -- the same id


async def test_the_same_id_with_another_payload_is_an_error(app: Windlass) -> None:
    call = app.tasks["add"].options(id="one")
    first = await call.enqueue(1)
    assert (await call.enqueue(1)).id == first.id
    with pytest.raises(IdConflict):
        await call.enqueue(2)
    with pytest.raises(IdConflict):
        await app.tasks["mail"].options(id="one").enqueue("x")
    assert await app.queue("default").counts() == {"ready": 1}


async def test_the_same_id_does_not_depend_on_the_order_of_arguments(app: Windlass) -> None:
    call = app.tasks["mail"].options(id="m")
    first = await call.enqueue("x", b="2", a="1")
    assert (await call.enqueue("x", a="1", b="2")).id == first.id


# -- what is refused at the call


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"z": 1}, "unexpected keyword argument 'z'"),
        ((1,), {"x": 1}, "multiple values for argument 'x'"),
        (("1",), {}, "Expected `int`, got `str`"),
        ((1.5,), {}, "Expected `int`, got `float`"),
        ((None,), {}, "Expected `int`, got `null`"),
        ((object(),), {}, "cannot be carried as JSON"),
    ],
)
async def test_bad_arguments_fail_at_the_call(app: Windlass, args: Any, kwargs: Any, message: str) -> None:
    add = app.tasks["add"]
    for call in (add.enqueue, add.options(priority=1).enqueue):
        with pytest.raises(PayloadError) as caught:
            await call(*args, **kwargs)
        assert isinstance(caught.value, TypeError)
        assert message in str(caught.value)
        assert "task add" in str(caught.value)
    assert await app.queue("default").counts() == {}


async def test_nan_does_not_slip_through_as_null(app: Windlass) -> None:
    @app.task(name="scale")
    async def scale(by: float) -> None: ...

    with pytest.raises(PayloadError):
        await scale.enqueue(float("nan"))


async def test_size_and_depth_are_capped() -> None:
    app = Windlass("shop", "memory://", max_payload=1_000)

    @app.task
    async def take(data: Any) -> None: ...

    await take.enqueue("x" * 900)
    with pytest.raises(PayloadError, match=r"1,\d+ bytes; at most 1,000 are allowed"):
        await take.enqueue("x" * 1_000)
    deep: Any = 1
    for _ in range(62):
        deep = [deep]
    await take.enqueue(deep)
    await take.enqueue("[" * 500)
    with pytest.raises(PayloadError, match="nested deeper than 64 levels"):
        await take.enqueue([[[deep]]])
    with pytest.raises(PayloadError):
        await app.queue("default").add("by.name", {"data": "x" * 1_000})
    with pytest.raises(PayloadError):
        await app.queue("default").add("by.name", {"data": [[[deep]]]})
    await app.close()


# -- middleware around enqueue


async def test_middleware_sees_every_way_to_call(app: Windlass) -> None:
    seen: list[list[str]] = []

    @app.around_enqueue
    async def trace(drafts: list[Draft], call_next: Any) -> list[Answer]:
        seen.append([draft.task for draft in drafts])
        for draft in drafts:
            draft.headers = {**draft.headers, "trace": "t1"}
        return await call_next(drafts)

    add = app.tasks["add"]
    handles = [await add.enqueue(1), *await app.enqueue_many([add.s(1), add.s(2)])]
    handles.append(await app.queue("q").add("by.name", {}))
    handles.append(app.job(await asyncio.to_thread(lambda: add.delay(3).id)))
    assert seen == [["add"], ["add", "add"], ["by.name"], ["add"]]
    assert {(await the_info(handle)).headers["trace"] for handle in handles} == {"t1"}
    await asyncio.to_thread(app.sync.close)


async def test_middleware_is_nested_in_order_and_may_refuse(app: Windlass) -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def around(drafts: list[Draft], call_next: Any) -> list[Answer]:
            order.append(f"{name} in")
            answers: list[Answer] = await call_next(drafts)
            order.append(f"{name} out")
            return answers

        return around

    app.around_enqueue(layer("outer"))
    app.around_enqueue(layer("inner"))
    await app.tasks["add"].enqueue(1)
    assert order == ["outer in", "inner in", "inner out", "outer out"]

    @app.around_enqueue
    async def refuse(drafts: list[Draft], call_next: Any) -> list[Answer]:
        raise PermissionError("not today")

    with pytest.raises(PermissionError):
        await app.tasks["add"].enqueue(1)
    assert await app.queue("default").counts() == {"ready": 1}


# -- listings


async def test_jobs_are_listed_in_pages(app: Windlass) -> None:
    await app.enqueue_many(app.tasks["add"].s(n) for n in range(7))
    await app.tasks["mail"].options(delay=60).enqueue("x")
    first = await app.jobs(limit=5, task="add")
    assert [job.args["x"] for job in first.jobs] == [6, 5, 4, 3, 2]
    rest = await app.jobs(limit=5, task="add", after=first.cursor)
    assert [job.args["x"] for job in rest.jobs] == [1, 0]
    assert rest.cursor == ""
    assert len(await app.jobs(queue="emails", state="scheduled")) == 1
    assert len(await app.jobs(state=["ready", State.SCHEDULED])) == 8
    with pytest.raises(ConfigError, match=r"unknown state 'readdy' \(did you mean 'ready'\?\)"):
        await app.jobs(state="readdy")
