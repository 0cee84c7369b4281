"""Windlass on SQLite. BENCH_KIND chooses the task: `async` (a coroutine) or `thread` (a plain function)."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import apsw

from benchmarks.apps import settings
from benchmarks.apps.marks import mark
from windlass import Windlass

_s = settings.read()
_durability = "full" if _s.full else "normal"
app = Windlass("bench", f"sqlite:///{_s.directory}/windlass.db?durability={_durability}")


@app.task(name="noop", result=_s.results)
async def noop_async(value: int) -> int:
    mark()
    return value


@app.task(name="noop_thread", result=_s.results)
def noop_thread(value: int) -> int:
    mark()
    return value


_task = noop_thread if _s.kind == "thread" else noop_async


def enqueue(value: int) -> Any:
    return _task.delay(value)


async def aenqueue(value: int) -> Any:
    return await _task.enqueue(value)


async def aenqueue_many(values: Iterable[int]) -> None:
    await app.enqueue_many([_task.s(value) for value in values])


def call(value: int) -> None:
    if _task.delay(value).get(timeout=30) != value:
        raise AssertionError("wrong result")


async def acall(value: int) -> None:
    if await (await _task.enqueue(value)) != value:
        raise AssertionError("wrong result")


def pending() -> int:
    counts = app.sync.counts("default")
    return counts.get("ready", 0) + counts.get("running", 0)


def versions() -> dict[str, str]:
    return {"windlass": version("windlass"), "sqlite": apsw.sqlite_lib_version()}
