"""Accepting jobs: by their ids, by what gates and their own terms say, and by who has their unique keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.core.job import NewJob
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import DRAINING, queue_gate
from windlass.store.base import Accept, Answer
from windlass.store.shared import CODE, STATES
from windlass.store.sqlite import uniques
from windlass.store.sqlite.codes import BAND, FAILED, READY, SCHEDULED, WAITING, to_text
from windlass.store.sqlite.jobs import DUE, HOLD, PLACE, STATE, with_terms
from windlass.store.sqlite.moves import shift
from windlass.store.sqlite.todos import work_off
from windlass.store.sqlite.tx import Tx, decode, encode, ids_json

ACCEPTED = Answer(Accept.ACCEPTED)
DUPLICATE = Answer(Accept.DUPLICATE)

# Jobs of graphs that were not accepted yet have their task and payload in a part.
KNOWN = """
SELECT json_group_array(json_array(v.id, coalesce(p.body ->> 1, ''), coalesce(p.body ->> 5, ''), v.state, g.state))
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state > -2
"""


def insert(tx: Tx, jobs: Sequence[NewJob], pressed: bool = True) -> list[Answer]:
    """``pressed``: a full queue holds them up."""
    known = {id: said for id, *said in decode(tx.value(
        "SELECT json_group_array(json_array(id, task, payload, state)) FROM jobs "
        "WHERE id IN (SELECT value FROM json_each(?))", (ids_json(job.id for job in jobs),)
    ))}  # fmt: skip
    nodes = (
        {id: said for id, *said in decode(tx.value(KNOWN, (ids_json(job.id for job in jobs),)))} if tx.graphs else {}
    )
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
        write(tx, "accept", rows)
    tx.record("enqueued", "", fresh)
    tx.record("duplicate", "", again)
    return answers


def write(tx: Tx, step: str, rows: list[list[Any]]) -> None:
    """New jobs by a step of steps.sql; workers are woken for them."""
    _wake_for_due(tx, rows)
    tx.run(f"INSERT INTO {step} VALUES (?, ?)", (tx.now, encode(rows).decode()))
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
        keys = [job.terms.unique for job in jobs if job.terms is not None and job.terms.unique]
        self._holds = uniques.held(tx, keys)
        self._met: set[str] = set()
        """Keys that something was done about since ``_holds`` was read."""
        self._base: dict[str, int] = {}
        self._ready: Counter[str] = Counter()
        """Ready jobs by queue: before this call, and those it brings."""
        self._rows: list[list[Any]] = []
        self._keys: list[tuple[str, str, int]] = []
        self._fresh: list[EventRow] = []
        self._duplicates: list[EventRow] = []
        self._replaced: list[EventRow] = []
        self._dropped: list[EventRow] = []

    def take(self, job: NewJob, payload: str) -> Answer:
        tx, terms = self.tx, job.terms
        limits = tx.book.limits(queue_gate(job.queue)) if tx.gates else NO_LIMITS
        if limits.draining:
            return Answer(Accept.REFUSED, f"queue {job.queue!r} is {DRAINING} and takes in nothing new")
        hold = self._holder(terms.unique) if terms is not None and terms.unique else None
        if hold is not None and (met := self._meet(job, hold)) is not None:
            return met
        row = _row(job, payload, tx.take_ranks(1), tx.now)
        if row[STATE] == READY and hold is None and self.pressed:
            full = self._press(job, limits)
            if full is not None:
                return full
        self._add(job, row, succeeds=hold is not None)
        return ACCEPTED

    def _holder(self, key: str) -> uniques.Hold | None:
        if key not in self._met:
            self._met.add(key)
            return self._holds.get(key)
        self._write()
        return uniques.held(self.tx, [key]).get(key)

    def _meet(self, job: NewJob, hold: uniques.Hold) -> Answer | None:
        """Its unique key is held: what becomes of it. None: it is accepted as the holder's successor."""
        assert job.terms is not None
        call = uniques.meet(self.tx, job, job.terms, hold)
        if call.event == "duplicate":
            self._duplicates.append(list(call.row))
        elif call.event:
            self._replaced.append(list(call.row))
            self._count_anew()
        return call.answer

    def _count_anew(self) -> None:
        self._write()
        self._base.clear()
        self._ready.clear()

    def _press(self, job: NewJob, limits: Limits) -> Answer | None:
        """A full queue: why not; or the oldest makes room."""
        tx, terms = self.tx, job.terms
        most = limits.max_ready if limits.max_ready is not None else terms.max_ready if terms is not None else 0
        if not most:
            return None
        if job.queue not in self._base:
            self._count_anew()
            self._base[job.queue] = tx.counted(job.queue, READY)
        if self._base[job.queue] + self._ready[job.queue] < most:
            return None
        if terms is None or not terms.drop_oldest:
            return Answer(Accept.FULL, f"queue {job.queue!r} has {most} ready jobs or more")
        self._count_anew()
        self._dropped += drop_oldest(tx, job.queue, most)
        self._met.update(self._holds)  # the one that went may have had one of them
        return None

    def _add(self, job: NewJob, row: list[Any], succeeds: bool) -> None:
        tx, terms = self.tx, job.terms
        if succeeds:
            row[STATE], row[PLACE] = WAITING, 0
        lane = with_terms(tx, row, terms)
        if lane:
            tx.touch(job.queue, lane).joined += 1
        if row[STATE] == READY:
            self._ready[job.queue] += 1
        self._rows.append(row)
        self._fresh.append([job.id, job.task, job.queue])
        if terms is not None and terms.unique:
            if succeeds:
                self._write()
                uniques.succeed_to(tx, terms.unique, job.id)
            else:
                self._keys.append((terms.unique, job.id, tx.now + terms.window if terms.window else 0))

    def _write(self) -> None:
        if self._rows:
            write(self.tx, "admit", self._rows)
            self._rows = []
        uniques.take(self.tx, self._keys)
        self._keys = []

    def finish(self, again: list[EventRow]) -> None:
        self._write()
        self.tx.record("enqueued", "", self._fresh)
        self.tx.record("duplicate", "", again + self._duplicates)
        self.tx.record("replaced", "", self._replaced)
        self.tx.record("failed", "", self._dropped)  # those of this call may be among them
        work_off(self.tx)


# All ready jobs of a full queue, in nothing but the index.
OLDEST = """
SELECT n, id, task, crashes, max_crashes FROM jobs WHERE n = (
    SELECT n FROM jobs INDEXED BY jobs_ready WHERE state = 2 AND queue = ? ORDER BY priority, n LIMIT 1
)
"""


def drop_oldest(tx: Tx, queue: str, most: int) -> list[EventRow]:
    """The oldest ready job of the lowest priority makes room for another; what is to be told of it."""
    found = tx.one(OLDEST, (queue,))
    if found is None:
        return []
    n, id, task, crashes, max_crashes = found
    error = lifecycle.dropped_error(queue, most).decode()
    shift(tx, [[n, FAILED, 0, 0, lifecycle.DROPPED, error, "queue-full", crashes, max_crashes]])
    return [[id, task, queue, {"reason": lifecycle.DROPPED}]]


def _known(job: NewJob, payload: str, said: list[Any], again: list[EventRow]) -> Answer:
    task, stored, state = said
    if (task, stored) == (job.task, payload):
        again.append([job.id, job.task, job.queue])
        return DUPLICATE
    what = "another task" if task != job.task else "other arguments"
    return Answer(Accept.CONFLICT, f"job {job.id!r} exists with {what} ({task}, {STATES[state]})")


def _known_node(job: NewJob, payload: str, said: list[Any], again: list[EventRow]) -> Answer:
    """The id is that of a node which is no job, or not yet."""
    task, stored, state, graph = said
    if graph < 0:
        return Answer(Accept.CONFLICT, f"job {job.id!r} belongs to a workflow that is being submitted")
    return _known(job, payload, [task, stored, state], again)


def _announce(tx: Tx, rows: list[list[Any]]) -> None:
    kinds = Counter((row[3], row[STATE], len(row) > HOLD and row[HOLD]) for row in rows)
    for (queue, state, held), count in kinds.items():
        tx.count(queue, state, count)
        if state == READY and not held:
            tx.wake(queue, count)


def _wake_for_due(tx: Tx, rows: list[list[Any]]) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    scheduled = [(row[DUE], row[3]) for row in rows if row[STATE] == SCHEDULED]
    if scheduled:
        due, queue = min(scheduled)
        uniques.wake_for_due(tx, due, queue)
