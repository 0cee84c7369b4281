"""What moves mean beyond the jobs that were moved: for lanes and unique keys, for graphs, for who watches or is idle.

A driver moves the jobs itself, in its own quickest way. It calls `adoptions` before and `spread` behind that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from windlass.core.job import State
from windlass.core.lifecycle import Transition
from windlass.store.machine.graphs.nodes import GraphRow
from windlass.store.machine.graphs.staging import Adoption, adopt, adoptable
from windlass.store.machine.jobs.moves import note_lanes, tell_watchers
from windlass.store.machine.tx import Tx, decode, encode, ids_json


class Moved(NamedTuple):
    """Whom the moves that held concern, besides their jobs: watchers, graphs, lanes and unique keys."""

    watchers: bool
    graphs: bool
    lanes: bool


def adoptions(tx: Tx, moves: Sequence[Transition]) -> tuple[dict[int, GraphRow], list[int]]:
    """The graphs that moves adopt, each by its move's number; and the moves that must not hold.

    Those are the ones whose graph is not there, if no cancel beats them anyway.
    """
    wanted = {i: move for i, move in enumerate(moves) if move.adopt}
    if not wanted:
        return {}, []
    graphs = adoptable(tx, [move.adopt for move in wanted.values()])
    found = {
        i: graphs[move.adopt]
        for i, move in wanted.items()
        if move.adopt in graphs and graphs[move.adopt].parent == move.id
    }
    missing = {move.id: i for i, move in wanted.items() if i not in found}
    cancelled = {id for (id,) in tx.all(tx.sql.settling.CANCELLED, (ids_json(missing),))} if missing else set()
    return found, [i for id, i in missing.items() if id not in cancelled]


def spread(tx: Tx, worker: int, moves: Sequence[Transition], moved: Moved, adopted: Mapping[int, GraphRow]) -> None:
    """Let everybody know whom the moves just made concern. ``worker`` made them, and is woken by its own exchange."""
    if tx.gates:
        tx.book.recount()
    if moved.lanes:
        note_lanes(tx)
    if moved.watchers:
        tell_watchers(tx)
    if moved.graphs:
        _end_nodes(tx, moves)
    waiting = tx.all(tx.sql.settling.WAIT) if adopted else []
    if waiting:
        adopt(tx, [Adoption(job, id, node, adopted[i], moves[i].replaced) for i, job, id, node in waiting])
    if any(move.to is State.READY for move in moves):
        tx.wake_queues(dict(tx.all(tx.sql.settling.BACK)), but=worker)


def _end_nodes(tx: Tx, moves: Sequence[Transition]) -> None:
    """Jobs with a node ended. That spreads, and they are filed only then: what the worker said of that is kept."""
    ended = decode(tx.value(tx.sql.settling.ENDED))
    tx.effects.nodes_ended((node, was) for node, was, _ in ended)
    said = [moves[i] for *_, i in ended if moves[i].keep_done or moves[i].keep_failed]
    if said:
        rows = [[move.id, move.keep_done, move.keep_failed] for move in said]
        tx.run(tx.sql.settling.KEEP, (encode(rows).decode(),))
