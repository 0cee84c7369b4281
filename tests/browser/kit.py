"""A shop that is open: a store, a worker process, a dashboard process, and an app of the test's own for the same store.

Nothing of it outlives the tests. Calls of the app run on a loop in a thread of its own, as the browser's thread has one
already.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.browser.shop import NAME, QUEUES, STAGE, URL, declare
from tests.servers.process import HOST, free_port, wait_until
from windlass import Windlass
from windlass.handles.handle import JobInfo

ROOT = Path(__file__).parents[2]
USER, PASSWORD = "ann", "a-long-password"
SECONDS = 60.0
"""Patience with processes on a machine that does other things as well."""


class Process:
    """A ``windlass`` command that runs until it is ended."""

    def __init__(self, words: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "windlass", *words], cwd=ROOT, env={**os.environ, **env}, stdout=out,
                stderr=out, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, check: Callable[[], Any], what: str) -> Any:
        def look() -> Any:
            if self.process.poll() is not None:
                raise AssertionError(f"{what}: the process ended with {self.process.returncode}\n{self.text()}")
            return check()

        return wait_until(look, f"{what}\n{self.text()}", SECONDS, 0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(10)


class Live:
    """An open shop. ``call`` runs something of the app; ``order`` tells a staged job what to do next."""

    def __init__(self, name: str, url: str, folder: Path, queues: str = "") -> None:
        self.folder, self.port = folder, free_port()
        self.env = {NAME: name, URL: url, STAGE: str(folder), QUEUES: queues}
        self.app = declare(Windlass(name, url, lease="3s", beat="0.5s"), queues)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.worker: Process | None = None
        self.web: Process | None = None

    @property
    def root(self) -> str:
        return f"http://{HOST}:{self.port}"

    # -- processes

    def start_worker(self) -> None:
        words = ["worker", "tests.browser.shop:app", "--concurrency", "20"]
        self.worker = Process(words, self.env, self.folder / "worker.log")
        self.worker.wait_for(lambda: " is up" in self.worker.text(), "the worker starts")

    def start_web(self, *words: str, user: bool = True) -> None:
        login = ["--user", f"{USER}:{PASSWORD}"] if user else []
        given = ["web", "tests.browser.shop:app", "--port", str(self.port), "--refresh", "0.2", "--open-probes"]
        self.web = Process([*given, *login, *words], self.env, self.folder / "web.log")
        self.web.wait_for(self._answers, "the dashboard starts")

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.root}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def link(self) -> str:
        """What the dashboard printed, behind its root: with a key where it has no auth."""
        assert self.web
        return self.web.text().rpartition("Dashboard of ")[2].split()[1].removeprefix(self.root)

    def close(self) -> None:
        if self.web:
            self.web.end()
        if self.worker:
            self.worker.kill()  # its jobs may be in the middle of a stage: it would wait for them
        self.call(self.app.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    # -- the app

    def call(self, waiting: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await waiting

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(SECONDS)

    def add(self, task: str, *args: Any, **options: Any) -> str:
        """Enqueue a call of a task; its id."""
        kwargs = options.pop("kwargs", {})
        call = self.app.tasks[task]
        call = call.options(**options) if options else call
        return str(self.call(call.enqueue(*args, **kwargs)).id)

    def info(self, id: str) -> JobInfo | None:
        found: JobInfo | None = self.call(self.app.job(id).info())
        return found

    def state(self, id: str) -> str:
        found = self.info(id)
        return str(found.state) if found else "gone"

    def wait_state(self, id: str, state: str) -> None:
        wait_until(lambda: self.state(id) == state, f"{id} is {state}", SECONDS, 0.03)

    def order(self, stage: str, *lines: str) -> None:
        with (self.folder / f"{stage}.stage").open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


@contextmanager
def open_shop(name: str, url: str, folder: Path, queues: str = "") -> Iterator[Live]:
    live = Live(name, url, folder, queues)
    try:
        yield live
    finally:
        live.close()
