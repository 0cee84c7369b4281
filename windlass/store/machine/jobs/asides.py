"""Jobs set aside because no worker that saw them declares their task: groups of (queue, task, version)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.store.machine.codes import FAILED
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx, Who, encode, ids_json
from windlass.store.skills import Skills


def declaring(queue: str, task: str, version: int) -> Who:
    """Workers that declare a group."""
    return partial(Skills.takes, queue=queue, task=task, version=version)


class Group(NamedTuple):
    queue: str
    task: str
    version: int


def groups(tx: Tx, queues: Iterable[str] | None = None) -> list[Group]:
    """All groups, or those of some queues."""
    sql = tx.sql.asides
    return [Group(*row) for row in (tx.all(sql.ALL) if queues is None else tx.all(sql.OF_QUEUES, (ids_json(queues),)))]


def undeclare(tx: Tx, skills: Skills) -> None:
    """A worker goes: what it declared counts as unknown from now on, not from when it was set aside."""
    gone = [group for group in groups(tx, skills.queues) if skills.takes(*group)]
    if gone:
        tx.run(tx.sql.asides.UNDECLARE, (encode(gone).decode(), tx.now))


def unknown(tx: Tx) -> list[tuple[Group, int]]:
    """The groups no live worker declares, each with the instant at which the last one that did went."""
    waiting = groups(tx)
    if not waiting:
        return []
    sql = tx.sql.asides
    skills = [tx.skills(n, mark) for n, mark in tx.all(sql.LIVE, (tx.now,))]
    return [
        (group, tx.value(sql.UNDECLARED_AT, group) or 0)
        for group in waiting
        if not any(group.queue in known.queues and known.takes(*group) for known in skills)
    ]


def next_parking(tx: Tx) -> int | None:
    """When the next job will have waited for a declaration for too long."""
    times = [max(tx.value(tx.sql.asides.FIRST, group), at) for group, at in unknown(tx)]
    return min(times) + tx.settings.unknown_after if times else None


def park(tx: Tx, limit: int) -> int:
    """Dead-letter what no live worker has declared for long enough."""
    before = tx.now - tx.settings.unknown_after
    parked: list[EventRow] = []
    for group, at in unknown(tx):
        if at > before:
            continue
        rows = tx.all(tx.sql.asides.STALE, (*group, limit - len(parked), before))
        shift(tx, (_parked_row(tx, group, max(at, row[4]), row) for row in rows))
        parked += [[row[1], group.task, group.queue, {"reason": lifecycle.UNKNOWN}] for row in rows]
    tx.run(tx.sql.asides.FORGET)
    tx.record("failed", "", parked)
    return len(parked)


def _parked_row(tx: Tx, group: Group, since: int, row: Sequence[Any]) -> list[Any]:
    n, _, crashes, most, _ = row
    error = lifecycle.unknown_error(group.task, group.version, tx.now - since).decode()
    return [n, FAILED, 0, 0, lifecycle.UNKNOWN, error, "unknown-task", crashes, most]
