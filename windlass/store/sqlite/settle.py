"""Settling: one half of an exchange. The work is done by `settle` in steps.sql."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.job import State
from windlass.core.lifecycle import Transition
from windlass.store.shared import CODE
from windlass.store.sqlite.codes import maybe_text
from windlass.store.sqlite.moves import tell_watchers
from windlass.store.sqlite.tx import Tx, decode, encode

# How many moves held, how many of them are watched, and the groups of events in the order of their first move. The
# groups stay JSON: they never become Python objects.
SETTLED = """
SELECT sum(moves), sum(watchers), json_group_array(json(news) ORDER BY first) FROM (
    SELECT count(*) AS moves, sum(watched) AS watchers, min(i) AS first,
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
    tx.run(
        "INSERT INTO settle VALUES (?, ?, ?, ?, ?, ?)",
        (worker, tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, encode(rows).decode()),
    )
    held, watched, news = tx.one(SETTLED, (name,))
    if held:
        tx.groups.append(msgspec.Raw(news[1:-1]))
    if watched:
        tell_watchers(tx)
    if any(move.to is State.READY for move in moves):
        for queue, count in tx.all("SELECT queue, count(*) FROM moved WHERE goes = 2 GROUP BY queue"):
            tx.wake(queue, count, but=worker)
    if held == len(moves):
        return []
    applied = set(decode(tx.value("SELECT json_group_array(i) FROM moved")))
    return [move.id for i, move in enumerate(moves) if i not in applied]


def _move_row(move: Transition) -> list[Any]:
    fence = move.fence
    row = [
        move.id, fence.run, fence.epoch, fence.seq, CODE[move.to], move.event, move.delay, move.attempt, move.crashes,
        move.snoozes, int(move.yields_to_cancel), maybe_text(move.result),
    ]  # fmt: skip
    if move.error is not None or move.reason or move.keep_done or move.keep_failed:
        row += [maybe_text(move.error), move.reason, move.fingerprint, move.keep_done, move.keep_failed]
    return row
