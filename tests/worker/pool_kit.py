"""What the tests of the process pool share."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import psutil
import pytest

from windlass.core.lifecycle import Succeeded
from windlass.worker.pool import ProcessPool, RunRequest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process children need POSIX")

TARGET = "tests.worker.pool_tasks:app"

BODY = "tests.worker.pool_tasks:body"


class Pool(ProcessPool):
    """A pool that numbers its jobs and keeps what they say."""

    def __init__(self, size: int = 2, target: str = TARGET, **options: Any) -> None:
        self.messages: list[tuple[str, str, Any]] = []
        self.calls = 0
        options = {"body": BODY, "on_message": lambda *message: self.messages.append(message)} | options
        super().__init__(size, options.pop("command", None), target, **options)

    async def call(self, task: str, *args: Any, id: str = "") -> Any:
        self.calls += 1
        job_id = id or f"{task}-{self.calls}"
        reply = await self.run(RunRequest(id=job_id, task=task, payload=msgspec.json.encode(args)))
        assert reply.id == job_id
        outcome = reply.outcome
        return msgspec.json.decode(outcome.result) if isinstance(outcome, Succeeded) else outcome

    def begin(self, task: str, *args: Any, id: str = "") -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.call(task, *args, id=id or task))

    async def up(self, job_id: str) -> int:
        """What the job said when it was up: the pid of its child or of a program it started."""
        await until(lambda: any(m[:2] == (job_id, "up") for m in self.messages))
        return next(data for name, kind, data in self.messages if (name, kind) == (job_id, "up"))


async def until(condition: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


async def turns(count: int) -> None:
    """Let the loop turn so often: a little later each time, to meet a job at every point of its short life."""
    for _ in range(count):
        await asyncio.sleep(0)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def our_children() -> list[psutil.Process]:
    """Children and zombies of this process, less the ones the test runner may have."""
    return [p for p in psutil.Process().children() if "windlass.worker" in " ".join(_command(p))]


def _command(one: psutil.Process) -> list[str]:
    try:
        return one.cmdline() or ["windlass.worker zombie"]
    except psutil.ZombieProcess:
        return ["windlass.worker zombie"]
    except psutil.NoSuchProcess:
        return []


def count_descriptors() -> int:
    return psutil.Process().num_fds()


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Any]]:
    pools: list[Pool] = []
    descriptors = count_descriptors()

    async def start(size: int = 2, **options: Any) -> Pool:
        pool = Pool(size, **options)
        await pool.start()
        pools.append(pool)
        return pool

    yield start
    for pool in pools:
        await pool.stop(0)
    assert not our_children(), "no child and no zombie outlives its pool"
    await until(lambda: count_descriptors() <= descriptors)
