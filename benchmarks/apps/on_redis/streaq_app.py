"""streaq, on uvloop, with its log line per task silenced."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from streaq import Worker

from benchmarks.apps import settings, work

_s = settings.read()
worker: Worker[Any] = Worker(
    redis_url=_s.url,
    concurrency=_s.concurrency,
    sync_concurrency=_s.concurrency,
    anyio_kwargs={"use_uvloop": True},
)
noop: Any = worker.task(name="noop", silent=True, ttl=3600 if _s.results else 0)(
    work.PLAIN[_s.work] if _s.kind == "thread" else work.COROUTINES[_s.work]
)


@asynccontextmanager
async def session() -> AsyncIterator[None]:
    async with worker:
        yield


async def aenqueue(value: int) -> Any:
    return await noop.enqueue(value)


async def aenqueue_many(values: range) -> None:
    await worker.enqueue_many([noop.enqueue(value) for value in values])


async def acall(value: int) -> None:
    task = await noop.enqueue(value)
    work.check((await task.result(timeout=30)).result, value)


async def apending() -> int:
    return await worker.queue_size()


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("streaq", "coredis", "uvloop")}
