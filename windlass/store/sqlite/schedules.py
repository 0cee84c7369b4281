"""Schedules: rows whose slot is moved on and turned into jobs in one step, once. Nobody looks into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.errors import StoreError
from windlass.store.base import MAX_BATCH, Answer, Fire, Fired, PutSchedule, Schedule, SchedulePage
from windlass.store.sqlite.intake import insert
from windlass.store.sqlite.tx import Tx, ids_json

COLUMNS = "name, body, next_slot, paused, version, fired, last_slot, last_at, last_job"
NAMED = f"SELECT {COLUMNS} FROM schedules WHERE name IN (SELECT value FROM json_each(?)) ORDER BY name"
PAGE = f"SELECT {COLUMNS} FROM schedules WHERE name > ? ORDER BY name LIMIT ?"
PUT = (
    "INSERT INTO schedules (name, version, next_slot, paused, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET version = excluded.version, next_slot = excluded.next_slot, paused = excluded.paused, "
    "body = excluded.body"
)
FIRED = "UPDATE schedules SET next_slot = ?, fired = ?, last_slot = ?, last_at = ?, last_job = ? WHERE name = ?"


_Row = tuple[str, bytes, int, str, int, int, int, int, str]


def _row(values: Sequence[Any]) -> Schedule:
    name, body, next_slot, paused, version, fired, last_slot, last_at, last_job = msgspec.convert(values, _Row)
    return Schedule(
        name=name, body=body, next_slot=next_slot, paused=paused, version=version, fired=fired, last_slot=last_slot,
        last_at=last_at, last_job=last_job,
    )  # fmt: skip


def _named(tx: Tx, names: Sequence[str]) -> dict[str, Schedule]:
    return {row[0]: _row(row) for row in tx.all(NAMED, (ids_json(names),))}


def put_schedules(tx: Tx, puts: Sequence[PutSchedule]) -> list[Schedule | None]:
    rows: list[Schedule | None] = []
    for put in puts:
        known = _named(tx, [put.name]).get(put.name)
        if put.expect not in (-1, known.version if known else 0):
            rows.append(None)
            continue
        tx.run(PUT, (put.name, tx.take_ranks(1), put.next_slot, put.paused, put.body))
        rows.append(_named(tx, [put.name])[put.name])
    if any(rows):
        tx.schedules += 1
        tx.wake_any()
    return rows


def drop_schedules(tx: Tx, names: Sequence[str]) -> list[bool]:
    dropped = [bool(tx.value("DELETE FROM schedules WHERE name = ? RETURNING 1", (name,))) for name in names]
    if any(dropped):
        tx.schedules += 1
        tx.wake_any()
    return dropped


def schedules(tx: Tx, names: Sequence[str], after: str, limit: int) -> SchedulePage:
    if names:
        return SchedulePage(list(_named(tx, names).values()), "", tx.schedules, tx.now)
    limit = min(limit, MAX_BATCH)
    rows = [_row(row) for row in tx.all(PAGE, (after, limit + 1))]
    cursor = rows[limit - 1].name if len(rows) > limit else ""
    return SchedulePage(rows[:limit], cursor, tx.schedules, tx.now)


def fire(tx: Tx, fires: Sequence[Fire]) -> list[Fired]:
    if len(fires) > MAX_BATCH or sum(len(one.jobs) for one in fires) > MAX_BATCH:
        raise StoreError(f"at most {MAX_BATCH} schedules and {MAX_BATCH} jobs are fired in one call")
    rows = _named(tx, [one.name for one in fires])
    due: list[bool] = []
    for one in fires:
        row = rows.get(one.name)
        due.append(row is not None and (row.version, row.next_slot) == (one.version, one.slot) and not row.paused)
        if row is not None and due[-1]:
            row.next_slot = one.next_slot  # from here on that slot is the one that may follow
    jobs = [job for one, is_due in zip(fires, due, strict=True) if is_due for job in one.jobs]
    answers = iter(insert(tx, jobs, pressed=False))
    fired = []
    for one, is_due in zip(fires, due, strict=True):
        row = rows.get(one.name)
        if row is None or not is_due:
            fired.append(Fired(done=False, row=row and msgspec.structs.replace(row)))
            continue
        done = Fired(done=True, answers=[next(answers) for _ in one.jobs])
        _write(tx, one, row, done.answers)
        done.row = msgspec.structs.replace(row)
        fired.append(done)
    if any(due):
        tx.schedules += 1
    return fired


def _write(tx: Tx, one: Fire, row: Schedule, answers: Sequence[Answer]) -> None:
    row.fired += len(one.jobs)
    row.next_slot, row.last_slot, row.last_at = one.next_slot, one.slot, tx.now
    task = queue = ""
    if one.jobs:
        first = one.jobs[0]
        row.last_job, task, queue = answers[0].holder or first.id, first.task, first.queue
    tx.run(FIRED, (row.next_slot, row.fired, row.last_slot, row.last_at, row.last_job, row.name))
    data = {"slot": one.slot, "jobs": [job.id for job in one.jobs]}
    tx.record("schedule_fired", one.worker, [[one.name, task, queue, data]])
