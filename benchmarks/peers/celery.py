"""Celery without a server. Its SQLite transport syncs every commit, its filesystem transport syncs nothing."""

from benchmarks.peers.model import Peer, Pool, Store

_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR")


def _pool(kind: str, workers: int, preset: bool = False) -> Pool:
    return Pool(
        label=f"-P {kind} -c {workers}",
        arguments=("worker", "-P", kind, "-c", str(workers), *_QUIET),
        processes=workers if kind == "prefork" else 1,
        preset=preset,
        quiet=preset,
    )


PEER = Peer(
    name="celery",
    app="celery_app",
    command=("{bin}/celery", "-A", "benchmarks.apps.celery_app"),
    stores=(Store("sqlalchemy", frozenset({"full"})), Store("filesystem", frozenset({"relaxed"}))),
    pools=(_pool("solo", 1), _pool("threads", 4, preset=True), _pool("prefork", 2)),
    slow=10,
)
