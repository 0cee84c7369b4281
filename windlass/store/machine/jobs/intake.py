"""Accepting jobs: by their ids, by what gates and their own terms say, and by who has their unique keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from windlass.core.event import Row as EventRow
from windlass.core.job import NewJob
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import queue_gate
from windlass.store import rules
from windlass.store.answers import Accept, Answer
from windlass.store.machine.codes import BAND, FAILED, READY, SCHEDULED, WAITING, to_text
from windlass.store.machine.flow import uniques
from windlass.store.machine.graphs.todos import work_off
from windlass.store.machine.jobs.replacing import Replacing
from windlass.store.machine.jobs.room import Room
from windlass.store.machine.jobs.rows import DUE, HOLD, PLACE, STATE, with_terms
from windlass.store.machine.tx import Tx, decode, encode, ids_json
from windlass.store.shared import CODE, STATES

ACCEPTED = Answer(Accept.ACCEPTED)
DUPLICATE = Answer(Accept.DUPLICATE)


def insert(tx: Tx, jobs: Sequence[NewJob], pressed: bool = True) -> list[Answer]:
    """``pressed``: a full queue holds them up."""
    sql, ids = tx.sql.intake, ids_json(job.id for job in jobs)
    known = {id: said for id, *said in decode(tx.value(sql.KNOWN, (ids,)))}
    nodes = {id: said for id, *said in decode(tx.value(sql.KNOWN_NODES, (ids,)))} if tx.graphs else {}
    intake = Intake(tx, jobs, pressed) if tx.gates or any(job.terms is not None for job in jobs) else None
    rank, rows, answers = tx.ranks, [], []
    fresh: list[EventRow] = []
    again: list[EventRow] = []
    for job in jobs:
        payload = to_text(job.payload)
        if job.id in known:
            answers.append(_known(job, payload, known[job.id], again))
            continue
        if job.id in nodes:
            answers.append(_known_node(job, payload, nodes[job.id], again))
            continue
        if intake is not None:
            answers.append(intake.take(job, payload))
            if answers[-1].status is Accept.ACCEPTED:
                known[job.id] = [job.task, payload, READY]
            continue
        rank += 1
        row = _row(job, payload, rank, tx.now)
        known[job.id] = [job.task, payload, row[7]]
        rows.append(row)
        fresh.append([job.id, job.task, job.queue])
        answers.append(ACCEPTED)
    if intake is not None:
        intake.finish(again)
        return answers
    if rows:
        tx.ranks = rank
        write(tx, sql.ACCEPT, rows)
    tx.record("enqueued", "", fresh)
    tx.record("duplicate", "", again)
    return answers


def write(tx: Tx, sql: str, rows: list[list[Any]]) -> None:
    """Write new jobs by this statement, and wake workers for them."""
    _wake_for_due(tx, rows)
    tx.run(sql, (tx.now, encode(rows).decode()))
    _announce(tx, rows)


def _row(job: NewJob, payload: str, rank: int, now: int) -> list[Any]:
    due = max(job.at, now + job.delay if job.delay else 0)
    scheduled = due > now
    return [
        job.id, job.task, job.version, job.queue, job.priority, payload, to_text(job.meta),
        SCHEDULED if scheduled else READY, 0 if scheduled else (9 - job.priority) * BAND + rank,
        due if scheduled else 0,
        job.expires_at or (now + job.expires_in if job.expires_in else 0), CODE[job.expire_to], job.max_crashes,
        job.crash_delay, job.keep_done or None, job.keep_failed or None,
    ]  # fmt: skip


class Intake:
    """New jobs that gates or their own terms may keep out."""

    def __init__(self, tx: Tx, jobs: Sequence[NewJob], pressed: bool) -> None:
        self.tx, self.pressed = tx, pressed
        self._unique = [job.terms.unique for job in jobs if job.terms is not None and job.terms.unique]
        self._again = {key for key, many in Counter(self._unique).items() if many > 1}
        """Keys that more than one call of the batch is about."""
        self._room = Room(tx, jobs)
        self._replacing = Replacing(tx)
        self._holds: dict[str, uniques.Key] | None = uniques.held(tx, self._unique)
        """Who has the keys, as of now; None: to be read anew."""
        self._base: dict[str, int] | None = None
        self._ready: Counter[str] = Counter()
        """Ready jobs by queue: in the database, if that was read, and those that are not written yet."""
        self._new: list[tuple[NewJob, list[Any]]] = []
        self._keys: list[tuple[str, str, int]] = []
        self._successors: list[tuple[str, str]] = []
        self._fresh: list[EventRow] = []
        self._duplicates: list[EventRow] = []
        self._replaced: list[EventRow] = []

    def take(self, job: NewJob, payload: str) -> Answer:
        tx, terms = self.tx, job.terms
        limits = tx.book.limits(queue_gate(job.queue)) if tx.gates else NO_LIMITS
        if limits.draining:
            return rules.draining(job)
        hold = self._holder(terms.unique) if terms is not None and terms.unique else None
        if hold is not None and (met := self._meet(job, hold)) is not None:
            return met
        row = _row(job, payload, tx.take_ranks(1), tx.now)
        if row[STATE] == READY and hold is None and self.pressed:
            full = self._press(job, limits)
            if full is not None:
                return full
        self._add(job, row, hold)
        return ACCEPTED

    def _holder(self, key: str) -> uniques.Key | None:
        if self._holds is None:
            self._write()
            self._holds = uniques.held(self.tx, self._unique)
        return self._holds.get(key)

    def _meet(self, job: NewJob, hold: uniques.Key) -> Answer | None:
        """Its unique key is held: what becomes of it. None: it is accepted as the holder's successor."""
        assert job.terms is not None
        call = self._replacing.meet(job, job.terms, hold)
        if call.event == "duplicate":
            self._duplicates.append(list(call.row))
        elif call.event:
            self._replaced.append(list(call.row))
        return call.answer

    def _press(self, job: NewJob, limits: Limits) -> Answer | None:
        """A full queue: why not; or the oldest makes room."""
        tx, terms = self.tx, job.terms
        most = rules.full_at(job, limits)
        if not most:
            return None
        if self._base is None:
            self._base = tx.counted_in(self._room.queues, READY)
        if self._base[job.queue] + self._ready[job.queue] + self._replacing.ready[job.queue] < most:
            return None
        if terms is None or not terms.drop_oldest:
            return rules.full(job, most)
        if self._replacing.changed:  # priorities, or what is ready
            self._write()
        self._drop_oldest(job.queue, most)
        return None

    def _drop_oldest(self, queue: str, most: int) -> None:
        old = self._room.drop(queue, most, self._new)
        if old is None:
            return
        self._ready[queue] -= 1
        holds = self._holds or {}
        hold = holds.get(old.unique)
        if hold is not None and hold.holder == old.id:
            hold.state = FAILED
            if not hold.is_held(self.tx.now):
                del holds[hold.name]

    def _add(self, job: NewJob, row: list[Any], hold: uniques.Key | None) -> None:
        """``hold``: it is the successor of who has its key."""
        tx, terms = self.tx, job.terms
        if hold is not None:
            row[STATE], row[PLACE] = WAITING, 0
        if row[STATE] == READY:
            self._ready[job.queue] += 1
            if job.queue in self._room.read:
                self._room.add(job, row)
        self._new.append((job, row))
        self._fresh.append([job.id, job.task, job.queue])
        if terms is not None and terms.unique:
            if hold is None:
                until = tx.now + terms.window if terms.window else 0
                self._keys.append((terms.unique, job.id, until))
            else:
                self._successors.append((terms.unique, job.id))
            if terms.unique in self._again:
                self._remember(terms.unique, job, row, hold)

    def _remember(self, key: str, job: NewJob, row: list[Any], hold: uniques.Key | None) -> None:
        """For the next call that is about the key."""
        if hold is None:
            until = self._keys[-1][2]
            hold = uniques.Key(key, job.id, 0, until, row[STATE])
            if self._holds is not None:
                self._holds[key] = hold
        else:
            hold.successor = True
        hold.target = uniques.Replaceable(0, job.id, job.task, job.queue, row[STATE], self.tx.now, 0, job.max_crashes)
        hold.target.row = row

    def _write(self) -> None:
        """What was gathered so far. What was read before is read anew then."""
        tx = self.tx
        for job, row in self._new:
            lane = with_terms(tx, row, job.terms)
            if lane:
                tx.effects.lane(job.queue, lane).joined += 1
        if self._new:
            write(tx, tx.sql.intake.ADMIT, [row for _, row in self._new])
        uniques.take(self.tx, self._keys)
        uniques.succeed_to(self.tx, self._successors)
        self._replacing.write()
        self._room.write()
        self._new, self._keys, self._successors = [], [], []
        self._holds = self._base = None
        self._ready.clear()

    def finish(self, again: list[EventRow]) -> None:
        self._write()
        self.tx.record("enqueued", "", self._fresh)
        self.tx.record("duplicate", "", again + self._duplicates)
        self.tx.record("replaced", "", self._replaced)
        self.tx.record("failed", "", self._room.dropped)  # those of this call may be among them
        work_off(self.tx)


def _known(job: NewJob, payload: str, said: list[Any], again: list[EventRow]) -> Answer:
    task, stored, state = said
    if (task, stored) == (job.task, payload):
        again.append([job.id, job.task, job.queue])
        return DUPLICATE
    return rules.conflict(job, task, STATES[state])


def _known_node(job: NewJob, payload: str, said: list[Any], again: list[EventRow]) -> Answer:
    """The id is that of a node which is no job, or not yet."""
    task, stored, state, graph = said
    if graph < 0:
        return rules.staged(job)
    return _known(job, payload, [task, stored, state], again)


def _announce(tx: Tx, rows: list[list[Any]]) -> None:
    for (queue, state), count in Counter((row[3], row[STATE]) for row in rows).items():
        tx.count(queue, state, count)
    if tx.idle:
        tx.wake_queues(Counter(row[3] for row in rows if row[STATE] == READY and not (len(row) > HOLD and row[HOLD])))


def _wake_for_due(tx: Tx, rows: list[list[Any]]) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    scheduled = [(row[DUE], row[3]) for row in rows if row[STATE] == SCHEDULED]
    if scheduled:
        due, queue = min(scheduled)
        uniques.wake_for_due(tx, due, queue)
