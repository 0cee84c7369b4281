"""Who takes part on Redis: clients without a worker, and workers by the role their pools have."""

from collections.abc import Iterable
from dataclasses import replace

from benchmarks import peers
from benchmarks.peers.model import Contender, Pool, combinations

PLAIN = "windlass (plain def)"


def clients(mode: str) -> Iterable[list[Contender]]:
    """Every peer that has a client of this mode, `sync` or `async`. Nobody waits for results."""
    for peer in peers.REDIS:
        if mode in peer.clients:
            pool = Pool("", kind=peer.pools[0].kind)
            yield [Contender(peer.name, peer, peer.stores[0], pool, client=mode)]


def workers(role: str, results: bool = True, work: str = "noop") -> Iterable[list[Contender]]:
    """The pools of every peer that have a role; Windlass once per kind of task."""
    for peer in peers.REDIS:
        group = [one for one in combinations(peer, "full", results) if role in one.pool.roles]
        named = [replace(one, name=_name(role, one), work=work) for one in group]
        for name in dict.fromkeys(one.name for one in named):
            yield [one for one in named if one.name == name]


def _name(role: str, contender: Contender) -> str:
    plain = contender.name == "windlass" and role == "one" and contender.pool.kind == "thread"
    return PLAIN if plain else contender.name


def presets(role: str, results: bool = True) -> Iterable[list[Contender]]:
    """The first of every peer's pools in a role, for figures by which scouting cannot choose."""
    for group in workers(role, results):
        yield [replace(group[0], client=group[0].peer.clients[-1])]
