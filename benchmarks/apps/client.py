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
from types import ModuleType
from typing import Any

from benchmarks.apps.loop import fastest_loop

Answer = dict[str, Any]
WARM_UP = 20


def _rate(count: int, started: float) -> Answer:
    return {"rate": count / (time.perf_counter() - started)}


def _batches(count: int, size: int) -> list[range]:
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _run(main: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(main())


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

    return _run(main)


def gather(app: ModuleType, count: int, width: int) -> Answer:
    """`width` coroutines at a time."""

    async def main() -> Answer:
        await asyncio.gather(*[app.aenqueue(value) for value in range(WARM_UP)])
        started = time.perf_counter()
        for batch in _batches(count, width):
            await asyncio.gather(*[app.aenqueue(value) for value in batch])
        return _rate(count, started)

    return _run(main)


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
    if not hasattr(app, "aenqueue_many"):
        return enqueue(app, count)

    async def main() -> Answer:
        await app.aenqueue_many(range(WARM_UP))
        started = time.perf_counter()
        for batch in _batches(count, size):
            await app.aenqueue_many(batch)
        return _rate(count, started)

    return _run(main)


def fill(app: ModuleType, count: int) -> Answer:
    """Makes a backlog by the fastest way there is; not timed."""
    if hasattr(app, "aenqueue_many"):

        async def main() -> Answer:
            for batch in _batches(count, 1000):
                await app.aenqueue_many(batch)
            return {}

        return _run(main)
    for value in range(count):
        app.enqueue(value)
    return {}


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

    return _run(main)


def pending(app: ModuleType) -> Answer:
    """How many jobs still wait."""
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
        latency,
        latency_await,
        pending,
        versions,
    )
}


def main() -> None:
    name, operation, arguments = sys.argv[1:]
    app = importlib.import_module(f"benchmarks.apps.{name}")
    answer = OPERATIONS[operation](app, **json.loads(arguments))
    print(json.dumps(answer))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
