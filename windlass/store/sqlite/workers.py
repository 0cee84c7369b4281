"""Workers' lives: presence, leases, what they note about running jobs, and how they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.event import Row as EventRow
from windlass.core.job import Fence
from windlass.core.terms import queue_gate
from windlass.store.jobs import BeatReply, Note, Presence
from windlass.store.machine.codes import to_text
from windlass.store.machine.flow.book import OPEN
from windlass.store.machine.graphs.todos import work_off
from windlass.store.machine.jobs.asides import groups, undeclare
from windlass.store.machine.jobs.recovery import bury, recover
from windlass.store.machine.tx import Memo, Skills, Tx, decode, encode, ids_json
from windlass.store.reads import WorkerInfo
from windlass.store.sqlite.exchange import look, next_due, worker_row
from windlass.store.sqlite.sweeps import next_check


def beat(tx: Tx, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
    row = tx.one("SELECT n, dead, lease_until, mark FROM workers WHERE id = ?", (presence.id,))
    if row is not None and (row[1] or row[2] <= tx.now):
        # Judged lost: its jobs may be elsewhere by now, so it must not go on under this name.
        tx.run("UPDATE workers SET dead = 1 WHERE n = ?", (row[0],))
        return BeatReply(gone=True, lost=list(held))
    if row is None and acked_seq:
        return BeatReply(gone=True, lost=list(held))  # buried, with the number of its last exchange
    mark = Memo.mark(presence)
    skills = tx.memo.skills.get(mark) or tx.memo.remember(mark, presence)
    n: int = _register(tx, presence, mark) if row is None else _renew(tx, row[0], presence, mark, row[3])
    running = tx.all("SELECT n, id, seq FROM jobs WHERE state = 3 AND worker = ?", (n,))
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
        "INSERT INTO workers (id, lease, lease_until, beat_at, mark) VALUES (?, ?, ?, ?, ?) RETURNING n",
        (presence.id, presence.lease, tx.now + presence.lease, tx.now, mark),
    )
    tx.run("INSERT OR REPLACE INTO presences VALUES (?, ?)", (n, encode(presence).decode()))
    tx.record("worker_up", presence.id, [[""]])
    return n


def _renew(tx: Tx, n: int, presence: Presence, mark: int, before: int) -> int:
    if mark != before:
        undeclare(tx, tx.skills(n, before))
    tx.run(
        "UPDATE workers SET lease = ?, lease_until = ?, beat_at = ?, mark = ? WHERE n = ?",
        (presence.lease, tx.now + presence.lease, tx.now, mark, n),
    )
    tx.run("UPDATE presences SET body = ? WHERE worker = ?", (encode(presence).decode(), n))
    return n


def has_work(tx: Tx, skills: Skills) -> bool:
    """Whether its queues hold a job in ready order or in an open lane, one that runs alone, or one set aside that it
    declares, and may give it."""
    for queue, hold, lane in tx.all(HAS_WORK, (skills.queues_json,)):
        if tx.gates and tx.book.opens(queue_gate(queue), 1) != OPEN:
            continue
        if hold or lane or any(skills.takes(*group) for group in groups(tx, [queue])):
            return True
    return False


HAS_WORK = """
SELECT q.value, EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = q.value AND hold IN (0, 2)),
    EXISTS (SELECT 1 FROM lanes WHERE queue = q.value AND state = 0)
FROM json_each(?) AS q WHERE EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND queue = q.value)
"""


def leave(tx: Tx, worker: str, crashed: bool) -> None:
    row = worker_row(tx, worker)
    if row is not None:
        tx.run("UPDATE workers SET dead = 1 WHERE n = ?", (row.n,))
        bury(tx, row.n, worker, row.mark, crashed, -1)
        work_off(tx)


def note(tx: Tx, worker: str, notes: Sequence[Note]) -> list[str]:
    row = worker_row(tx, worker)
    found: dict[str, Any] = {}
    if row is not None and not row.dead:
        sql = (
            "SELECT id, run, epoch, seq, n, task, queue, logged FROM jobs WHERE state = 3 AND worker = ? "
            "AND id IN (SELECT value FROM json_each(?))"
        )
        found = {job[0]: job for job in tx.all(sql, (row.n, ids_json(note.id for note in notes)))}
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
            tx.run("UPDATE jobs SET progress = ? WHERE n = ?", (to_text(note.progress), job[4]))
            progress.append([*event, decode(note.progress)])
        if note.logs:
            lines.extend([*event, [level, text]] for level, text in note.logs)
            logged[note.id] = _log(tx, job[4], logged.get(note.id, job[7]), note.logs)
    tx.record("progress", worker, progress)
    tx.record("log", worker, lines)
    return refused


def _log(tx: Tx, job: int, start: int, lines: list[tuple[str, str]]) -> int:
    """Add lines and keep the newest; the number of the next one."""
    end = start + len(lines)
    tx.run(
        "INSERT INTO lines SELECT ?1, ?2 + key, ?3, value ->> 0, value ->> 1 FROM json_each(?4)",
        (job, start, tx.now, encode(lines).decode()),
    )
    tx.run("DELETE FROM lines WHERE job = ? AND i < ?", (job, end - tx.settings.logs_kept))
    tx.run("UPDATE jobs SET logged = ? WHERE n = ?", (end, job))
    return end


def workers(tx: Tx) -> list[WorkerInfo]:
    rows = tx.all(
        "SELECT p.body, w.beat_at, w.dead, w.lease, w.lease_until, w.idle, "
        "(SELECT count(*) FROM jobs WHERE state = 3 AND worker = w.n) "
        "FROM workers AS w JOIN presences AS p ON p.worker = w.n ORDER BY w.n"
    )
    return [
        WorkerInfo(
            presence=decode(body, type=Presence), beat_age=tx.now - beat_at, running=running, idle=bool(idle),
            alive=not dead and _lease_end(tx, lease, until) > tx.now,
        )
        for body, beat_at, dead, lease, until, idle, running in rows
    ]  # fmt: skip


def _lease_end(tx: Tx, lease: int, until: int) -> int:
    """With the extension the next write would give it."""
    return until + tx.tick.gap if until > tx.last and tx.tick.gap > lease / 2 else until
