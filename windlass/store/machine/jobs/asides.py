"""Jobs set aside because no worker that saw them declares their task: groups of (queue, task, version)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.store.machine.codes import FAILED
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Skills, Tx, Who, encode, ids_json


def declaring(queue: str, task: str, version: int) -> Who:
    """Workers that declare a group."""
    return partial(Skills.takes, queue=queue, task=task, version=version)


class Group(NamedTuple):
    queue: str
    task: str
    version: int


# Groups, found by jumping from one to the next in the index: all of them, or those of some queues.
ALL = """
WITH RECURSIVE found (n) AS (
    SELECT (SELECT n FROM jobs WHERE state = 2 AND hold = 1 ORDER BY queue, task, version LIMIT 1)
    UNION ALL
    SELECT (
        SELECT n FROM jobs WHERE state = 2 AND hold = 1 AND (queue, task, version) > (h.queue, h.task, h.version)
        ORDER BY queue, task, version LIMIT 1
    ) FROM found CROSS JOIN jobs AS h ON h.n = found.n
)
SELECT h.queue, h.task, h.version FROM found CROSS JOIN jobs AS h ON h.n = found.n ORDER BY 1, 2, 3
"""
OF_QUEUES = """
WITH RECURSIVE found (n) AS (
    SELECT (SELECT n FROM jobs WHERE state = 2 AND hold = 1 AND queue = value ORDER BY task, version LIMIT 1)
    FROM json_each(?)
    UNION ALL
    SELECT (
        SELECT n FROM jobs
        WHERE state = 2 AND hold = 1 AND queue = h.queue AND (task, version) > (h.task, h.version)
        ORDER BY task, version LIMIT 1
    ) FROM found CROSS JOIN jobs AS h ON h.n = found.n
)
SELECT h.queue, h.task, h.version FROM found CROSS JOIN jobs AS h ON h.n = found.n ORDER BY 1, 2, 3
"""


def groups(tx: Tx, queues: Iterable[str] | None = None) -> list[Group]:
    """All groups, or those of some queues."""
    return [Group(*row) for row in (tx.all(ALL) if queues is None else tx.all(OF_QUEUES, (ids_json(queues),)))]


UNDECLARE = "INSERT OR REPLACE INTO undeclared SELECT value ->> 0, value ->> 1, value ->> 2, ?2 FROM json_each(?1)"


def undeclare(tx: Tx, skills: Skills) -> None:
    """A worker goes: what it declared counts as unknown from now on, not from when it was set aside."""
    gone = [group for group in groups(tx, skills.queues) if skills.takes(*group)]
    if gone:
        tx.run(UNDECLARE, (encode(gone).decode(), tx.now))


def unknown(tx: Tx) -> list[tuple[Group, int]]:
    """The groups no live worker declares, each with the instant at which the last one that did went."""
    waiting = groups(tx)
    if not waiting:
        return []
    live = tx.all("SELECT n, mark FROM workers WHERE dead = 0 AND lease_until > ?", (tx.now,))
    skills = [tx.skills(n, mark) for n, mark in live]
    sql = "SELECT at FROM undeclared WHERE queue = ? AND task = ? AND version = ?"
    return [
        (group, tx.value(sql, group) or 0)
        for group in waiting
        if not any(group.queue in known.queues and known.takes(*group) for known in skills)
    ]


def next_parking(tx: Tx) -> int | None:
    """When the next job will have waited for a declaration for too long."""
    sql = (
        "SELECT aside_at FROM jobs WHERE state = 2 AND hold = 1 AND queue = ? AND task = ? AND version = ? "
        "ORDER BY place LIMIT 1"
    )
    times = [max(tx.value(sql, group), at) for group, at in unknown(tx)]
    return min(times) + tx.settings.unknown_after if times else None


def park(tx: Tx, limit: int) -> int:
    """Dead-letter what no live worker has declared for long enough."""
    before = tx.now - tx.settings.unknown_after
    parked: list[EventRow] = []
    for group, at in unknown(tx):
        if at > before:
            continue
        rows = tx.all(
            # The first ones have been waiting longest, give or take a priority: looking at more would not be bounded.
            "SELECT * FROM (SELECT n, id, crashes, max_crashes, aside_at FROM jobs WHERE state = 2 AND hold = 1 "
            "AND queue = ? AND task = ? AND version = ? ORDER BY place LIMIT ?) WHERE aside_at <= ?",
            (*group, limit - len(parked), before),
        )
        shift(tx, (_parked_row(tx, group, max(at, row[4]), row) for row in rows))
        parked += [[row[1], group.task, group.queue, {"reason": lifecycle.UNKNOWN}] for row in rows]
    tx.run(
        "DELETE FROM undeclared WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE state = 2 AND hold = 1 "
        "AND queue = undeclared.queue AND task = undeclared.task AND version = undeclared.version)"
    )
    tx.record("failed", "", parked)
    return len(parked)


def _parked_row(tx: Tx, group: Group, since: int, row: Sequence[Any]) -> list[Any]:
    n, _, crashes, most, _ = row
    error = lifecycle.unknown_error(group.task, group.version, tx.now - since).decode()
    return [n, FAILED, 0, 0, lifecycle.UNKNOWN, error, "unknown-task", crashes, most]
