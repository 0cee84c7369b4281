"""Windlass on SQLite, or on the server that BENCH_URL names.

BENCH_KIND chooses the task: `async` (a coroutine), `thread` (a plain function) or `process` (one in a child process).
"""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import apsw

from benchmarks.apps import settings, work
from windlass import Windlass

_s = settings.read()
_durability = "full" if _s.full else "normal"
app = Windlass("bench", _s.url or f"sqlite:///{_s.directory}/windlass.db?durability={_durability}")


def _declare() -> Any:
    """One task per trial, named by its kind, so that a worker of another kind leaves its jobs alone."""
    if _s.kind == "process":
        return app.task(name="noop_process", result=_s.results, runs_in="process")(work.PLAIN[_s.work])
    if _s.kind == "thread":
        return app.task(name="noop_thread", result=_s.results)(work.PLAIN[_s.work])
    return app.task(name="noop", result=_s.results)(work.COROUTINES[_s.work])


_task = _declare()


def enqueue(value: int) -> Any:
    return _task.delay(value)


async def aenqueue(value: int) -> Any:
    return await _task.enqueue(value)


async def aenqueue_many(values: Iterable[int]) -> None:
    await app.enqueue_many([_task.s(value) for value in values])


async def aschedule_many(values: Iterable[int]) -> None:
    later = _task.options(delay="1d")
    await app.enqueue_many([later.s(value) for value in values])


def call(value: int) -> None:
    work.check(_task.delay(value).get(timeout=30), value)


async def acall(value: int) -> None:
    work.check(await (await _task.enqueue(value)), value)


def pending() -> int:
    counts = app.sync.counts("default")
    return counts.get("ready", 0) + counts.get("running", 0)


def versions() -> dict[str, str]:
    if _s.url:
        return {"windlass": version("windlass"), "hiredis": version("hiredis")}
    return {"windlass": version("windlass"), "sqlite": apsw.sqlite_lib_version()}
