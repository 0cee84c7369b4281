"""The store's clock: it never runs backwards, never stands still, and survives jumps of the host's clock."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.store.base import Clock
from windlass.store.clock import tick
from windlass.store.memory.records import WorkerRow


class StoreClock:
    """``now()`` is the host's clock plus a shift that hides every step backwards."""

    def __init__(self, host: Clock) -> None:
        self.host, self.shift, self.last = host, 0, host()

    def now(self, workers: Iterable[WorkerRow]) -> int:
        shortest = min((row.presence.lease for row in workers), default=None)
        now, self.shift, gap = tick(self.host(), self.last, self.shift, shortest)
        if gap:
            self._extend(gap, workers)
        self.last = now
        return now

    def _extend(self, gap: int, workers: Iterable[WorkerRow]) -> None:
        """Everyone was paused, or the clock was set: nobody may be judged dead for not beating meanwhile."""
        for row in workers:
            if row.lease_until > self.last and gap > row.presence.lease / 2:
                row.lease_until += gap
