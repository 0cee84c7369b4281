"""DBOS on SQLite, a durable-workflow library; it keeps every result and has one durability."""

from benchmarks.peers.model import Peer, Pool, Store

PEER = Peer(
    name="dbos",
    app="dbos_app",
    command=("{python}", "-m", "benchmarks.apps.dbos_app"),
    stores=(Store("sqlite", frozenset({"full"})),),
    pools=(Pool("one process", preset=True, quiet=True),),
    results=frozenset({True}),
    slow=5,
)
