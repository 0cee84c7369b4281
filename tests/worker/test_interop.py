"""Inside a task everything works as it does elsewhere: timeouts, task groups, anyio, contextvars, HTTP, logging."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import http.server
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest

from tests.worker.helpers import Ledger, eventually, within
from tests.worker.jobs import adopt, child_facts, double, in_child_async, sleep_and_tell
from windlass import ConfigError, Current, JobCancelled, JobFailed, SoftTimeout, Windlass, WindlassError, current
from windlass.calls.context import JobIdFilter, current_or_none

# -- asyncio


async def test_asyncio_timeout_and_wait_for(app: Windlass) -> None:
    @app.task
    async def work() -> list[str]:
        said = []
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(60)
        except TimeoutError:
            said.append("timeout")
        try:
            await asyncio.wait_for(asyncio.sleep(60), 0.02)
        except TimeoutError:
            said.append("wait_for")
        said.append(await asyncio.wait_for(asyncio.sleep(0, "value"), 5))
        return said

    async with app.worker():
        assert await within(await work.enqueue()) == ["timeout", "wait_for", "value"]


async def test_a_job_timeout_is_not_taken_for_an_inner_one(app: Windlass) -> None:
    @app.task(timeout=0.1)
    async def work() -> str:
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(60)
        except TimeoutError:
            return "the inner timeout claims it"
        return "slept"

    async with app.worker():
        with pytest.raises(JobFailed, match="longer than its timeout"):
            await within(await work.enqueue())


async def test_task_groups(app: Windlass) -> None:
    @app.task
    async def work(fail: bool) -> list[int]:
        async def part(n: int) -> int:
            await asyncio.sleep(0.001)
            assert current().id
            if fail and n == 2:
                raise LookupError("part 2")
            return n

        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part(n)) for n in range(4)]
        return [task.result() for task in parts]

    async with app.worker():
        assert await within(await work.enqueue(False)) == [0, 1, 2, 3]
        with pytest.raises(JobFailed) as caught:
            await within(await work.enqueue(True))
        assert caught.value.error_type == "ExceptionGroup"
        assert "LookupError: part 2" in caught.value.traceback


@pytest.mark.parametrize("how", ["cancel", "timeout", "soft"])
async def test_nothing_of_a_task_group_outlives_the_job(app: Windlass, how: str) -> None:
    stopped: list[int] = []
    options: dict[str, Any] = {"timeout": {"timeout": 0.1}, "soft": {"soft_timeout": 0.1}, "cancel": {}}[how]

    @app.task(**options)
    async def work() -> str:
        async def part(n: int) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                stopped.append(n)

        try:
            async with asyncio.TaskGroup() as group:
                for n in range(3):
                    group.create_task(part(n))
        except SoftTimeout:
            return "soft, outside of the group"
        return "all done"

    async with app.worker() as worker:
        handle = await work.enqueue()
        await eventually(lambda: worker.executor.active)
        await asyncio.sleep(0.02)
        if how == "soft":
            assert await within(handle) == "soft, outside of the group"
        else:
            if how == "cancel":
                await handle.cancel()
            with pytest.raises(JobCancelled if how == "cancel" else JobFailed):
                await within(handle)
        assert sorted(stopped) == [0, 1, 2]


async def test_soft_timeout_inside_asyncio_timeout(app: Windlass) -> None:
    @app.task(soft_timeout=0.1)
    async def work() -> list[str]:
        said = []
        try:
            async with asyncio.timeout(60):
                await asyncio.sleep(60)
        except SoftTimeout:
            said.append("soft")
        # The cancellation is used up: what comes now is not disturbed by it, and other timeouts work again.
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(60)
        except TimeoutError:
            said.append("timeout")
        return said

    async with app.worker():
        assert await within(await work.enqueue()) == ["soft", "timeout"]


async def test_soft_timeout_while_waiting_for_another_task(app: Windlass) -> None:
    @app.task(soft_timeout=0.1)
    async def work() -> str:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        try:
            await inner
        except SoftTimeout:
            return "cancelled" if inner.cancelled() else "left running"
        return "slept"

    async with app.worker():
        assert await within(await work.enqueue()) == "cancelled"


async def test_a_soft_timeout_that_comes_too_late_disturbs_nobody(app: Windlass) -> None:
    @app.task(soft_timeout=0.5)
    async def work() -> str:
        await asyncio.sleep(0.001)
        return "in time"

    async with app.worker(concurrency=1):
        for _ in range(20):
            assert await within(await work.enqueue()) == "in time"
        await asyncio.sleep(0.55)
        assert await within(await work.enqueue()) == "in time"


async def test_shield_keeps_the_inner_task(app: Windlass) -> None:
    finished = asyncio.Event()

    @app.task(timeout=0.05)
    async def work() -> None:
        async def inner() -> None:
            await asyncio.sleep(0.2)
            finished.set()

        await asyncio.shield(asyncio.ensure_future(inner()))

    async with app.worker():
        with pytest.raises(JobFailed):
            await within(await work.enqueue())
        await within(finished.wait())


# -- anyio


async def test_anyio_scopes_and_groups(app: Windlass) -> None:
    @app.task
    async def work() -> list[Any]:
        said: list[Any] = []
        with anyio.move_on_after(0.02) as scope:
            await anyio.sleep(60)
        said.append(scope.cancelled_caught)
        try:
            with anyio.fail_after(0.02):
                await anyio.sleep(60)
        except TimeoutError:
            said.append("fail_after")
        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(add, said, n)
        said.append(await anyio.to_thread.run_sync(lambda: current().attempt))
        return said

    async def add(said: list[Any], n: int) -> None:
        await anyio.sleep(0.001 * n)
        said.append(n)

    async with app.worker():
        assert await within(await work.enqueue()) == [True, "fail_after", 0, 1, 2, 1]


@pytest.mark.parametrize("how", ["cancel", "timeout", "soft"])
async def test_nothing_of_an_anyio_group_outlives_the_job(app: Windlass, how: str) -> None:
    stopped: list[int] = []
    options: dict[str, Any] = {"timeout": {"timeout": 0.1}, "soft": {"soft_timeout": 0.1}, "cancel": {}}[how]

    @app.task(**options)
    async def work() -> str:
        async def part(n: int) -> None:
            try:
                await anyio.sleep(60)
            finally:
                stopped.append(n)

        try:
            async with anyio.create_task_group() as group:
                for n in range(3):
                    group.start_soon(part, n)
        except SoftTimeout:
            return "soft, outside of the group"
        return "all done"

    async with app.worker() as worker:
        handle = await work.enqueue()
        await eventually(lambda: worker.executor.active)
        await asyncio.sleep(0.02)
        if how == "soft":
            assert await within(handle, 5) == "soft, outside of the group"
        else:
            if how == "cancel":
                await handle.cancel()
            with pytest.raises(JobCancelled if how == "cancel" else JobFailed):
                await within(handle, 5)
        assert sorted(stopped) == [0, 1, 2]


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


# -- HTTP


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/slow":
            threading.Event().wait(1)
        body = b'{"hello":"world"}'
        with contextlib.suppress(ConnectionError):  # whoever asked has given up
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.socket.close()


async def test_http_in_tasks(app: Windlass, server: str) -> None:
    @app.task
    async def fetch(path: str, timeout: float = 5.0) -> Any:
        async with httpx2.AsyncClient(trust_env=False) as client:
            answers = await asyncio.gather(*(client.get(server + path, timeout=timeout) for _ in range(3)))
        return [answer.json() for answer in answers]

    @app.task(timeout=0.2)
    async def impatient() -> None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            await client.get(f"{server}/slow")

    async with app.worker():
        assert await within(await fetch.enqueue("/")) == [{"hello": "world"}] * 3
        with pytest.raises(JobFailed, match="Timeout"):
            await within(await fetch.enqueue("/slow", 0.1))
        with pytest.raises(JobFailed, match="longer than its timeout"):
            await within(await impatient.enqueue())
        assert await within(await fetch.enqueue("/")) == [{"hello": "world"}] * 3
