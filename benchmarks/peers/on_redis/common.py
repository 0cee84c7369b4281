"""What the descriptions of peers on Redis share.

A pool says which questions it answers: `one` and `two` (drain with one and two worker processes), `quiet` (latency,
start-up, memory), `io`, `nap`, `cpu`. The first pool of a role is its preset; the others are tried when scouting.
"""

from benchmarks.peers.model import Pool, Store

REDIS = Store("redis", server="redis")

# An option that a job carries (how long its result is kept, say) is written when it is enqueued.
FILL_DEPENDS = ("BENCH_RESULTS", "BENCH_KIND", "BENCH_FLOW")


def pool(roles: str, label: str, *arguments: str, copies: int = 1, kind: str = "", concurrency: int = 0) -> Pool:
    """One way to run a worker; `copies` are processes started beside each other."""
    words = label + (f", {copies} workers" if copies > 1 else "")
    return Pool(words, arguments, copies, copies, kind, roles=frozenset(roles.split()), concurrency=concurrency)


def counted(roles: str, concurrency: int, copies: int = 1, kind: str = "") -> Pool:
    """A worker whose concurrency is in its settings instead of its command line."""
    return pool(roles, f"concurrency {concurrency}", copies=copies, kind=kind, concurrency=concurrency)
