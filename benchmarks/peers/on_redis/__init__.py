"""Job systems on Redis, each in its best documented configuration. Describes; starts nothing and imports no peer."""

from benchmarks.peers.model import Peer
from benchmarks.peers.on_redis import asyncio, bullmq, threads, windlass

ALL: tuple[Peer, ...] = (
    windlass.PEER,
    bullmq.PEER,
    asyncio.TASKIQ,
    threads.HUEY,
    asyncio.SAQ,
    threads.DRAMATIQ,
    asyncio.ARQ,
    asyncio.STREAQ,
    threads.CELERY,
    threads.RQ,
)
