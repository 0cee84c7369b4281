"""Accepting jobs and reading them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.event import Row as EventRow
from windlass.core.job import DEFAULT_PRIORITY, Job, NewJob
from windlass.core.links import In, Links, Out, Shape
from windlass.store.base import Accept, Answer
from windlass.store.shared import CODE, STATES
from windlass.store.sqlite.codes import BAND, READY, SCHEDULED, maybe_bytes, to_bytes, to_text
from windlass.store.sqlite.tx import Tx, decode, encode, ids_json

ACCEPTED = Answer(Accept.ACCEPTED)
DUPLICATE = Answer(Accept.DUPLICATE)

JOB_COLUMNS = (
    "jobs.n, jobs.id, task, version, queue, priority, state, payload, meta, run, epoch, attempt, crashes, snoozes, "
    "max_crashes, cancel, coalesce((SELECT workers.id FROM workers WHERE workers.n = jobs.worker), ''), reason, "
    "fingerprint, enqueued_at, due_at, expires_at, started_at, finished_at, result, error, progress, node"
)
# Jobs of graphs that were not accepted yet have their task and payload in a part.
KNOWN = """
SELECT json_group_array(json_array(v.id, coalesce(p.body ->> 1, ''), coalesce(p.body ->> 5, ''), v.state, g.state))
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state > -2
"""


def insert(tx: Tx, jobs: Sequence[NewJob]) -> list[Answer]:
    known = {id: said for id, *said in decode(tx.value(
        "SELECT json_group_array(json_array(id, task, payload, state)) FROM jobs "
        "WHERE id IN (SELECT value FROM json_each(?))", (ids_json(job.id for job in jobs),)
    ))}  # fmt: skip
    nodes = (
        {id: said for id, *said in decode(tx.value(KNOWN, (ids_json(job.id for job in jobs),)))} if tx.graphs else {}
    )
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
        rank += 1
        row = _row(job, payload, rank, tx.now)
        known[job.id] = [job.task, payload, row[7]]
        rows.append(row)
        fresh.append([job.id, job.task, job.queue])
        answers.append(ACCEPTED)
    if rows:
        tx.ranks = rank
        _wake_for_due(tx, rows)
        tx.run("INSERT INTO accept VALUES (?, ?)", (tx.now, encode(rows).decode()))
        _announce(tx, rows)
    tx.record("enqueued", "", fresh)
    tx.record("duplicate", "", again)
    return answers


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
    for (queue, state), count in Counter((row[3], row[7]) for row in rows).items():
        tx.count(queue, state, count)
        if state == READY:
            tx.wake(queue, count)


def _wake_for_due(tx: Tx, rows: list[list[Any]]) -> None:
    """Idle workers sleep until the next due time: when that comes nearer, one must set its alarm anew."""
    scheduled = [(row[9], row[3]) for row in rows if row[7] == SCHEDULED]
    if scheduled:
        due, queue = min(scheduled)
        before = tx.value("SELECT min(due_at) FROM jobs WHERE state = 1")
        if before is None or due < before:
            tx.wake(queue, 1)


def get(tx: Tx, ids: Sequence[str]) -> list[Job | None]:
    sql = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
    found = {job.id: job for job in records(tx, tx.all(sql, (ids_json(ids),)))}
    missing = [id for id in ids if id not in found]
    if missing and tx.graphs:
        found.update((job.id, job) for job in unaccepted(tx, missing))
    return [found.get(id) for id in ids]


def records(tx: Tx, rows: list[Any]) -> list[Job]:
    """The records of rows of JOB_COLUMNS, with their places in graphs."""
    jobs = [job(row) for row in rows]
    nodes = [row[-1] for row in rows if row[-1]]
    if nodes:
        places = {n: place for n, *place in tx.all(PLACES, (ids_json(nodes),))}
        for row, record in zip(rows, jobs, strict=True):
            if row[-1] in places:
                put_in_place(record, *places[row[-1]])
    return jobs


PLACES = """
SELECT v.n, coalesce(g.id, ''), v.spare, v.shape, v.aftermath, l.ins, l.outs, v.awaits, v.replaced
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value CROSS JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph
"""
_ins = msgspec.json.Decoder(list[In]).decode
_outs = msgspec.json.Decoder(list[Out]).decode


def put_in_place(
    record: Job, graph: str, spare: int, shape: int, aftermath: int, ins: str, outs: str, awaits: str, replaced: int
) -> None:
    record.awaits, record.replaced = awaits, bool(replaced)
    if graph:
        record.graph = graph
        record.links = Links(_ins(ins), _outs(outs), spare, Shape(shape), bool(aftermath))


UNACCEPTED = """
SELECT v.n, v.id, v.state, v.run, v.reason, v.finished_at, v.result, v.error, p.body, g.created_at
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
LEFT JOIN parts AS p ON p.n = v.n
WHERE g.state >= 0 AND (v.shape > 0 OR p.body IS NOT NULL)
"""


def unaccepted(tx: Tx, ids: Sequence[str]) -> list[Job]:
    """Nodes that are no jobs: joins, and jobs whose turn to be accepted has not come yet."""
    rows = tx.all(UNACCEPTED, (ids_json(ids),))
    places = {n: place for n, *place in tx.all(PLACES, (ids_json(row[0] for row in rows),))}
    found = []
    for n, id, state, run, reason, finished_at, result, error, body, created_at in rows:
        record = Job(
            id=id, task="", version=1, queue="", priority=DEFAULT_PRIORITY, state=STATES[state], payload=b"",
            meta=b"{}", run=run, reason=reason, enqueued_at=created_at, finished_at=finished_at,
            result=maybe_bytes(result), error=maybe_bytes(error),
        )  # fmt: skip
        if body is not None:
            _, record.task, record.version, record.queue, record.priority, payload, meta, *_ = decode(body)
            record.payload, record.meta = to_bytes(payload), to_bytes(meta)
        put_in_place(record, *places[n])
        found.append(record)
    return found


def job(row: Sequence[Any]) -> Job:
    """The record of a row of JOB_COLUMNS."""
    (
        _, id, task, version, queue, priority, state, payload, meta, run, epoch, attempt, crashes, snoozes, max_crashes,
        cancel, worker, reason, fingerprint, enqueued_at, due_at, expires_at, started_at, finished_at, result, error,
        progress, _,
    ) = row  # fmt: skip
    return Job(
        id=id, task=task, version=version, queue=queue, priority=priority, state=STATES[state],
        payload=to_bytes(payload), meta=to_bytes(meta), run=run, epoch=epoch, attempt=attempt, crashes=crashes,
        snoozes=snoozes, max_crashes=max_crashes, cancel_requested=bool(cancel), worker=worker, reason=reason,
        fingerprint=fingerprint,
        enqueued_at=enqueued_at, due_at=due_at, expires_at=expires_at, started_at=started_at, finished_at=finished_at,
        result=maybe_bytes(result), error=maybe_bytes(error), progress=maybe_bytes(progress),
    )  # fmt: skip
