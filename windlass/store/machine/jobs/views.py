"""A worker as the store knows it, and what it is told at every beat and every exchange."""

from __future__ import annotations

from typing import NamedTuple

from windlass.store.machine.flow.lanes import next_opening
from windlass.store.machine.tx import Tx
from windlass.store.skills import Skills


class WorkerRow(NamedTuple):
    """A worker as an exchange needs it."""

    n: int
    id: str
    seq: int
    dead: int
    mark: int
    refused: str


class View(NamedTuple):
    """What matters to a worker. ``alone``: it runs a job that runs alone. ``held``: jobs of its queues are out of the
    ready order. ``cancels``: JSON of ids."""

    due: int | None
    alone: int
    held: int
    cancels: str


def worker_row(tx: Tx, id: str) -> WorkerRow | None:
    row = tx.one(tx.sql.views.WORKER, (id,))
    return row and WorkerRow(*row)


def look(tx: Tx, worker: int, skills: Skills) -> View:
    return View(*tx.one(tx.sql.views.VIEW, (worker, skills.queues_json)))


def next_due(tx: Tx, view: View) -> int:
    """How long until time makes a job ready, or opens what keeps one."""
    due = view.due
    if tx.lanes or tx.gates:
        opens = next_opening(tx)
        due = opens if due is None or (opens is not None and opens < due) else due
    return -1 if due is None else max(0, due - tx.now)
