"""Inside a task everything works as it does elsewhere: timeouts, task groups, anyio, contextvars, HTTP, logging."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest

from tests.worker.helpers import eventually, within
from windlass import JobCancelled, JobFailed, SoftTimeout, Windlass, current

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
