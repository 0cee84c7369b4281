"""An exchange: settle what finished, claim what is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from windlass.core import lifecycle
from windlass.core.job import Claim, State
from windlass.core.lifecycle import Transition
from windlass.errors import StoreError
from windlass.store.base import MAX_BATCH, ExchangeReply, Want
from windlass.store.sqlite.asides import groups
from windlass.store.sqlite.codes import CODE, FAILED, READY, RUNNING, maybe_bytes, maybe_text, to_bytes
from windlass.store.sqlite.expiry import expired_row, promote
from windlass.store.sqlite.moves import shift, tell_watchers
from windlass.store.sqlite.tx import Skills, Tx, decode, encode, ids_json


class Candidate(msgspec.Struct, array_like=True):
    """A ready job as a claim sees it; the order of the fields is the order of CANDIDATE."""

    n: int
    place: int
    expires_at: int
    expire_to: int
    max_crashes: int
    id: str
    task: str
    version: int
    queue: str
    priority: int
    payload: str
    meta: str
    run: int
    epoch: int
    seq: int
    attempt: int
    crashes: int
    snoozes: int
    enqueued_at: int
    error: str | None

    def claim(self, epoch: int, seq: int) -> Claim:
        return Claim(
            self.id, self.task, self.version, self.queue, self.priority, to_bytes(self.payload), to_bytes(self.meta),
            self.run, epoch, seq, self.attempt, self.crashes, self.snoozes, self.enqueued_at, maybe_bytes(self.error),
        )  # fmt: skip


CANDIDATE = (
    "json_array(n, place, expires_at, expire_to, max_crashes, id, task, version, queue, priority, payload, meta, run, "
    "epoch, seq, attempt, crashes, snoozes, enqueued_at, error)"
)
# One row for all of them: fetching row by row would hand Python's lock back and forth for each job.
FROM_READY = (
    f"SELECT json_group_array({CANDIDATE}) FROM (SELECT * FROM jobs WHERE state = 2 AND queue = ?1 AND hold = 0 "
    "ORDER BY place LIMIT ?2)"
)
FROM_ASIDE = (
    f"SELECT json_group_array({CANDIDATE}) FROM (SELECT * FROM jobs WHERE state = 2 AND hold = 1 AND queue = ?1 "
    "AND task = ?3 AND version = ?4 ORDER BY place LIMIT ?2)"
)
FIRST_SOLO = f"SELECT {CANDIDATE} FROM jobs WHERE state = 2 AND queue = ? AND hold = 2 ORDER BY place LIMIT 1"
_candidates = msgspec.json.Decoder(list[Candidate]).decode


class WorkerRow(NamedTuple):
    """A worker as an exchange needs it."""

    n: int
    id: str
    seq: int
    dead: int
    mark: int
    refused: str


def worker_row(tx: Tx, id: str) -> WorkerRow | None:
    row = tx.one("SELECT n, id, seq, dead, mark, refused FROM workers WHERE id = ?", (id,))
    return row and WorkerRow(*row)


def exchange(tx: Tx, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
    row = worker_row(tx, worker)
    if row is None or row.dead:
        return ExchangeReply(refused=[move.id for move in moves], gone=True)
    if seq < row.seq:
        raise StoreError(f"worker {worker} sent exchange {seq} after {row.seq}")
    if seq == row.seq:
        return ExchangeReply(_granted_before(tx, row), decode(row.refused), cancels(tx, row.n), next_due(tx))
    refused = settle(tx, row, moves) if moves else []
    promoted = promote(tx, MAX_BATCH)
    claiming = Claiming(tx, row, seq, want)
    granted, drain = claiming.claim()
    idle = len(granted) < claiming.total and not claiming.more
    tx.run(
        "UPDATE workers SET seq = ?, idle = ?, reserved = ?, refused = ? WHERE n = ?",
        (seq, idle, claiming.reserved, ids_json(refused), row.n),
    )
    tx.record("started", worker, [[job.id, job.task, job.queue] for job in granted])
    for queue, count in promoted.items():
        if tx.value("SELECT 1 FROM jobs WHERE state = 2 AND queue = ? AND hold = 0 LIMIT 1", (queue,)):
            tx.wake(queue, count, but=row.n)
    if claiming.more:
        tx.tell(worker)
    return ExchangeReply(granted, refused, cancels(tx, row.n), next_due(tx), drain=drain)


def _granted_before(tx: Tx, row: WorkerRow) -> list[Claim]:
    sql = f"SELECT json_group_array({CANDIDATE}) FROM (SELECT * FROM jobs WHERE state = 3 AND worker = ? AND seq = ?)"
    found = _candidates(tx.value(sql, (row.n, row.seq)))
    return [job.claim(job.epoch, job.seq) for job in sorted(found, key=lambda job: job.place)]


def cancels(tx: Tx, worker: int) -> list[str]:
    sql = "SELECT json_group_array(id) FROM jobs WHERE state = 3 AND worker = ? AND cancel = 1"
    found: list[str] = decode(tx.value(sql, (worker,)))
    return found


def next_due(tx: Tx) -> int:
    due = tx.value("SELECT min(due_at) FROM jobs WHERE state = 1")
    return -1 if due is None else max(0, due - tx.now)


# -- settling


def settle(tx: Tx, worker: WorkerRow, moves: Sequence[Transition]) -> list[str]:
    """Apply the moves whose fence holds; the ids of the others."""
    rows = [_move_row(move) for move in moves]
    tx.run(
        "INSERT INTO settle VALUES (?, ?, ?, ?, ?, ?)",
        (worker.n, tx.now, tx.take_ranks(len(rows)), tx.memo.done, tx.memo.failed, encode(rows).decode()),
    )
    applied = watched = 0
    for kind, count, watchers, news in tx.all(SETTLED):
        applied += count
        watched += watchers
        tx.groups.append((kind, worker.id, msgspec.Raw(news)))
    if watched:
        tell_watchers(tx)
    if any(move.to is State.READY for move in moves):
        for queue, count in tx.all("SELECT queue, count(*) FROM moved WHERE goes = 2 GROUP BY queue"):
            tx.wake(queue, count, but=worker.n)
    if applied == len(moves):
        return []
    held = set(decode(tx.value("SELECT json_group_array(i) FROM moved")))
    return [move.id for i, move in enumerate(moves) if i not in held]


# Events in the order of their first move. The news never becomes Python objects.
SETTLED = """
SELECT event, count(*), sum(watched), json_group_array(
    CASE WHEN delay IS NOT NULL THEN json_array(id, task, queue, json_object('delay', delay))
         WHEN goes > 3 AND reason <> '' THEN json_array(id, task, queue, json_object('reason', reason))
         ELSE json_array(id, task, queue) END)
FROM moved GROUP BY event ORDER BY min(i)
"""


def _move_row(move: Transition) -> list[Any]:
    fence = move.fence
    row = [
        move.id, fence.run, fence.epoch, fence.seq, CODE[move.to], move.event, move.delay, move.attempt, move.crashes, move.snoozes,
        int(move.yields_to_cancel), maybe_text(move.result),
    ]  # fmt: skip
    if move.error is not None or move.reason or move.keep_done or move.keep_failed:
        row += [maybe_text(move.error), move.reason, move.fingerprint, move.keep_done, move.keep_failed]
    return row


# -- claiming


class Claiming:
    """One exchange's search for jobs."""

    def __init__(self, tx: Tx, worker: WorkerRow, seq: int, want: Want) -> None:
        self.tx, self.worker, self.seq = tx, worker, seq
        self.total, self.queues = min(want.total, MAX_BATCH), want.queues
        self.skills: Skills = tx.skills(worker.n, worker.mark)
        self.granted: list[Claim] = []
        self.taken: list[int] = []
        self.reserved = 0
        self.turned_away = 0
        self.more = False

    def claim(self) -> tuple[list[Claim], bool]:
        """The grants; True with them when the worker must drain for a job that runs alone."""
        held_back = self._look()
        if held_back is None:
            return [], True
        if held_back:
            solo = self._solo()
            if solo is not None:
                return solo
        for queue, cap in self.queues:
            take = min(cap, self.total - len(self.granted))
            if take > 0:
                self._queue(queue, take, held_back)
        return self.granted, False

    def _look(self) -> bool | None:
        """None: it runs a job that runs alone. Else whether any job of its queues is out of the ready order."""
        alone, held = self.tx.one(
            "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 3 AND worker = ? AND cancel IN (0, 1) AND hold = 2), "
            "EXISTS (SELECT 1 FROM json_each(?) AS q CROSS JOIN jobs ON state = 2 AND queue = q.value AND hold > 0)",
            (self.worker.n, self.skills.queues_json),
        )
        return None if alone else bool(held)

    def _solo(self) -> tuple[list[Claim], bool] | None:
        """A job that runs alone, if this worker is the one for it: granted when it is empty, else waited for."""
        tx = self.tx
        busy = tx.value("SELECT 1 FROM jobs WHERE state = 3 AND worker = ? LIMIT 1", (self.worker.n,))
        # A worker that drains asks for nothing, and must not lose its reservation by that.
        queues = [queue for queue, cap in self.queues if cap > 0] if self.total > 0 else self.skills.queues
        for queue in queues:
            head = tx.value(FIRST_SOLO, (queue,))
            job = msgspec.json.decode(head, type=Candidate) if head else None
            if job is None or not self.skills.takes(queue, job.task, job.version) or self._is_over(job):
                continue
            if not busy or not self._reserved_elsewhere(job.n):
                self.reserved = job.n
                if busy:
                    return [], True
                if self.total <= 0:
                    return None
                self._grant(job)
                self._write()
                return self.granted, False
        return None

    def _reserved_elsewhere(self, n: int) -> bool:
        sql = "SELECT 1 FROM workers WHERE reserved = ? AND n <> ? AND dead = 0 AND lease_until > ?"
        return self.tx.value(sql, (n, self.worker.n, self.tx.now)) is not None

    def _queue(self, queue: str, take: int, held_back: bool) -> None:
        """Up to ``take`` jobs in ready order, merged with what others set aside and this worker declares."""
        aside = [group for group in groups(self.tx, queue) if self.skills.takes(*group)] if held_back else []
        while take > 0:
            found = _candidates(self.tx.value(FROM_READY, (queue, take)))
            for _, task, version in aside:
                found += _candidates(self.tx.value(FROM_ASIDE, (queue, take, task, version)))
            if aside:
                found.sort(key=lambda job: job.place)
            before = len(self.granted)
            unfit = [job for job in found[:take] if not self._offer(job)]
            take -= len(self.granted) - before
            self._write()
            if unfit:
                self._turn_away(queue, unfit)
            if not unfit or self.more:
                return

    def _is_over(self, job: Candidate) -> bool:
        return 0 < job.expires_at <= self.tx.now

    def _offer(self, job: Candidate) -> bool:
        if self._is_over(job) or not self.skills.takes(job.queue, job.task, job.version):
            return False
        self._grant(job)
        return True

    def _grant(self, job: Candidate) -> None:
        self.granted.append(job.claim(job.epoch + 1, self.seq))
        self.taken.append(job.n)

    def _write(self) -> None:
        """The grants so far, into the jobs."""
        if not self.taken:
            return
        self.tx.run(
            "UPDATE jobs SET state = 3, hold = hold & 2, worker = ?, seq = ?, epoch = epoch + 1, started_at = ? "
            "WHERE n IN (SELECT value FROM json_each(?))",
            (self.worker.n, self.seq, self.tx.now, ids_json(self.taken)),
        )
        for queue, count in Counter(job.queue for job in self.granted[-len(self.taken) :]).items():
            self.tx.count(queue, READY, -count)
            self.tx.count(queue, RUNNING, count)
        self.taken = []

    def _turn_away(self, queue: str, unfit: list[Candidate]) -> None:
        """What has expired ends; what this worker does not declare is set aside for one that does."""
        tx = self.tx
        over = [job for job in unfit if self._is_over(job)]
        for job in over:
            kind = "failed" if job.expire_to == FAILED else "cancelled"
            tx.record(kind, "", [[job.id, job.task, job.queue, {"reason": lifecycle.EXPIRED}]])
        shift(tx, (expired_row(job.n, job.expire_to, job.crashes, job.max_crashes) for job in over))
        strange = [job for job in unfit if not self._is_over(job)]
        tx.run(
            "UPDATE jobs SET hold = 1, aside_at = ? WHERE n IN (SELECT value FROM json_each(?))",
            (tx.now, ids_json(job.n for job in strange)),
        )
        for (task, version), count in Counter((job.task, job.version) for job in strange).items():
            tx.wake(queue, count, partial(Skills.takes, queue=queue, task=task, version=version), but=self.worker.n)
        self.turned_away += len(unfit)
        # Bounded like every call; the worker is woken at once to go on.
        self.more = self.turned_away >= MAX_BATCH
