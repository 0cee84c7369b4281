"""Settling: one half of an exchange. The work is done by `settle` in steps.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.job import State
from windlass.core.lifecycle import Transition
from windlass.store.machine.codes import maybe_text
from windlass.store.machine.graphs.nodes import GraphRow
from windlass.store.machine.graphs.staging import Adoption, adopt, adoptable
from windlass.store.machine.jobs.moves import note_lanes, tell_watchers
from windlass.store.machine.tx import Tx, decode, encode, ids_json
from windlass.store.shared import CODE

# How many moves held, how many of them are watched, whether any has a node or something to do with a lane, the kinds of
# events, and their groups in the order of their first move. The groups stay JSON: they never become Python objects.
SETTLED = """
SELECT sum(moves), sum(watchers), max(node), max(limited), group_concat(event),
    json_group_array(json(news) ORDER BY first)
FROM (
    SELECT event, count(*) AS moves, sum(watched) AS watchers, max(node) AS node, min(i) AS first,
        max(hold = 3 OR terms IS NOT NULL) AS limited,
        json_array(event, ?, json_group_array(
            CASE WHEN delay IS NOT NULL THEN json_array(id, task, queue, json_object('delay', delay))
                 WHEN goes > 3 AND reason <> '' THEN json_array(id, task, queue, json_object('reason', reason))
                 ELSE json_array(id, task, queue) END
        )) AS news
    FROM moved GROUP BY event
)
"""


def settle(tx: Tx, worker: int, name: str, moves: Sequence[Transition]) -> list[str]:
    """Apply the moves whose fence holds; the ids of the others."""
    rows = [_move_row(move) for move in moves]
    adopted = adoptions(tx, moves, rows) if any(move.adopt for move in moves) else {}
    tx.run(
        "INSERT INTO settle VALUES (?, ?, ?, ?, ?, ?, ?)",
        (worker, tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, tx.gated, encode(rows).decode()),
    )
    held, watched, in_graphs, limited, kinds, news = tx.one(SETTLED, (name,))
    if tx.gates:
        tx.book.recount()
    if limited:
        note_lanes(tx)
    if held:
        tx.groups.append(msgspec.Raw(news[1:-1]))
        tx.kinds.update(dict.fromkeys(kinds.split(",")))
    if watched:
        tell_watchers(tx)
    if in_graphs:
        _in_graphs(tx, moves)
    waiting = tx.all(WAITING_NOW) if adopted else []
    if waiting:
        adopt(tx, [Adoption(job, id, node, adopted[i], moves[i].replaced) for i, job, id, node in waiting])
    if any(move.to is State.READY for move in moves):
        ready = tx.all("SELECT queue, count(*) FROM moved WHERE goes = 2 AND hold <> 3 GROUP BY queue")
        tx.wake_queues(dict(ready), but=worker)
    if held == len(moves):
        return []
    applied = set(decode(tx.value("SELECT json_group_array(i) FROM moved")))
    return [move.id for i, move in enumerate(moves) if i not in applied]


WAITING_NOW = "SELECT i, job, id, node FROM moved WHERE goes = 0 ORDER BY i"
KEEP = """
UPDATE jobs SET keep_done = coalesce(nullif(k.value ->> 1, ''), keep_done),
    keep_failed = coalesce(nullif(k.value ->> 2, ''), keep_failed)
FROM json_each(?) AS k WHERE jobs.id = k.value ->> 0
"""


def _in_graphs(tx: Tx, moves: Sequence[Transition]) -> None:
    """Jobs with a node ended: that spreads, and they are filed only then, so what the worker said of that is kept."""
    ended = decode(tx.value("SELECT json_group_array(json_array(node, was, i) ORDER BY i) FROM moved "
                            "WHERE goes > 3 AND node > 0"))  # fmt: skip
    tx.ended += [(node, was) for node, was, _ in ended]
    said = [moves[i] for *_, i in ended if moves[i].keep_done or moves[i].keep_failed]
    if said:
        tx.run(KEEP, (encode([[move.id, move.keep_done, move.keep_failed] for move in said]).decode(),))


NO_RUN = -1
CANCELLED = "SELECT id FROM jobs WHERE cancel > 0 AND id IN (SELECT value FROM json_each(?))"


def adoptions(tx: Tx, moves: Sequence[Transition], rows: list[list[Any]]) -> dict[int, GraphRow]:
    """The graphs that moves adopt, by place. A move whose graph is not there is refused, if no cancel beats it."""
    graphs = adoptable(tx, [move.adopt for move in moves if move.adopt])
    wanted = {i: graphs[move.adopt] for i, move in enumerate(moves) if move.adopt in graphs}
    found = {i: graph for i, graph in wanted.items() if graph.parent == moves[i].id}
    missing = {move.id: i for i, move in enumerate(moves) if move.adopt and i not in found}
    cancelled = {id for (id,) in tx.all(CANCELLED, (ids_json(missing),))} if missing else set()
    for id, i in missing.items():
        if id not in cancelled:
            rows[i][1] = NO_RUN
    return found


def _move_row(move: Transition) -> list[Any]:
    fence = move.fence
    row = [
        move.id, fence.run, fence.epoch, fence.seq, CODE[move.to], move.event, move.delay, move.attempt, move.crashes,
        move.snoozes, int(move.yields_to_cancel), maybe_text(move.result),
    ]  # fmt: skip
    if move.error is not None or move.reason or move.keep_done or move.keep_failed:
        row += [maybe_text(move.error), move.reason, move.fingerprint, move.keep_done, move.keep_failed]
    return row
