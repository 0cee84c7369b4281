"""Workers' lives: presence, leases, what a beat tells them, and how they leave."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.limits import OPEN
from windlass.core.terms import queue_gate
from windlass.store.jobs import BeatReply, Presence
from windlass.store.machine.graphs.todos import work_off
from windlass.store.machine.jobs.asides import groups, undeclare
from windlass.store.machine.jobs.recovery import bury, recover
from windlass.store.machine.jobs.sweeps import next_check
from windlass.store.machine.jobs.views import look, next_due, worker_row
from windlass.store.machine.tx import Memo, Tx, decode, encode
from windlass.store.skills import Skills


def beat(tx: Tx, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
    row = tx.one(tx.sql.workers.BEATEN, (presence.id,))
    if row is not None and (row[1] or row[2] <= tx.now):
        # Judged lost: its jobs may be elsewhere by now, so it must not go on under this name.
        tx.run(tx.sql.workers.DEAD, (row[0],))
        return BeatReply(gone=True, lost=list(held))
    if row is None and acked_seq:
        return BeatReply(gone=True, lost=list(held))  # buried, with the number of its last exchange
    mark = Memo.mark(presence)
    skills = tx.memo.skills.get(mark) or tx.memo.remember(mark, presence)
    n: int = _register(tx, presence, mark) if row is None else _renew(tx, row[0], presence, mark, row[3])
    running = tx.all(tx.sql.workers.RUNNING, (n,))
    mine = set(held)
    dropped = [job for job, id, seq in running if seq <= acked_seq and id not in mine]
    if dropped:
        recover(tx, n, presence.id, skills, dropped, crashed=False)
        work_off(tx)
    runs = {id for _, id, _ in running}
    lost = [id for id in held if id not in runs]
    view = look(tx, n, skills)
    return BeatReply(
        False, lost, decode(view.cancels), has_work(tx, skills), next_due(tx, view), next_check(tx), tx.heeded
    )


def _register(tx: Tx, presence: Presence, mark: int) -> int:
    n: int = tx.value(
        tx.sql.workers.ADD, (presence.id, presence.lease, tx.now + presence.lease, tx.now, mark)
    )  # fmt: skip
    tx.run(tx.sql.workers.SAY, (n, encode(presence).decode()))
    tx.record("worker_up", presence.id, [[""]])
    return n


def _renew(tx: Tx, n: int, presence: Presence, mark: int, before: int) -> int:
    if mark != before:
        undeclare(tx, tx.skills(n, before))
    tx.run(tx.sql.workers.RENEW, (presence.lease, tx.now + presence.lease, tx.now, mark, n))
    tx.run(tx.sql.workers.SAY, (n, encode(presence).decode()))
    return n


def has_work(tx: Tx, skills: Skills) -> bool:
    """Whether its queues hold a job in ready order or in an open lane, one that runs alone, or one set aside that it
    declares, and may give it."""
    for queue, plain, lane in tx.all(tx.sql.workers.HAS_WORK, (skills.queues_json,)):
        if tx.gates and tx.book.opens(queue_gate(queue), 1) != OPEN:
            continue
        if plain or lane or any(skills.takes(*group) for group in groups(tx, [queue])):
            return True
    return False


def leave(tx: Tx, worker: str, crashed: bool) -> None:
    row = worker_row(tx, worker)
    if row is not None:
        tx.run(tx.sql.workers.DEAD, (row.n,))
        bury(tx, row.n, worker, row.mark, crashed, -1)
        work_off(tx)
