"""Settling: one half of an exchange. All jobs move at once; what that means for others is in ``settling``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.lifecycle import Transition
from windlass.store.machine.codes import maybe_text
from windlass.store.machine.flow.settling import Moved, adoptions, spread
from windlass.store.machine.tx import Tx, decode, encode
from windlass.store.shared import CODE

NO_RUN = -1


def settle(tx: Tx, worker: int, name: str, moves: Sequence[Transition]) -> list[str]:
    """Apply the moves whose fence holds; the ids of the others."""
    rows = [_row(move) for move in moves]
    adopted, missing = adoptions(tx, moves)
    for i in missing:
        rows[i][1] = NO_RUN
    tx.run(
        tx.sql.exchange.SETTLE,
        (worker, tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, tx.gated, encode(rows).decode()),
    )
    held, watchers, graphs, lanes, kinds, news = tx.one(tx.sql.exchange.SETTLED, (name,))
    if held:
        tx.groups.append(msgspec.Raw(news[1:-1]))
        tx.kinds.update(dict.fromkeys(kinds.split(",")))
    spread(tx, worker, moves, Moved(bool(watchers), bool(graphs), bool(lanes)), adopted)
    if held == len(moves):
        return []
    applied = set(decode(tx.value(tx.sql.exchange.APPLIED)))
    return [move.id for i, move in enumerate(moves) if i not in applied]


def _row(move: Transition) -> list[Any]:
    fence = move.fence
    row = [
        move.id, fence.run, fence.epoch, fence.seq, CODE[move.to], move.event, move.delay, move.attempt, move.crashes,
        move.snoozes, int(move.yields_to_cancel), maybe_text(move.result),
    ]  # fmt: skip
    if move.error is not None or move.reason or move.keep_done or move.keep_failed:
        row += [maybe_text(move.error), move.reason, move.fingerprint, move.keep_done, move.keep_failed]
    return row
