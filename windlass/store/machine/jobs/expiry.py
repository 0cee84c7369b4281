"""What time does to single jobs: due, and over."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from windlass.core import lifecycle
from windlass.store.machine.codes import CANCELLED, FAILED, READY
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx

SHIFT_READY = (READY, 0, 0, None, None, None)


class Promoted(NamedTuple):
    """``plain``: by queue, those that went into no lane."""

    plain: Counter[str]
    total: int


def promote(tx: Tx, limit: int) -> Promoted:
    """Due jobs become ready, in the order they were due."""
    promoted: Counter[str] = Counter()
    found = tx.all(tx.sql.expiry.DUE, (tx.now, limit))
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
    found = tx.all(tx.sql.expiry.EXPIRED, (tx.now, limit))
    shift(tx, (expired_row(*row[:4]) for row in found))
    reason = {"reason": lifecycle.EXPIRED}
    tx.record("cancelled", "", [[*row[4:], reason] for row in found if row[1] != FAILED])
    tx.record("failed", "", [[*row[4:], reason] for row in found if row[1] == FAILED])
    return len(found)
