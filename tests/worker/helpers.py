"""What the end-to-end tests share: waiting with a deadline, real worker processes and the ledger of effects."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SHORT = {"lease": "1.5s", "beat": "0.4s"}
"""Settings under which a dead worker is noticed within a test's patience."""


async def eventually(check: Callable[[], Any], timeout: float = 60.0, every: float = 0.01) -> Any:
    """The first true answer of ``check`` (plain or async), or an error that shows the last one."""
    deadline = time.monotonic() + timeout
    while True:
        answer = check()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {inspect.getsource(check).strip()} (last: {answer!r})")
        await asyncio.sleep(every)


def soon(check: Callable[[], Any], timeout: float = 60.0, every: float = 0.01) -> Any:
    """``eventually`` for tests without a loop."""
    deadline = time.monotonic() + timeout
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {inspect.getsource(check).strip()} (last: {answer!r})")
        time.sleep(every)
    return answer


async def within(awaitable: Awaitable[Any], seconds: float = 60.0) -> Any:
    """The answer, or TimeoutError: no test hangs on a handle."""
    async with asyncio.timeout(seconds):
        return await awaitable


class Line(NamedTuple):
    """One effect: a task body wrote it, so it did run."""

    what: str
    job: str
    pid: int
    attempt: int
    at: float


class Ledger:
    """Effects of task bodies, outside of the system under test. Appends of one line are atomic."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def write(self, what: str, job: str = "", attempt: int = 0) -> None:
        line = json.dumps([what, job, os.getpid(), attempt, time.time()]) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)

    def lines(self, what: str = "") -> list[Line]:
        if not self.path.exists():
            return []
        found = [Line(*json.loads(line)) for line in self.path.read_text().splitlines()]
        return [line for line in found if not what or line.what == what]

    def jobs(self, what: str) -> Counter[str]:
        return Counter(line.job for line in self.lines(what))


class WorkerProcess:
    """A worker as a process of its own: ``python -m tests.worker.serve MODULE:APP OPTIONS``."""

    def __init__(self, app: str, env: dict[str, str], log: Path, **options: Any) -> None:
        self.log, self.replaced = log, False
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.serve", app, json.dumps(options)],
                cwd=ROOT, env={**os.environ, **env}, stderr=stderr, stdout=stderr, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def logged(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def term(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def wait(self, timeout: float = 60.0) -> int:
        return self.process.wait(timeout)

    def end(self) -> None:
        if self.alive:
            self.signal(signal.SIGCONT)
            self.kill()
        self.process.wait(10)


class Fleet:
    """The worker processes of one test, all of one app module; none outlives it."""

    def __init__(self, app: str, folder: Path, env: dict[str, str]) -> None:
        self.app, self.folder, self.env = app, folder, env
        self.workers: list[WorkerProcess] = []

    def start(self, env: dict[str, str] | None = None, **options: Any) -> WorkerProcess:
        log = self.folder / f"worker-{len(self.workers)}.log"
        worker = WorkerProcess(self.app, {**self.env, **(env or {})}, log, **options)
        self.workers.append(worker)
        return worker

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(self.workers)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()

    def logs(self) -> str:
        return "\n".join(f"--- {worker.log.name}\n{worker.logged()}" for worker in self.workers)
