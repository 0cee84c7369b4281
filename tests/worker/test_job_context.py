"""What code of a job sees of its job in every kind of place: context, current job, logs, functions in a process."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
from typing import Any

import pytest

from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, child_facts, double, in_child_async, sleep_and_tell
from windlass import ConfigError, Current, JobCancelled, JobFailed, Windlass, WindlassError, current
from windlass.calls.context import JobIdFilter, current_or_none

# -- context


var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="nothing")


async def test_every_job_has_its_own_context(app: Windlass) -> None:
    @app.task
    async def on_loop(value: str) -> list[str]:
        before = var.get()
        var.set(value)
        await asyncio.sleep(0.01)
        inside = await asyncio.to_thread(var.get)
        return [before, var.get(), inside]

    @app.task
    def in_thread(value: str) -> list[str]:
        before = var.get()
        var.set(value)
        time.sleep(0.01)
        return [before, var.get(), var.get()]

    async with app.worker(concurrency=3):
        for task in (on_loop, in_thread):
            handles = [await task.enqueue(f"v{n}") for n in range(10)]
            for n, handle in enumerate(handles):
                assert await within(handle) == ["nothing", f"v{n}", f"v{n}"]


@pytest.mark.parametrize("kind", ["loop", "thread", "thread with middleware"])
async def test_the_next_job_inherits_nothing_from_the_one_that_ended(app: Windlass, kind: str) -> None:
    """A job that was fetched ahead is started by the end of another: not in that one's context."""

    async def on_loop(value: str) -> str:
        before = var.get()
        var.set(value)
        await asyncio.sleep(0)
        return before

    def in_thread(value: str) -> str:
        before = var.get()
        var.set(value)
        return before

    if kind.endswith("middleware"):

        @app.around_run
        async def layer(job: Current, call_next: Any) -> Any:
            seen.append(var.get())
            var.set("middleware's")
            return await call_next()

    seen: list[str] = []
    task = app.task(name="task")(on_loop if kind == "loop" else in_thread)
    outside = var.set("the program's")
    async with app.worker(concurrency=1) as worker:
        worker.pump._rate = 300.0
        handles = await app.enqueue_many(task.s(f"v{n}") for n in range(8))
        results = [await within(handle) for handle in handles]
    var.reset(outside)
    if kind.endswith("middleware"):
        assert results == ["middleware's"] * 8
        assert seen == ["the program's"] * 8
    else:
        assert results == ["the program's"] * 8


async def test_current_is_alike_in_every_place(app: Windlass) -> None:
    def facts() -> list[Any]:
        job = current()
        job.progress(50, "half")
        job.log("from the child", "warning")
        return [os.getpid(), job.id, job.attempt, job.headers, job.correlation_id]

    @app.task(name="on_loop")
    async def on_loop() -> list[Any]:
        return facts()

    @app.task(name="in_thread")
    def in_thread() -> list[Any]:
        return facts()

    (in_child,) = adopt(app, child_facts)
    async with app.worker(children=1):
        for task in (on_loop, in_thread, in_child):
            handle = await task.options(headers={"k": "v"}, correlation_id="trace").enqueue()
            pid, id, attempt, headers, correlation = await within(handle)
            assert (pid == os.getpid()) == (task is not in_child)
            assert (id, attempt, headers, correlation) == (handle.id, 1, {"k": "v"}, "trace")
            progress = await handle.progress()
            assert progress is not None
            assert (progress.percent, progress.message) == (50.0, "half")
            assert [(line.level, line.text) for line in await handle.logs()] == [("warning", "from the child")]


async def test_an_async_task_in_a_process(app: Windlass) -> None:
    (task,) = adopt(app, in_child_async)
    async with app.worker(children=1):
        handle = await task.options(headers={"a": "b"}).enqueue(7)
        n, pid, id, attempt, headers, correlation = await within(handle)
        assert (n, id, attempt, headers, correlation) == (7, handle.id, 1, {"a": "b"}, handle.id)
        assert pid != os.getpid()
        progress = await handle.progress()
        assert progress is not None
        assert progress.data == {"n": 7}


async def test_current_outside_of_a_job() -> None:
    with pytest.raises(WindlassError, match="outside of a running job"):
        current()
    assert current_or_none() is None


async def test_jobs_enqueued_inside_jobs_inherit_the_correlation_id(app: Windlass) -> None:
    @app.task(name="leaf")
    async def leaf() -> str:
        return current().correlation_id

    @app.task(name="middle")
    def middle() -> str:
        return leaf.delay().id

    @app.task(name="root")
    async def root() -> list[str]:
        own = await leaf.options(correlation_id="of its own").enqueue()
        return [(await middle.enqueue()).id, own.id]

    async with app.worker():
        for options, expected in (({}, None), ({"correlation_id": "request-7"}, "request-7")):
            first = await root.options(**options).enqueue()
            middle_id, own_id = await within(first)
            leaf_id = await within(app.job(middle_id))
            assert await within(app.job(leaf_id)) == (expected or first.id)
            assert await within(app.job(own_id)) == "of its own"
    await asyncio.to_thread(app.sync.close)


async def test_the_fence_grows_with_every_claim(app: Windlass) -> None:
    fences: list[str] = []

    @app.task(retries=2, backoff=0)
    async def work() -> None:
        fences.append(current().fence)
        raise ValueError

    async with app.worker():
        with pytest.raises(JobFailed):
            await within(await work.enqueue())
    assert len(set(fences)) == 3
    assert [int(fence.split(".")[1]) for fence in fences] == [1, 2, 3]


# -- logging


async def test_log_records_are_tagged_with_the_job(app: Windlass) -> None:
    records: list[Any] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep()
    handler.addFilter(JobIdFilter())
    logger = logging.getLogger("e2e.tagged")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    @app.task(name="on_loop", queue="logs", retries=1, backoff=0)
    async def on_loop() -> None:
        logger.info("on the loop")
        if current().attempt == 1:
            raise ValueError

    @app.task(name="in_thread", queue="logs")
    def in_thread() -> None:
        logger.info("in a thread")

    async with app.worker():
        handles = [await on_loop.enqueue(), await in_thread.enqueue()]
        for handle in handles:
            await within(handle)
    logger.info("outside")
    tags = [(record.msg, record.job_id, record.task, record.queue, record.attempt) for record in records]
    assert sorted(tags) == sorted(
        [
            ("on the loop", handles[0].id, "on_loop", "logs", 1),
            ("on the loop", handles[0].id, "on_loop", "logs", 2),
            ("in a thread", handles[1].id, "in_thread", "logs", 1),
            ("outside", "", "", "", 0),
        ]
    )
    logger.removeHandler(handler)


# -- in_process


async def test_in_process_from_a_coroutine(app: Windlass, ledger: Ledger) -> None:
    @app.task
    async def work(n: int) -> list[int]:
        return [await current().in_process(double, n), await current().in_process(os.getpid)]

    async with app.worker(children=1):
        result, pid = await within(await work.enqueue(21))
        assert result == 42
        assert pid != os.getpid()


async def test_in_process_from_a_thread(app: Windlass) -> None:
    """There is nothing to await in a thread: it waits by itself."""

    @app.task
    def work(n: int) -> int:
        result: int = current().in_process(double, n)
        return result

    async with app.worker(children=1):
        assert await within(await work.enqueue(4)) == 8


async def test_in_process_fails_as_its_function_does(app: Windlass) -> None:
    @app.task
    async def work(kind: str) -> str:
        try:
            if kind == "lambda":
                await current().in_process(lambda: None)
            else:
                await current().in_process(double, "ab", "too many")
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    async with app.worker(children=1):
        assert ConfigError.__name__ in await within(await work.enqueue("lambda"))
        assert "too many positional arguments" in await within(await work.enqueue("arguments"))


async def test_the_child_of_a_cancelled_job_is_killed(app: Windlass, ledger: Ledger) -> None:
    @app.task
    async def work() -> None:
        await current().in_process(sleep_and_tell, str(ledger.path))

    async with app.worker(children=1):
        handle = await work.enqueue()
        (line,) = await eventually(lambda: ledger.lines("start"))
        await handle.cancel()
        with pytest.raises(JobCancelled):
            await within(handle)
        await eventually(lambda: not os.path.exists(f"/proc/{line.pid}") or not alive(line.pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
