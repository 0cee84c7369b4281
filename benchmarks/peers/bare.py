"""Bare SQLite queues: no tasks, results, retries or worker. They bound what a row-at-a-time queue can do."""

from benchmarks.peers.model import Peer, Pool, Store

_LOOP = (Pool("pop, run, ack", preset=True),)

LITEQUEUE = Peer(
    name="litequeue",
    app="litequeue_app",
    command=("{python}", "-m", "benchmarks.apps.litequeue_app"),
    stores=(Store("sqlite"),),
    pools=_LOOP,
    results=frozenset({False}),
    bare=True,
    slow=2,
    widths=(1,),
)
PERSIST_QUEUE = Peer(
    name="persist-queue",
    app="persistqueue_app",
    command=("{python}", "-m", "benchmarks.apps.persistqueue_app"),
    stores=(Store("SQLiteAckQueue", frozenset({"full"})),),
    pools=_LOOP,
    results=frozenset({False}),
    bare=True,
    slow=4,
    widths=(1,),
)
