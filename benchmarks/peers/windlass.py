"""Windlass itself, with coroutine tasks and with plain functions in threads."""

from benchmarks.peers.model import Peer, Pool, Store


def _pool(kind: str, concurrency: int, copies: int = 1, preset: bool = False) -> Pool:
    words = f"{kind} tasks, -c {concurrency}" + (f", {copies} workers" if copies > 1 else "")
    return Pool(words, ("-c", str(concurrency)), copies, copies, kind, preset, preset and kind == "async")


PEER = Peer(
    name="windlass",
    app="windlass_app",
    command=("{bin}/windlass", "worker", "benchmarks.apps.windlass_app:app"),
    stores=(Store("sqlite"),),
    pools=(
        _pool("async", 32),
        _pool("async", 256, preset=True),
        _pool("async", 1000),
        _pool("async", 256, copies=2, preset=True),
        _pool("thread", 4),
        _pool("thread", 32, preset=True),
    ),
    major=True,
    clients=("sync", "async"),
    fill_depends=("BENCH_KIND", "BENCH_RESULTS", "BENCH_FLOW"),
)
