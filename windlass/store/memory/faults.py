"""Faults: the dead letters grouped by fingerprint. They are kept up as jobs fail and leave, so that counting reads no
record.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from windlass.core.job import State
from windlass.store.answers import MAX_BATCH
from windlass.store.memory.records import Row
from windlass.store.reads import Fault

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def enter(hub: Hub, row: Row) -> None:
    """Count a job that has failed."""
    insort(hub.faults.setdefault(row.fingerprint, []), (row.n, row.id))


def leave(hub: Hub, row: Row) -> None:
    """Stop counting a failed job, before it starts again or is deleted. A second call changes nothing."""
    letters = hub.faults.get(row.fingerprint) if row.state is State.FAILED else None
    if letters is None:
        return
    place = bisect_left(letters, (row.n, row.id))
    if place < len(letters) and letters[place] == (row.n, row.id):
        del letters[place]
        if not letters:
            del hub.faults[row.fingerprint]


def read(hub: Hub, limit: int) -> list[Fault]:
    found = sorted(hub.faults.items(), key=lambda fault: (len(fault[1]), fault[1][-1]), reverse=True)
    return [Fault(mark, len(letters), letters[-1][1]) for mark, letters in found[: min(limit, MAX_BATCH)]]
