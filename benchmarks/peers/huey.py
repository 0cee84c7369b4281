"""Huey, the closest peer: a task library with a first-class SQLite mode.

It polls every 0.2 ms here, which gives its best latency; the idle processor time that costs is reported.
"""

from benchmarks.peers.model import Peer, Pool, Store

_POLL = ("-d", "0.0002", "-m", "0.0002", "-b", "1", "-n", "-q", "-C")


def _pool(kind: str, workers: int, preset: bool = False, quiet: bool = False) -> Pool:
    return Pool(
        label=f"-k {kind} -w {workers}",
        arguments=("-k", kind, "-w", str(workers), *_POLL),
        processes=workers if kind == "process" else 1,
        preset=preset,
        quiet=quiet,
    )


PEER = Peer(
    name="huey",
    app="huey_app",
    command=("{bin}/huey_consumer", "benchmarks.apps.huey_app.huey"),
    stores=(Store("sqlite3"), Store("cysqlite", preset=False)),
    pools=(
        _pool("thread", 1, quiet=True),
        _pool("thread", 4),
        _pool("greenlet", 4, preset=True),
        _pool("greenlet", 16),
        _pool("process", 1),
        _pool("process", 2, preset=True),
        _pool("process", 4),
    ),
    major=True,
)
