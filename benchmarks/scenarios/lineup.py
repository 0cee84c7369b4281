"""Who takes part on SQLite: the usual groups of contenders, shared by the scenarios that start a worker."""

from collections.abc import Iterable
from dataclasses import replace

from benchmarks import peers
from benchmarks.peers.model import Contender, Pool, combinations


def _named(group: Iterable[Contender], name: str) -> list[Contender]:
    return [replace(contender, name=name) for contender in group]


def clients(durability: str) -> Iterable[list[Contender]]:
    """One contender per peer and store, for what needs no worker. No results are waited for."""
    for peer in peers.SQLITE:
        for store in peer.stores:
            if durability in store.durabilities and (store.preset or peer.major):
                name = peer.name if store.preset else f"{peer.name} ({store.label})"
                pool = Pool("", kind=peer.pools[0].kind)
                yield [Contender(name, peer, store, pool, durability, True in peer.results)]


def one_process(durability: str, results: bool) -> Iterable[list[Contender]]:
    """The best single worker process of every peer; Windlass once per kind of task."""
    for peer in peers.SQLITE:
        group = [one for one in combinations(peer, durability, results) if one.pool.processes == 1]
        if peer is peers.WINDLASS:
            yield [one for one in group if one.pool.kind == "async"]
            yield _named([one for one in group if one.pool.kind == "thread"], "windlass (plain def)")
        elif group:
            yield group


def more_processes(durability: str, results: bool) -> Iterable[list[Contender]]:
    """The best of every peer that can use more than one worker process."""
    for peer in peers.SQLITE:
        group = [one for one in combinations(peer, durability, results) if one.pool.processes > 1]
        if group and (peer.major or any(one.pool.preset for one in group)):
            yield _named(group, f"{peer.name} (processes)")


def presets(durability: str, results: bool) -> Iterable[list[Contender]]:
    """The preset single worker process of every peer that is a job system, Windlass with coroutines."""
    for group in one_process(durability, results):
        found = [one for one in group if one.pool.preset and one.store.preset and not one.peer.bare]
        if found and found[0].pool.kind != "thread":
            yield found[:1]


def quiet(durability: str) -> Iterable[list[Contender]]:
    """The worker of every job system that suits an idle machine, keeping results."""
    for group in one_process(durability, True):
        found = [one for one in group if one.pool.quiet and one.store.preset]
        if found:
            yield found[:1]
