"""The values that describe a peer: its stores, its worker pools and the contenders they combine to."""

from collections.abc import Iterator
from dataclasses import dataclass

BOTH = frozenset({"full", "relaxed"})


@dataclass(frozen=True)
class Store:
    """One way a peer keeps its jobs, the durabilities it can be set to, and the server it needs, if any."""

    label: str
    durabilities: frozenset[str] = BOTH
    preset: bool = True
    server: str = ""


@dataclass(frozen=True)
class Pool:
    """One way to run a peer's worker.

    `preset` is the fastest found so far, measured when no scouting is wanted; `quiet` is the one for questions about
    an idle worker, where the number of workers only costs. `roles` are the other questions it answers: `io` (many
    sleeping jobs at once), `nap` (plain functions in threads), `cpu` (work for two processors). `concurrency` is for
    peers whose own settings say how many jobs run at once, not their command line.
    """

    label: str
    arguments: tuple[str, ...] = ()
    processes: int = 1
    copies: int = 1
    kind: str = ""
    preset: bool = False
    quiet: bool = False
    roles: frozenset[str] = frozenset()
    concurrency: int = 0


@dataclass(frozen=True)
class Peer:
    """A job system. `slow` divides the number of jobs, `major` peers take part in every round.

    `pins` names its file of requirements, `runtime` the language it runs in, `bulk` whether it takes many jobs at once.
    """

    name: str
    app: str
    command: tuple[str, ...]
    stores: tuple[Store, ...]
    pools: tuple[Pool, ...]
    results: frozenset[bool] = frozenset({True, False})
    bare: bool = False
    major: bool = False
    slow: int = 1
    clients: tuple[str, ...] = ("sync",)
    widths: tuple[int, ...] = (1, 8)
    fill_depends: tuple[str, ...] = ()
    pins: str = ""
    runtime: str = "python"
    bulk: bool = False


@dataclass(frozen=True)
class Contender:
    """A peer in one exact configuration, as a scenario measures it. `work` is what its jobs do.

    `flow` is what else is asked of them: priorities, a limit, keys.
    """

    name: str
    peer: Peer
    store: Store
    pool: Pool
    durability: str = "full"
    results: bool = True
    client: str = "sync"
    size: int = 0
    work: str = "noop"
    flow: str = ""

    @property
    def setting(self) -> str:
        """The configuration in words."""
        words = [self.store.label, self.pool.label]
        return ", ".join(word for word in words if word)

    def variables(self) -> dict[str, str]:
        """What the peer's app module reads from its environment."""
        return {
            "BENCH_DURABILITY": self.durability,
            "BENCH_RESULTS": "1" if self.results else "0",
            "BENCH_STORE": self.store.label,
            "BENCH_KIND": self.pool.kind,
            "BENCH_WORK": self.work,
            "BENCH_FLOW": self.flow,
            "BENCH_CONCURRENCY": str(self.pool.concurrency),
        }


def combinations(peer: Peer, durability: str, results: bool) -> Iterator[Contender]:
    """Every store and pool of a peer that fits the wanted durability and keeping of results."""
    if results not in peer.results:
        return
    for store in peer.stores:
        if durability in store.durabilities:
            for pool in peer.pools:
                yield Contender(peer.name, peer, store, pool, durability, results)
