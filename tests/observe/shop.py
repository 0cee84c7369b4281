"""The app of the tests of metrics: tasks of every kind, and metrics of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Metric
from prometheus_client.registry import Collector

from tests.worker.helpers import SHORT
from tests.worker.jobs import adopt
from windlass import Windlass

app = Windlass("shop", os.environ.get("SHOP_URL", "memory://"), **SHORT)
THINGS = Counter("shop_things", "Things done", ["where"])
LEVEL = Gauge("shop_level", "A level")
MANY = Counter("shop_many", "With many labels", ["x"])
MOST = Gauge("shop_most", "The largest", multiprocess_mode="livemax")


def caller(url: str) -> Windlass:
    """The same app in the test's process."""
    other = Windlass("shop", url, **SHORT)
    adopt(other, *app.tasks.values())
    return other


@app.task(name="on_loop")
async def on_loop(n: int = 1, pause: float = 0) -> int:
    THINGS.labels("loop").inc(n)
    LEVEL.set(2)
    MOST.set(7)
    await asyncio.sleep(pause)
    return os.getpid()


@app.task(name="in_thread")
def in_thread(n: int = 1) -> int:
    THINGS.labels("thread").inc(n)
    return os.getpid()


@app.task(name="in_process", runs_in="process")
def in_process(n: int = 1) -> int:
    THINGS.labels("process").inc(n)
    return os.getpid()


@app.task(name="many")
async def many(n: int) -> None:
    for x in range(n):
        MANY.labels(f"value number {x}").inc()


@app.task(name="spoil")
async def spoil() -> None:
    class Broken(Collector):
        def collect(self) -> Iterator[Metric]:
            raise ValueError("nothing to tell")

        def describe(self) -> Iterator[Metric]:
            return iter(())

    REGISTRY.register(Broken())


@app.task(name="failing", queue="bad", retries=2, backoff=0)
async def failing() -> None:
    raise ValueError("no")


@app.task(name="one", queue="once", unique=True, limit=1, breaker="bank")
async def one(n: int = 0) -> None:
    pass
