"""The store's own moves of jobs, and telling whoever watches them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any

from windlass.core.job import Finished
from windlass.core.terms import is_strict
from windlass.store import rules
from windlass.store.machine.codes import FIRST_TERMINAL, LANE, RUNNING, maybe_bytes
from windlass.store.machine.tx import Tx, Values, decode, encode
from windlass.store.shared import STATES


def shift(tx: Tx, rows: Iterable[Values]) -> Counter[str]:
    """Move jobs that are known to be where they should be: see ``MoveSql.SHIFT`` for a row. By queue, how many of
    them went into lanes, whose business it is to wake anybody."""
    rows = list(rows)
    if not rows:
        return Counter()
    in_graphs, in_lanes = write(tx, rows)
    if in_graphs:
        tx.effects.nodes_ended(decode(tx.value(tx.sql.moves.ENDED)))
    return in_lanes


def write(tx: Tx, rows: Sequence[Values], gathering: Container[str] = ()) -> tuple[bool, Counter[str]]:
    """The same for at least one job, whatever that means for graphs: True if it means something.

    ``gathering``: ids of those that succeed with a value that is not their own, but a graph's.
    """
    tx.run(
        tx.sql.moves.SHIFT,
        (tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, tx.gated, encode(rows).decode()),
    )
    watched, in_graphs, limited = tx.one(tx.sql.moves.WRITTEN)
    if watched:
        tell_watchers(tx, gathering)
    return bool(in_graphs), note_lanes(tx) if limited else Counter()


def note_lanes(tx: Tx) -> Counter[str]:
    """Which lanes the jobs in `moved` joined or left, and whose unique keys are free: as effects. By
    queue, how many joined."""
    joined: Counter[str] = Counter()
    for job, queue, lane, was, goes, hold, held, number, unique in decode(tx.value(tx.sql.moves.IN_LANES)):
        if LANE in (hold, held) or is_strict(lane):
            touch = tx.effects.lane(queue, lane)
            touch.left = touch.left or held == LANE
            if hold == LANE:
                touch.joined += 1
                joined[queue] += 1
            if goes >= FIRST_TERMINAL:
                touch.gone = max(touch.gone, number)
        if was == RUNNING:
            tx.effects.lane_left(queue, lane)
        if unique:
            tx.effects.keys_freed([(unique, job)])
    return joined


def tell_watchers(tx: Tx, gathering: Container[str] = ()) -> None:
    """Tell the watchers of the jobs in `moved` that have ended, and forget the watches.

    A bucket of few may have dropped a job already, so its outcome is read from `moved`.
    """
    told: list[Any] = decode(tx.value(tx.sql.moves.TOLD))
    for name, id, state, result, error, reason in told:
        tx.tell(name, finished(id, state, result, error, reason or "", id in gathering))
    tx.run(tx.sql.moves.FORGET_TOLD)


def finished(
    id: str, state: int, result: str | None, error: str | None, reason: str, gathers: bool = False
) -> Finished:
    return rules.finished(id, STATES[state], maybe_bytes(result), maybe_bytes(error), reason, gathers)
