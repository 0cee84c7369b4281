"""BullMQ on Node, the fastest system found. It has no threads, and its processor work would be another language's."""

from benchmarks.peers.model import Peer
from benchmarks.peers.on_redis.common import FILL_DEPENDS, REDIS, counted

PEER = Peer(
    name="bullmq",
    app="on_redis/bullmq_app",
    command=("{node}", "{apps}/on_redis/bullmq_worker.cjs"),
    stores=(REDIS,),
    pools=(
        counted("one quiet", 100),
        counted("one", 200),
        counted("two", 100, copies=2),
        counted("two", 200, copies=2),
        counted("io", 500),
    ),
    major=True,
    clients=("async",),
    fill_depends=FILL_DEPENDS,
    pins="redis-bullmq",
    runtime="node",
    bulk=True,
)
