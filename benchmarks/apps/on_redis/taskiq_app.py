"""taskiq with the list broker (a message is gone when taken) or the stream broker (acknowledged), on uvloop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from redis.asyncio import Redis
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.apps import settings, work

_s = settings.read()
_class = RedisStreamBroker if _s.store == "stream" else ListQueueBroker
broker = _class(_s.url, max_connection_pool_size=1000)
if _s.results:
    broker = broker.with_result_backend(
        RedisAsyncResultBackend(_s.url, result_ex_time=3600, max_connection_pool_size=1000)
    )
noop: Any = broker.register_task(
    work.PLAIN[_s.work] if _s.kind == "thread" else work.COROUTINES[_s.work], task_name="noop"
)


@asynccontextmanager
async def session() -> AsyncIterator[None]:
    await broker.startup()
    try:
        yield
    finally:
        await broker.shutdown()


async def aenqueue(value: int) -> Any:
    return await noop.kiq(value)


async def acall(value: int) -> None:
    task = await noop.kiq(value)
    work.check((await task.wait_result(check_interval=0.0002, timeout=30)).return_value, value)


async def apending() -> int:
    async with Redis.from_url(_s.url) as redis:
        if _s.store != "stream":
            return int(await redis.llen("taskiq"))
        groups = await redis.xinfo_groups("taskiq")
        return sum(int(group["pending"]) + int(group["lag"] or 0) for group in groups)


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("taskiq", "taskiq-redis", "uvloop")}
