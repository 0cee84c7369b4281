"""One timed client operation, run inside a peer's environment: `python -m benchmarks.apps.client APP OP JSON`.

Prints one line of JSON. Imports of the peer and the first calls, which open connections, are not timed.
"""

import asyncio
import importlib
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import Any

from benchmarks.apps import settings
from benchmarks.apps.loop import fastest_loop

Answer = dict[str, Any]
WARM_UP = 20
TICK = 0.01


def _rate(count: int, started: float) -> Answer:
    return {"rate": count / (time.perf_counter() - started)}


def _batches(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _run(app: ModuleType, main: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Runs a coroutine within the app's session, where it has one to open and close."""

    async def within() -> Answer:
        async with app.session() if hasattr(app, "session") else nullcontext():
            return await main()

    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(within())


def enqueue(app: ModuleType, count: int) -> Answer:
    """One job after another, each call returning when its job is accepted."""
    for value in range(WARM_UP):
        app.enqueue(value)
    started = time.perf_counter()
    for value in range(count):
        app.enqueue(value)
    return _rate(count, started)


def enqueue_await(app: ModuleType, count: int) -> Answer:
    """One job after another from a coroutine."""

    async def main() -> Answer:
        for value in range(WARM_UP):
            await app.aenqueue(value)
        started = time.perf_counter()
        for value in range(count):
            await app.aenqueue(value)
        return _rate(count, started)

    return _run(app, main)


def gather(app: ModuleType, count: int, width: int) -> Answer:
    """`width` coroutines at a time."""

    async def main() -> Answer:
        await asyncio.gather(*[app.aenqueue(value) for value in range(WARM_UP)])
        started = time.perf_counter()
        for batch in _batches(count, width):
            await asyncio.gather(*[app.aenqueue(value) for value in batch])
        return _rate(count, started)

    return _run(app, main)


def threads(app: ModuleType, count: int, width: int) -> Answer:
    """`width` threads, each enqueueing its share one by one."""

    def share(values: range) -> None:
        for value in values:
            app.enqueue(value)

    with ThreadPoolExecutor(width) as pool:
        list(pool.map(share, [range(WARM_UP)] * width))
        started = time.perf_counter()
        list(pool.map(share, _batches(count, -(-count // width))))
        return _rate(count, started)


def bulk(app: ModuleType, count: int, size: int) -> Answer:
    """Batches of `size` where the system has them, else one by one."""
    if not hasattr(app, "aenqueue_many") and not hasattr(app, "enqueue_many"):
        return enqueue(app, count)

    async def main() -> Answer:
        put = _putter(app)
        await put(range(WARM_UP))
        started = time.perf_counter()
        for batch in _batches(count, size):
            await put(batch)
        return _rate(count, started)

    return _run(app, main)


def _putter(app: ModuleType) -> Callable[[range], Coroutine[Any, Any, None]]:
    """The fastest way a system has to take some jobs at once."""
    if hasattr(app, "aenqueue_many"):
        found: Callable[[range], Coroutine[Any, Any, None]] = app.aenqueue_many
        return found

    async def together(values: range) -> None:
        for batch in [values[start : start + 100] for start in range(0, len(values), 100)]:
            await asyncio.gather(*[app.aenqueue(value) for value in batch])

    async def many(values: range) -> None:
        app.enqueue_many(values)

    async def one_by_one(values: range) -> None:
        for value in values:
            app.enqueue(value)

    if hasattr(app, "aenqueue"):
        return together
    return many if hasattr(app, "enqueue_many") else one_by_one


def fill(app: ModuleType, count: int) -> Answer:
    """Makes a backlog by the fastest way there is; not timed."""

    async def main() -> Answer:
        put = _putter(app)
        for batch in _batches(count, 1000):
            await put(batch)
        return {}

    return _run(app, main)


def fill_scheduled(app: ModuleType, count: int) -> Answer:
    """Makes jobs that are due in a day; not timed."""

    async def main() -> Answer:
        for batch in _batches(count, 1000):
            await app.aschedule_many(batch)
        return {}

    return _run(app, main)


def schedule(app: ModuleType, count: int) -> Answer:
    """Makes schedules that are due in a day; not timed."""

    async def main() -> Answer:
        await app.aput_schedules(count)
        return {}

    return _run(app, main)


def load(app: ModuleType, rate: float) -> Answer:
    """Enqueues at an even pace until a file says stop, and tells what pace was kept."""
    stop = settings.read().directory / "stop"

    async def main() -> Answer:
        put, sent = _putter(app), 0
        started = time.perf_counter()
        while not stop.exists():
            due = int((time.perf_counter() - started) * rate)
            if due > sent:
                await put(range(sent, due))
                sent = due
            await asyncio.sleep(TICK)
        return {"sent": sent, "rate": sent / (time.perf_counter() - started)}

    return _run(app, main)


def latency(app: ModuleType, samples: int) -> Answer:
    """Enqueue to result on an idle worker, with pauses so that no two calls meet."""
    app.call(-1)
    times = []
    for value in range(samples):
        time.sleep(random.uniform(0.002, 0.008))
        started = time.perf_counter()
        app.call(value)
        times.append(time.perf_counter() - started)
    return {"seconds": times}


def latency_await(app: ModuleType, samples: int) -> Answer:
    """The same from a coroutine."""

    async def main() -> Answer:
        await app.acall(-1)
        times = []
        for value in range(samples):
            await asyncio.sleep(random.uniform(0.002, 0.008))
            started = time.perf_counter()
            await app.acall(value)
            times.append(time.perf_counter() - started)
        return {"seconds": times}

    return _run(app, main)


def _workflow(app: ModuleType, shape: str, size: int, samples: int) -> Answer:
    """Whole workflows one after the other, each from the call until its value is in hand."""
    if hasattr(app, "aworkflow"):

        async def main() -> Answer:
            await app.aworkflow(shape, 10)
            times = []
            for _ in range(samples):
                started = time.perf_counter()
                await app.aworkflow(shape, size)
                times.append(time.perf_counter() - started)
            return {"seconds": times}

        return _run(app, main)
    app.workflow(shape, 10)
    times = []
    for _ in range(samples):
        started = time.perf_counter()
        app.workflow(shape, size)
        times.append(time.perf_counter() - started)
    return {"seconds": times}


def huge_submit(app: ModuleType, size: int) -> Answer:
    """One chord, larger than any single step of a server may be."""
    return _run(app, lambda: app.ahuge_submit(size))


def huge_wait(app: ModuleType, size: int) -> Answer:
    """Its end: how long it took from the first job on, and how long after the last member its body started."""
    return _run(app, lambda: app.ahuge_wait(size))


def pending(app: ModuleType) -> Answer:
    """How many jobs still wait."""
    if hasattr(app, "apending"):

        async def main() -> Answer:
            return {"pending": await app.apending()}

        return _run(app, main)
    return {"pending": app.pending()}


def versions(app: ModuleType) -> Answer:
    """What is installed here."""
    return dict(app.versions())


OPERATIONS: dict[str, Callable[..., Answer]] = {
    operation.__name__: operation
    for operation in (
        enqueue,
        enqueue_await,
        gather,
        threads,
        bulk,
        fill,
        fill_scheduled,
        schedule,
        load,
        latency,
        latency_await,
        huge_submit,
        huge_wait,
        pending,
        versions,
    )
} | {f"workflow_{shape}": partial(_workflow, shape=shape) for shape in ("chain", "group", "chord", "tree")}


def main() -> None:
    name, operation, arguments = sys.argv[1:]
    app = importlib.import_module(f"benchmarks.apps.{name}")
    answer = OPERATIONS[operation](app, **json.loads(arguments))
    print(json.dumps(answer))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
