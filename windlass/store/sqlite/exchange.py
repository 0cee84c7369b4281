"""An exchange: settle what finished, claim what is free.

Every statement costs a hand-over of Python's lock, whatever it does, so what an exchange needs to know is asked for at
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.lifecycle import Transition
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import ExchangeReply, Want
from windlass.store.machine.flow.claim import Claiming, granted_before
from windlass.store.machine.flow.lanes import follow, open_due, wake
from windlass.store.machine.graphs.todos import work, work_off
from windlass.store.machine.jobs.expiry import promote
from windlass.store.machine.jobs.views import WorkerRow, look, next_due, worker_row
from windlass.store.machine.tx import Tx, decode, ids_json
from windlass.store.sqlite.settle import settle


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
    drain = bool(view.alone) or claiming.claim(bool(view.held))
    while claiming.passed and not (drain or claiming.more):
        # A lane could not use what it was let through for: the next one may.
        claiming.passed = False
        found = follow(tx)
        opened += found
        drain = found.total() > 0 and claiming.claim(False)
    _write(tx, row, claiming, refused)
    if promoted:
        tx.wake_queues({queue: promoted[queue] for (queue,) in tx.all(LEFT, (ids_json(promoted),))}, but=row.n)
    if tx.ended or tx.todos:
        _go_on(tx, row)
    if opened or claiming.opened or is_gated(tx):
        _wake_for_lanes(tx, row, opened + claiming.opened + follow(tx, openings=False))
    return ExchangeReply(
        claiming.granted, refused, decode(view.cancels), next_due(tx, view), drain=drain, schedules=tx.heeded
    )


def is_gated(tx: Tx) -> bool:
    """Whether lanes or gates may have something to say."""
    return bool(tx.lanes or tx.gates or tx.touched or tx.over)


LEFT = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = value AND hold = 0)"
CLAIMABLE = (
    "SELECT value, (SELECT count(*) FROM (SELECT 1 FROM lanes WHERE queue = value AND state = 0 LIMIT ?2)) "
    "+ (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 2 AND queue = value AND hold < 3 LIMIT ?2)) "
    "FROM json_each(?1)"
)


def _wake_for_lanes(tx: Tx, row: WorkerRow, opened: Counter[str]) -> None:
    """Others are woken for what this worker did not take of what may start now."""
    opened = +opened
    if opened and tx.idle:
        left = tx.all(CLAIMABLE, (ids_json(opened), max(opened.values())))
        wake(tx, Counter({queue: min(count, opened[queue]) for queue, count in left}), but=row.n)


def _go_on(tx: Tx, row: WorkerRow) -> None:
    """More than one step may do, or claims found jobs that were over: the next exchange goes on with what is left."""
    if tx.ended:
        work_off(tx)
    if tx.todos:
        tx.run("UPDATE workers SET idle = 0 WHERE n = ?", (row.n,))
        tx.tell(row.id)


def _write(tx: Tx, row: WorkerRow, claiming: Claiming, refused: list[str]) -> None:
    """The claims and the worker's row. A worker that got less than it wanted is idle from here on."""
    idle = len(claiming.granted) < claiming.could_start and not claiming.more
    tx.run(
        "INSERT INTO exchanged VALUES (?, ?, ?, ?, ?, ?, ?)",
        (row.n, claiming.seq, tx.now, idle, claiming.reserved, ids_json(refused), claiming.take()),
    )
    tx.idle = tx.idle or idle
    tx.announce("started", row.id, [[job.id, job.task, job.queue] for job in claiming.granted])
    if claiming.more:
        tx.tell(row.id)
