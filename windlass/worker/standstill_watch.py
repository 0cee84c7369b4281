"""Finds what stands still: queues whose jobs no worker does, schedules that no worker fires. The notifier asks it at
intervals.

It remembers only since when a queue has done nothing; whether that is told is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.health import QueueFacts
from windlass.core.schedule import GONE
from windlass.core.terms import queue_gate
from windlass.operate.standing import facts_of
from windlass.operate.timetable import read_all
from windlass.store.base import Store

_PROGRESS = frozenset(("started", "succeeded", "failed", "retried", "snoozed", "cancelled", "waiting"))


class StandstillWatch:
    """Measures by the host's clock, of which only differences count."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock
        self._moved: dict[str, tuple[int, int]] = {}

    async def queues(self) -> dict[str, QueueFacts]:
        """Every queue with jobs, as it is now."""
        queues, workers = await self._store.queues(), await self._store.workers()
        gates = {gate.name: gate for gate in await self._store.gates([queue_gate(queue.name) for queue in queues])}
        quiet = await self._quiet()
        return {
            queue.name: facts_of(queue, workers, gates.get(queue_gate(queue.name)), quiet.get(queue.name, 0))
            for queue in queues
        }

    async def gone(self) -> list[str]:
        """The schedules that are paused because no live worker declares them any more."""
        return [row.name for row in await read_all(self._store) if row.paused == GONE]

    async def _quiet(self) -> dict[str, int]:
        """How long each queue has done nothing, as far back as this has looked."""
        now, counts = self._clock(), dict[str, int]()
        for total in await self._store.totals():
            counts[total.queue] = counts.get(total.queue, 0) + (total.count if total.kind in _PROGRESS else 0)
        before = self._moved
        self._moved = {
            queue: before[queue] if before.get(queue, (-1, 0))[0] == count else (count, now)
            for queue, count in counts.items()
        }
        return {queue: now - since for queue, (_, since) in self._moved.items()}
