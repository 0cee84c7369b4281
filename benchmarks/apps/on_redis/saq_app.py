"""saq, on uvloop. A result is looked for every 0.5 ms: its channel misses jobs that end before it is listened to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvloop
from saq import Queue

from benchmarks.apps import settings, work

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
_s = settings.read()
_TTL = 3600 if _s.results else -1  # seconds; a negative one drops the job when it is done
queue = Queue.from_url(_s.url)


async def _coroutine(ctx: Any, *, value: int) -> int:
    return await work.COROUTINES[_s.work](value)


def _plain(ctx: Any, *, value: int) -> int:
    return work.PLAIN[_s.work](value)


worker = {
    "queue": queue,
    "functions": [("noop", _plain if _s.kind == "thread" else _coroutine)],
    "concurrency": _s.concurrency,
}


@asynccontextmanager
async def session() -> AsyncIterator[None]:
    await queue.connect()
    try:
        yield
    finally:
        await queue.disconnect()


async def aenqueue(value: int) -> Any:
    return await queue.enqueue("noop", value=value, ttl=_TTL)


async def acall(value: int) -> None:
    work.check(await queue.apply("noop", timeout=30, poll_interval=0.0005, value=value, ttl=_TTL), value)


async def apending() -> int:
    return await queue.count("incomplete")


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("saq", "redis", "uvloop")}
