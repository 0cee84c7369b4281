"""Windlass on Redis: the same app module as on SQLite with another URL."""

from benchmarks.peers.model import Peer, Pool
from benchmarks.peers.on_redis.common import FILL_DEPENDS, REDIS, pool


def _pool(roles: str, kind: str, concurrency: int, *more: str, copies: int = 1) -> Pool:
    label = " ".join((f"{kind} tasks, -c {concurrency}", *more))
    return pool(roles, label, "-c", str(concurrency), *more, copies=copies, kind=kind)


PEER = Peer(
    name="windlass",
    app="windlass_app",
    command=("{bin}/windlass", "worker", "benchmarks.apps.windlass_app:app"),
    stores=(REDIS,),
    pools=(
        _pool("one quiet", "async", 256),
        _pool("one", "async", 100),
        _pool("one", "async", 1000),
        _pool("two", "async", 256, copies=2),
        _pool("one", "thread", 32),
        _pool("io", "async", 500),
        _pool("nap", "thread", 20),
        _pool("cpu", "process", 4, "--children", "2"),
    ),
    major=True,
    clients=("sync", "async"),
    fill_depends=FILL_DEPENDS,
    bulk=True,
)
