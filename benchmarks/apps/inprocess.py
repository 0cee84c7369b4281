"""What a job costs without a disk: Windlass on `memory://` in one process, and the bare asyncio loops beside it.

`python -m benchmarks.apps.inprocess OPERATION COUNT CONCURRENCY` prints one line of JSON.
"""

import asyncio
import json
import sys
import time

from benchmarks.apps.loop import fastest_loop


async def _nothing(value: int) -> int:
    return value


async def bare_await(count: int, concurrency: int) -> float:
    """One task at a time, created and awaited: the floor of anything that runs a job as a task."""
    started = time.perf_counter()
    for value in range(count):
        await asyncio.create_task(_nothing(value))
    return time.perf_counter() - started


async def bare_batch(count: int, concurrency: int) -> float:
    """Tasks created `concurrency` at a time and awaited together."""
    started = time.perf_counter()
    for start in range(0, count, concurrency):
        tasks = [asyncio.create_task(_nothing(value)) for value in range(start, min(start + concurrency, count))]
        for task in tasks:
            await task
    return time.perf_counter() - started


async def windlass(count: int, concurrency: int) -> float:
    """A backlog in memory, drained by one embedded worker; timed from the first job to the last."""
    from windlass import Windlass

    app = Windlass("bench", "memory://")
    done = asyncio.Event()
    ran = 0
    first = last = 0.0

    @app.task(name="noop")
    async def noop(value: int) -> int:
        nonlocal ran, first, last
        last = time.perf_counter()
        first = first or last
        ran += 1
        if ran == count:
            done.set()
        return value

    for start in range(0, count, 1000):
        await app.enqueue_many([noop.s(value) for value in range(start, min(start + 1000, count))])
    async with app.worker(concurrency=concurrency):
        await asyncio.wait_for(done.wait(), 120)
    return last - first


OPERATIONS = {operation.__name__: operation for operation in (bare_await, bare_batch, windlass)}


def main() -> None:
    operation, count, concurrency = OPERATIONS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        seconds = runner.run(operation(count, concurrency))
    print(json.dumps({"rate": count / seconds}))


if __name__ == "__main__":
    main()
