"""What time does to single jobs: due, and over."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from windlass.core import lifecycle
from windlass.store.machine.codes import CANCELLED, FAILED, READY
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx

SHIFT_READY = (READY, 0, 0, None, None, None)
DUE = (
    "SELECT n, queue, due_at, crashes, max_crashes FROM jobs WHERE state = 1 AND due_at <= ? ORDER BY due_at, n LIMIT ?"
)


class Promoted(NamedTuple):
    """``plain``: by queue, those that went into no lane."""

    plain: Counter[str]
    total: int


def promote(tx: Tx, limit: int) -> Promoted:
    """Due jobs become ready, in the order they were due."""
    promoted: Counter[str] = Counter()
    found = tx.all(DUE, (tx.now, limit))
    in_lanes = shift(tx, ([n, READY, due, 0, None, None, None, *crashes] for n, _, due, *crashes in found))
    promoted.update(queue for _, queue, *_ in found)
    return Promoted(promoted - in_lanes, len(found))


def expired_row(n: int, expire_to: int, crashes: int, max_crashes: int) -> list[Any]:
    """The shift of a job that was not started in time."""
    if expire_to == FAILED:
        error = lifecycle.expired_error().decode()
        return [n, FAILED, 0, 0, lifecycle.EXPIRED, error, "expired", crashes, max_crashes]
    return [n, CANCELLED, 0, 0, lifecycle.EXPIRED, None, None, crashes, max_crashes]


def expire(tx: Tx, limit: int) -> int:
    """End what is past its time and has not been started."""
    over = tx.all(
        "SELECT n, expire_to, crashes, max_crashes, id, task, queue FROM jobs "
        "WHERE expires_at > 0 AND state < 3 AND expires_at <= ? ORDER BY expires_at LIMIT ?", (tx.now, limit)
    )  # fmt: skip
    shift(tx, (expired_row(*row[:4]) for row in over))
    reason = {"reason": lifecycle.EXPIRED}
    tx.record("cancelled", "", [[*row[4:], reason] for row in over if row[1] != FAILED])
    tx.record("failed", "", [[*row[4:], reason] for row in over if row[1] == FAILED])
    return len(over)
