"""The values that describe a peer: its stores, its worker pools and the contenders they combine to."""

from collections.abc import Iterator
from dataclasses import dataclass

BOTH = frozenset({"full", "relaxed"})


@dataclass(frozen=True)
class Store:
    """One way a peer keeps its jobs, and the durabilities it can be set to."""

    label: str
    durabilities: frozenset[str] = BOTH
    preset: bool = True


@dataclass(frozen=True)
class Pool:
    """One way to run a peer's worker.

    `preset` is the fastest found so far, measured when no scouting is wanted; `quiet` is the one for questions about
    an idle worker, where the number of workers only costs.
    """

    label: str
    arguments: tuple[str, ...] = ()
    processes: int = 1
    copies: int = 1
    kind: str = ""
    preset: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class Peer:
    """A job system. `slow` divides the number of jobs, `major` peers take part in every round."""

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


@dataclass(frozen=True)
class Contender:
    """A peer in one exact configuration, as a scenario measures it."""

    name: str
    peer: Peer
    store: Store
    pool: Pool
    durability: str = "full"
    results: bool = True
    client: str = "sync"
    size: int = 0

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
        }


def combinations(peer: Peer, durability: str, results: bool) -> Iterator[Contender]:
    """Every store and pool of a peer that fits the wanted durability and keeping of results."""
    if results not in peer.results:
        return
    for store in peer.stores:
        if durability in store.durabilities:
            for pool in peer.pools:
                yield Contender(peer.name, peer, store, pool, durability, results)
