"""Calls that go on while something is broken, and what a broken store costs the workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterable
from typing import Any

import psutil

from tests.faults.checker import Report, Window, check, unfinished
from tests.faults.jobs import in_thread, on_loop
from tests.worker.helpers import Ledger, WorkerProcess, eventually
from windlass import StoreError, Windlass

HEALED = 5.0
"""Within so many seconds of the end of a fault, workers run jobs again."""


def slack() -> float:
    """What a loaded machine may add to a promise about seconds."""
    return 0.5 * max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def nothing_left(app: Windlass) -> bool:
    return await unfinished(app) == 0


class Load:
    """Enqueues without end, until it is left.

    What the store did not answer for is sent again under the same id until it does: that must never make two jobs.
    One job in twenty takes as long as ``long`` says, so that some are under way throughout a fault.
    """

    def __init__(
        self,
        app: Windlass,
        ledger: Ledger,
        *,
        batch: int = 10,
        every: float = 0.04,
        pause: float = 0.05,
        long: float = 0.0,
    ) -> None:
        self.app, self.ledger, self.batch, self.every = app, ledger, batch, every
        self.pause, self.long = pause, long or pause
        self.accepted: list[str] = []
        self.errors: list[StoreError] = []
        self.slowest = 0.0
        """How long the longest call took to be answered or to fail."""
        self._random = random.Random(4)
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Load:
        self._task = asyncio.create_task(self._produce())
        await self.progress(20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        assert self._task
        await self._task

    async def _produce(self) -> None:
        while not self._stop.is_set():
            first = len(self.accepted)
            ids = [f"job-{first + n}" for n in range(self.batch)]
            calls = [self._call(id, n) for n, id in enumerate(ids)]
            await self._until_accepted(calls)
            self.accepted += ids
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), self.every)

    def _call(self, id: str, n: int) -> Any:
        task = self.app.tasks[self._random.choice([on_loop, on_loop, in_thread]).name]
        pause = self.long if self._random.random() < 0.05 else self._random.uniform(0, 2 * self.pause)
        return task.options(id=id).s(n, round(pause, 4))

    async def _until_accepted(self, calls: list[Any]) -> None:
        while True:
            started = time.monotonic()
            try:
                await self.app.enqueue_many(calls)
                return
            except StoreError as error:
                self.errors.append(error)
                await asyncio.sleep(0.05)
            finally:
                self.slowest = max(self.slowest, time.monotonic() - started)

    async def progress(self, jobs: int, timeout: float = 20.0) -> None:
        """Until so many more jobs have started."""
        goal = len(self.ledger.lines("start")) + jobs
        await eventually(lambda: len(self.ledger.lines("start")) >= goal, timeout=timeout, every=0.05)

    def running(self) -> int:
        """How many jobs are under way now: a fault that meets none proves nothing."""
        return len(self.ledger.jobs("start") - self.ledger.jobs("end"))

    async def consumed_after(self, moment: float, pids: Iterable[int] = ()) -> float:
        """How long after ``moment`` the first job started (on one of these processes)."""
        wanted = set(pids)

        def first() -> list[float]:
            lines = self.ledger.lines("start")
            return [line.at for line in lines if line.at > moment and (not wanted or line.pid in wanted)]

        return min(await eventually(first, timeout=30, every=0.05)) - moment

    async def verify(self, what: str, timeout: float = 60.0, forgotten: Window | None = None) -> Report:
        """After it was left: wait for the last job, and check all of them."""
        await eventually(lambda: nothing_left(self.app), timeout=timeout, every=0.1)
        report = await check(self.app, self.accepted, self.ledger, [], forgotten)
        print(f"\n{what}: {len(self.errors)} failed calls, the slowest {self.slowest:.2f} s, {report}")  # noqa: T201
        return report


async def cpu_shares(workers: Iterable[WorkerProcess], seconds: float) -> list[float]:
    """Wait so long; how much of a core each worker used meanwhile."""
    processes = [psutil.Process(worker.pid) for worker in workers]
    before = [_cpu(process) for process in processes]
    started = time.monotonic()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - started
    return [(_cpu(process) - spent) / elapsed for process, spent in zip(processes, before, strict=True)]


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def all_running(app: Windlass, count: int) -> None:
    """Until so many workers have presented themselves: what happens to a worker that starts is another test."""
    store = (await app.client()).store

    async def alive() -> bool:
        return sum(worker.alive for worker in await store.workers()) >= count

    await eventually(alive, every=0.05)
