"""Windlass on SQLite, or on the server that BENCH_URL names.

BENCH_KIND chooses the task: `async` (a coroutine), `thread` (a plain function) or `process` (one in a child process).
"""

import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any

import apsw

from benchmarks.apps import settings, work
from windlass import Windlass, Work, chain, chord, current, every, flow, group

_s = settings.read()
_durability = "full" if _s.full else "normal"
app = Windlass(
    "bench",
    _s.url or f"sqlite:///{_s.directory}/windlass.db?durability={_durability}",
    charts=_s.flow != "off",
)
if _s.flow == "traced":
    from benchmarks.apps import tracing

    tracing.turn_on(app)


_coroutine = work.COROUTINES.get(_s.work, work.noop_await)
_plain = work.PLAIN[_s.work]


def _flow_options(flow: str) -> dict[str, Any]:
    """What BENCH_FLOW asks of the task."""
    what, _, keys = flow.partition(":")
    if what == "keys":
        return {"key": lambda value: value % int(keys)}
    if what == "ordered":
        return {"key": lambda value: value % int(keys), "ordered": True}
    return {"rate": {"rate": "1000000/s"}, "limit": {"limit": 1_000_000}}.get(what, {})


# Three names, so that a worker of one kind leaves the jobs of another alone. They are declared in the usual way, by
# decorators: a child process finds its task by the name of its function in this module.
@app.task(name="noop", result=_s.results, **_flow_options(_s.flow))
async def noop_async(value: int) -> int:
    return await _coroutine(value)


@app.task(name="noop_thread", result=_s.results)
def noop_thread(value: int) -> int:
    return _plain(value)


@app.task(name="noop_process", result=_s.results, runs_in="process")
def noop_process(value: int) -> int:
    return _plain(value)


_task: Any = {"thread": noop_thread, "process": noop_process}.get(_s.kind, noop_async)


def enqueue(value: int) -> Any:
    return _task.delay(value)


async def aenqueue(value: int) -> Any:
    return await _task.enqueue(value)


_by_priority = [_task.options(priority=priority) for priority in range(10)]


async def aenqueue_many(values: Iterable[int]) -> None:
    if _s.flow == "priority":
        await app.enqueue_many([_by_priority[value % 10].s(value) for value in values])
    elif _s.flow == "traced":
        # A batch is one send and is sampled as one: small batches, so that about one job in ten is.
        calls = [_task.s(value) for value in values]
        for start in range(0, len(calls), 20):
            await app.enqueue_many(calls[start : start + 20])
    else:
        await app.enqueue_many([_task.s(value) for value in values])


async def aput_schedules(count: int) -> None:
    for number in range(count):
        await app.schedules.put(f"number {number}", every("day at 03:00"), _task, args=[number], start="1d")


async def aschedule_many(values: Iterable[int]) -> None:
    later = _task.options(delay="1d")
    await app.enqueue_many([later.s(value) for value in values])


def call(value: int) -> None:
    work.check(_task.delay(value).get(timeout=30), value)


async def acall(value: int) -> None:
    work.check(await (await _task.enqueue(value)), value)


@app.task(name="total")
async def total(values: list[int]) -> int:
    return work.total(values)


@app.task(name="parent")
async def parent() -> int:
    return work.total(current().results)


def _tree(fans: tuple[int, ...]) -> Work[int]:
    if not fans:
        return noop_async.si(1)
    return flow(parent.si(), needs=[_tree(fans[1:]) for _ in range(fans[0])])


_SHAPES: dict[str, Callable[[int], tuple[Work[Any], Any]]] = {
    "chain": lambda size: (chain(noop_async.s(1), *[noop_async.s() for _ in range(size - 1)]), 1),
    "group": lambda size: (group(noop_async.s(value) for value in range(size)), list(range(size))),
    "chord": lambda size: (chord([noop_async.s(1) for _ in range(size)], total.s()), size + 1),
    "tree": lambda size: (_tree(work.fans(size)), size),
}


async def aworkflow(shape: str, size: int) -> None:
    built, value = _SHAPES[shape](size)
    work.check(await (await built.enqueue()), value)


# The worker's own clock says when a huge chord's members began and ended: they and the body run in one process.
_first = _last = 0.0


@app.task(name="one_of_many")
async def one_of_many() -> int:
    global _first, _last
    _last = time.perf_counter()
    _first = _first or _last
    work.mark()
    return 1


@app.task(name="last_of_many")
async def last_of_many(values: list[int]) -> dict[str, float]:
    now = time.perf_counter()
    return {"sum": sum(values), "seconds": now - _first, "after": now - _last}


async def ahuge_submit(size: int) -> dict[str, float]:
    one, started = one_of_many.s(), time.perf_counter()
    await chord([one] * size, last_of_many.s()).with_id("huge").enqueue()
    return {"seconds": time.perf_counter() - started}


async def ahuge_wait(size: int) -> dict[str, float]:
    found: dict[str, float] = await app.workflow("huge").result(timeout=600)
    work.check(found["sum"], size)
    return found


def pending() -> int:
    counts = app.sync.counts("default")
    return counts.get("ready", 0) + counts.get("running", 0)


def versions() -> dict[str, str]:
    if _s.url:
        return {"windlass": version("windlass"), "hiredis": version("hiredis")}
    return {"windlass": version("windlass"), "sqlite": apsw.sqlite_lib_version()}
