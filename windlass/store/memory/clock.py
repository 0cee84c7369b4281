"""The store's clock: never backwards, never standing still, and forgiving of jumps."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.store.base import Clock
from windlass.store.memory.records import WorkerRow
from windlass.store.shared import CALM


class StoreClock:
    """``now()`` is the host's clock plus an offset that hides every step backwards."""

    def __init__(self, host: Clock) -> None:
        self.host, self.offset, self.last = host, 0, host()

    def now(self, workers: Iterable[WorkerRow]) -> int:
        now = self.host() + self.offset
        if now < self.last:
            self.offset += self.last - now
            return self.last
        gap = now - self.last
        if gap > CALM or any(gap > row.presence.lease / 2 for row in workers):
            now = self._jumped(now, gap, workers)
        self.last = now
        return now

    def _jumped(self, now: int, gap: int, workers: Iterable[WorkerRow]) -> int:
        eaten = min(self.offset, gap)
        self.offset -= eaten
        now, gap = now - eaten, gap - eaten
        for row in workers:
            # Everyone was paused, or the clock was set: nobody may be judged dead for not beating meanwhile.
            if row.lease_until > self.last and gap > row.presence.lease / 2:
                row.lease_until += gap
        return now
