"""An exchange: settle what finished, claim what is free.

Every statement costs a round trip, or a hand-over of Python's lock, whatever it does. So what an exchange needs to know
is asked for at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.lifecycle import Transition
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import ExchangeReply, Want
from windlass.store.machine.flow.claim import Claiming, granted_before, wake_for_plain
from windlass.store.machine.flow.lanes import follow, is_gated, open_due, wake_for_left
from windlass.store.machine.flow.settle import settle
from windlass.store.machine.graphs.todos import work, work_off
from windlass.store.machine.jobs.expiry import promote
from windlass.store.machine.jobs.views import WorkerRow, look, next_due, worker_row
from windlass.store.machine.tx import Tx, decode, ids_json


def exchange(tx: Tx, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
    row = worker_row(tx, worker)
    if row is None or row.dead:
        return ExchangeReply(refused=[move.id for move in moves], gone=True)
    if seq < row.seq:
        raise StoreError(f"worker {worker} sent exchange {seq} after {row.seq}")
    skills = tx.skills(row.n, row.mark)
    if seq == row.seq:
        view = look(tx, row.n, skills)
        granted = granted_before(tx, row.n, seq)
        return ExchangeReply(
            granted, decode(row.refused), decode(view.cancels), next_due(tx, view), schedules=tx.heeded
        )
    refused = settle(tx, row.n, worker, moves) if moves else []
    promoted = work(tx)
    view = look(tx, row.n, skills)
    if view.due is not None and view.due <= tx.now:
        promoted += promote(tx, MAX_BATCH).plain
        view = look(tx, row.n, skills)
    open_due(tx)
    opened = follow(tx) if is_gated(tx) else Counter()
    claiming = Claiming(tx, row.n, skills, seq, want)
    drain = claiming.claim_all(bool(view.alone), bool(view.held))
    _write(tx, row, claiming, refused)
    wake_for_plain(tx, promoted, but=row.n)
    if tx.effects.in_graphs or tx.todos:
        _go_on(tx, row)
    if opened or claiming.opened or is_gated(tx):
        wake_for_left(tx, opened + claiming.opened + follow(tx, openings=False), but=row.n)
    return ExchangeReply(
        claiming.grants.granted, refused, decode(view.cancels), next_due(tx, view), drain=drain, schedules=tx.heeded
    )


def _go_on(tx: Tx, row: WorkerRow) -> None:
    """More than one step may do, or claims found jobs that were over: the next exchange goes on with what is left."""
    if tx.effects.in_graphs:
        work_off(tx)
    if tx.todos:
        tx.run(tx.sql.tx.BUSY, (ids_json([row.n]),))
        tx.tell(row.id)


def _write(tx: Tx, row: WorkerRow, claiming: Claiming, refused: list[str]) -> None:
    """The claims and the worker's row. A worker that got less than it wanted is idle from here on."""
    grants, idle = claiming.grants, claiming.is_idle
    tx.run(tx.sql.exchange.END, (row.n, grants.seq, tx.now, idle, claiming.reserved, ids_json(refused), grants.take()))
    tx.idle = tx.idle or idle
    tx.announce("started", row.id, [[job.id, job.task, job.queue] for job in grants.granted])
    if grants.more:
        tx.tell(row.id)
