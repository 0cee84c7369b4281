"""arq. It polls every 10 ms, on uvloop; its default of half a second is for other uses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from arq.worker import func

from benchmarks.apps import settings, work

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
_s = settings.read()
_redis = RedisSettings.from_dsn(_s.url)
_body = work.COROUTINES[_s.work]
_pool: ArqRedis


async def noop(ctx: dict[Any, Any], value: int) -> int:
    return await _body(value)


class Worker:
    """The settings of arq's own worker command."""

    functions = (func(noop, name="noop", keep_result=3600 if _s.results else 0),)
    redis_settings = _redis
    max_jobs = _s.concurrency
    poll_delay = 0.01


@asynccontextmanager
async def session() -> AsyncIterator[None]:
    global _pool
    _pool = await create_pool(_redis)
    try:
        yield
    finally:
        await _pool.aclose()


async def aenqueue(value: int) -> Any:
    return await _pool.enqueue_job("noop", value)


async def acall(value: int) -> None:
    job = await _pool.enqueue_job("noop", value)
    work.check(job and await job.result(timeout=30, poll_delay=0.0005), value)


async def apending() -> int:
    return int(await _pool.zcard("arq:queue"))


def versions() -> dict[str, str]:
    return {"arq": version("arq"), "redis-py": version("redis"), "uvloop": version("uvloop")}
