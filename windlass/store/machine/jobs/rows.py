"""Jobs as rows: what new ones are written as, and how they are read back."""

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

VERSION, PRIORITY, PAYLOAD, META, STATE, PLACE, DUE = 2, 4, 5, 6, 7, 8, 9
NODE, HOLD, NUMBER, LANE_NAME, TERMS = 16, 17, 18, 19, 20
"""Where what is in a row of ADMIT (``IntakeSql``). The rows of ACCEPT end before NODE."""


def with_terms(tx: Tx, row: list[Any], terms: Terms | None, node: int = 0) -> str:
    """Make a row of ACCEPT one of ADMIT; the lane it is in, empty for none."""
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
    found = {job.id: job for job in jobs_of(tx, tx.all(tx.sql.rows.BY_ID, (ids_json(ids),)))}
    missing = [id for id in ids if id not in found]
    if missing and tx.graphs:
        found.update((job.id, job) for job in unaccepted(tx, missing))
    return [found.get(id) for id in ids]


def jobs_of(tx: Tx, rows: list[Any]) -> list[Job]:
    """The jobs that rows of RowSql say, with their places in graphs."""
    jobs = [job(row) for row in rows]
    nodes = [row[-1] for row in rows if row[-1]]
    if nodes:
        places = {n: place for n, *place in tx.all(tx.sql.rows.PLACES, (ids_json(nodes),))}
        for row, record in zip(rows, jobs, strict=True):
            if row[-1] in places:
                put_in_place(record, *places[row[-1]])
    return jobs


_ins = msgspec.json.Decoder(list[In]).decode
_outs = msgspec.json.Decoder(list[Out]).decode


def put_in_place(
    record: Job, graph: str, spare: int, shape: int, aftermath: int, ins: str, outs: str, awaits: str, replaced: int
) -> None:
    record.awaits, record.replaced = awaits, bool(replaced)
    if graph:
        record.graph = graph
        record.links = Links(_ins(ins), _outs(outs), spare, Shape(shape), bool(aftermath))


def unaccepted(tx: Tx, ids: Sequence[str]) -> list[Job]:
    """Nodes that are no jobs: joins, and jobs whose turn to be accepted has not come yet."""
    rows = tx.all(tx.sql.rows.UNACCEPTED, (ids_json(ids),))
    places = {n: place for n, *place in tx.all(tx.sql.rows.PLACES, (ids_json(row[0] for row in rows),))}
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
    """The job that a row says: ValueError if it holds something else than it should."""
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
