"""What workers note of the jobs they run: progress and log lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.event import Row as EventRow
from windlass.core.job import Fence, LogLine
from windlass.store.jobs import Note
from windlass.store.machine.codes import to_text
from windlass.store.machine.jobs.views import worker_row
from windlass.store.machine.tx import Tx, decode, encode, ids_json


def note(tx: Tx, worker: str, notes: Sequence[Note]) -> list[str]:
    """Write down what a worker says of jobs it has; the ids of those that it has not."""
    row = worker_row(tx, worker)
    found: dict[str, Any] = {}
    if row is not None and not row.dead:
        ids = ids_json(note.id for note in notes)
        found = {job[0]: job for job in tx.all(tx.sql.notes.FENCES, (row.n, ids))}
    refused: list[str] = []
    progress: list[EventRow] = []
    lines: list[EventRow] = []
    logged: dict[str, int] = {}
    for note in notes:
        job = found.get(note.id)
        if job is None or Fence(*job[1:4]) != note.fence:
            refused.append(note.id)
            continue
        event: EventRow = [note.id, job[5], job[6]]
        if note.progress is not None:
            tx.run(tx.sql.notes.PROGRESS, (to_text(note.progress), job[4]))
            progress.append([*event, decode(note.progress)])
        if note.logs:
            lines.extend([*event, [level, text]] for level, text in note.logs)
            logged[note.id] = _log(tx, job[4], logged.get(note.id, job[7]), note.logs)
    tx.record("progress", worker, progress)
    tx.record("log", worker, lines)
    return refused


def _log(tx: Tx, job: int, start: int, lines: list[tuple[str, str]]) -> int:
    """Add lines and keep the newest; the number of the next one."""
    sql, end = tx.sql.notes, start + len(lines)
    tx.run(sql.ADD_LINES, (job, start, tx.now, encode(lines).decode()))
    tx.run(sql.CUT_LINES, (job, end - tx.settings.logs_kept))
    tx.run(sql.LOGGED, (end, job))
    return end


def lines(tx: Tx, id: str, after: int, limit: int) -> list[LogLine]:
    rows = msgspec.convert(tx.all(tx.sql.notes.LINES, (id, after, limit)), list[tuple[int, int, str, str]])
    return [LogLine(*row) for row in rows]
