"""Jobs as rows: how new ones are written, and records read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.job import DEFAULT_PRIORITY, Job
from windlass.core.links import In, Links, Out, Shape
from windlass.core.terms import Terms, is_strict, lane_of
from windlass.store.machine.codes import AGED, BAND, LANE, MIDDLE, READY, maybe_bytes, to_bytes
from windlass.store.machine.tx import Tx, decode, encode, ids_json
from windlass.store.shared import STATES

JOB_COLUMNS = (
    "jobs.n, jobs.id, task, version, queue, priority, state, payload, meta, run, epoch, attempt, crashes, snoozes, "
    "max_crashes, cancel, coalesce((SELECT workers.id FROM workers WHERE workers.n = jobs.worker), ''), reason, "
    "fingerprint, enqueued_at, due_at, expires_at, started_at, finished_at, result, error, progress, terms, node"
)

VERSION, PRIORITY, PAYLOAD, META, STATE, PLACE, DUE = 2, 4, 5, 6, 7, 8, 9
NODE, HOLD, NUMBER, LANE_NAME, TERMS = 16, 17, 18, 19, 20
"""Places in a row of `admit`, the first ones of which are also those of `accept`."""


def with_terms(tx: Tx, row: list[Any], terms: Terms | None, node: int = 0) -> str:
    """A row of `accept` becomes one of `admit`; the lane it is in, empty for none."""
    task, priority = row[1], row[4]
    own = lane_of(terms, task, False)
    lane = own or (f"t{task}" if tx.gates and task in tx.book.gated else "")
    row += [node, 0, 0 if terms is None else terms.seq, own or None, None]
    if terms is not None:
        row[TERMS] = encode(terms).decode()
    if row[STATE] != READY:
        return ""
    if is_strict(lane):
        row[PLACE] = MIDDLE * BAND + row[PLACE] % BAND
    elif terms is not None and terms.ageing:
        row[PLACE] = MIDDLE * BAND + AGED + tx.now + (5 - priority) * terms.ageing
    if lane:
        row[HOLD] = LANE
    return lane


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
            id=id, task="", version=1, queue="", priority=DEFAULT_PRIORITY, state=STATES[state], payload=b"{}",
            meta=b"{}", run=run, reason=reason, enqueued_at=created_at, finished_at=finished_at,
            result=maybe_bytes(result), error=maybe_bytes(error),
        )  # fmt: skip
        if body is not None:
            _, record.task, record.version, record.queue, record.priority, payload, meta, *_, terms = decode(body)
            record.payload, record.meta = to_bytes(payload), to_bytes(meta)
            record.terms = None if terms is None else decode(terms, type=Terms)
        put_in_place(record, *places[n])
        found.append(record)
    return found


_Row = tuple[
    int, str, str, int, str, int, int, str, str, int, int, int, int, int, int, int, str, str, str, int, int, int, int,
    int, str | None, str | None, str | None, str | None, int,
]  # fmt: skip


def job(row: Sequence[Any]) -> Job:
    """The record of a row of JOB_COLUMNS, which says so if it holds something else than it should."""
    (
        _, id, task, version, queue, priority, state, payload, meta, run, epoch, attempt, crashes, snoozes, max_crashes,
        cancel, worker, reason, fingerprint, enqueued_at, due_at, expires_at, started_at, finished_at, result, error,
        progress, terms, _,
    ) = msgspec.convert(row, _Row)  # fmt: skip
    return Job(
        id=id, task=task, version=version, queue=queue, priority=priority, state=STATES[state],
        payload=to_bytes(payload), meta=to_bytes(meta), run=run, epoch=epoch, attempt=attempt, crashes=crashes,
        snoozes=snoozes, max_crashes=max_crashes, cancel_requested=bool(cancel), worker=worker, reason=reason,
        fingerprint=fingerprint,
        enqueued_at=enqueued_at, due_at=due_at, expires_at=expires_at, started_at=started_at, finished_at=finished_at,
        result=maybe_bytes(result), error=maybe_bytes(error), progress=maybe_bytes(progress),
        terms=None if terms is None else decode(terms, type=Terms),
    )  # fmt: skip
