"""What becomes of the claims of a worker that left or died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.core.job import State
from windlass.store.machine.codes import CANCELLED, FAILED, READY, SCHEDULED
from windlass.store.machine.jobs.asides import undeclare
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.shared import CODE
from windlass.store.skills import Skills


def bury(tx: Tx, n: int, id: str, mark: int, crashed: bool, limit: int) -> list[int]:
    """Give a dead worker's jobs back; its row goes with the last of them. The states they went to."""
    sql = tx.sql.recovery
    undeclare(tx, tx.skills(n, mark))
    jobs = [job for (job,) in tx.all(sql.OF_WORKER, (n, limit))]
    states = recover(tx, n, id, tx.skills(n, mark), jobs, crashed)
    if not tx.value(sql.ANY_LEFT, (n,)):
        tx.run(sql.FORGET, (n,))
        tx.run(sql.FORGET_PRESENCE, (n,))
        tx.record("worker_down", id, [[""]])
    return states


def recover(tx: Tx, n: int, id: str, skills: Skills, jobs: list[int], crashed: bool) -> list[int]:
    """Claims whose worker left or died go where the rules say, in their old place."""
    rows = tx.all(tx.sql.recovery.CLAIMS, (ids_json(jobs),))
    decide = _after_crash if crashed else _handed_back
    shifts = [decide(tx, skills, id, row) for row in rows]
    in_lanes = shift(tx, shifts)
    if tx.gates:
        tx.book.recount()
    news: list[EventRow] = [[row[1], row[2], row[3]] for row in rows]
    tx.record("lost" if crashed else "released", id, news)
    for kind, code in (("failed", FAILED), ("cancelled", CANCELLED)):
        tx.record(kind, id, [[*news[i], {"reason": row[4]}] for i, row in enumerate(shifts) if row[1] == code])
    for queue, count in (Counter(rows[i][3] for i, row in enumerate(shifts) if row[1] == READY) - in_lanes).items():
        tx.wake(queue, count, but=n)
    return [row[1] for row in shifts]


def _handed_back(tx: Tx, skills: Skills, worker: str, row: Sequence[Any]) -> list[Any]:
    n, _, _, _, crashes, most, _, cancel, reason = row
    return [n, CANCELLED if cancel else READY, 0, 1, reason, None, None, crashes, most]


def _after_crash(tx: Tx, skills: Skills, worker: str, row: Sequence[Any]) -> list[Any]:
    n, _, task, queue, crashes, most, delay, cancel, reason = row
    crashes, most = crashes + 1, skills.max_crashes(queue, task, most)
    state = lifecycle.after_crash(crashes, most, bool(cancel))
    if state is State.FAILED:
        silent = _silence(tx, worker)
        error, mark = lifecycle.crash_error(crashes, worker, silent).decode(), lifecycle.crash_mark(silent)
        return [n, FAILED, 0, 0, lifecycle.crash_reason(silent), error, mark, crashes, most]
    if state is State.READY and delay:
        return [n, SCHEDULED, tx.now + delay, 1, reason, None, None, crashes, most]
    return [n, CODE[state], 0, 1, reason, None, None, crashes, most]


def _silence(tx: Tx, worker: str) -> int:
    """How long a worker has not beaten, in ms, if its lease is over; else 0: somebody knows that it died."""
    since: int = tx.value(tx.sql.recovery.SILENCE, (tx.now, worker))
    return since
