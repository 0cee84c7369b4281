"""Full queues: which of their ready jobs make room for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.core.job import NewJob
from windlass.store.machine.codes import FAILED, READY
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.jobs.rows import PRIORITY, STATE
from windlass.store.machine.tx import Tx, ids_json

BEHIND_ALL = 1 << 62
"""New jobs have no numbers yet: they come behind those that have one, in their order."""


class Old(NamedTuple):
    """A ready job, as old as its number."""

    priority: int
    n: int
    id: str
    task: str
    crashes: int
    max_crashes: int
    unique: str


class Room:
    """What makes room for the jobs of one batch."""

    def __init__(self, tx: Tx, jobs: Sequence[NewJob]) -> None:
        self.tx, self._jobs = tx, jobs
        self.dropped: list[EventRow] = []
        self.read: dict[str, list[Old]] = {}
        """By queue, as heaps: the ready jobs that may have to go."""
        self._gone: list[tuple[Old, list[Any]]] = []
        self._added = BEHIND_ALL

    @cached_property
    def queues(self) -> Counter[str]:
        """How many jobs each queue is to take in, at most."""
        return Counter(job.queue for job in self._jobs)

    def add(self, job: NewJob, row: list[Any]) -> None:
        """A new job is ready, and may have to make room itself."""
        heappush(self.read[job.queue], self._new(job, row))

    def _new(self, job: NewJob, row: list[Any]) -> Old:
        self._added += 1
        unique = "" if job.terms is None else job.terms.unique
        return Old(row[PRIORITY], self._added, job.id, job.task, 0, job.max_crashes, unique)

    def drop(self, queue: str, most: int, new: Sequence[tuple[NewJob, list[Any]]]) -> Old | None:
        """The oldest ready job of the lowest priority goes. ``new``: those that are not written yet."""
        if queue not in self.read:
            self.read[queue] = [Old(*row) for row in self.tx.all(self.tx.sql.room.OLDEST, (queue, self.queues[queue]))]
            self.read[queue] += [self._new(job, row) for job, row in new if job.queue == queue and row[STATE] == READY]
            heapify(self.read[queue])
        if not self.read[queue]:
            return None
        old = heappop(self.read[queue])
        error = lifecycle.dropped_error(queue, most).decode()
        row = [FAILED, 0, 0, lifecycle.DROPPED, error, "queue-full", old.crashes, old.max_crashes]
        self._gone.append((old, row))
        self.dropped.append([old.id, old.task, queue, {"reason": lifecycle.DROPPED}])
        return old

    def write(self) -> None:
        """All that was dropped since; new jobs among it are written by now."""
        gone, self._gone = self._gone, []
        self.read.clear()
        new = [old.id for old, _ in gone if old.n > BEHIND_ALL]
        numbers = dict(self.tx.all(self.tx.sql.room.NUMBERS, (ids_json(new),))) if new else {}
        shift(self.tx, [[numbers.get(old.id, old.n), *row] for old, row in gone])
