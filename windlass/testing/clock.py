"""A clock for tests: it stands still until it is moved. It moves no job; that is what ``Harness.advance`` is for."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from windlass.core.duration import Duration, instant_ms, to_ms


class VirtualClock:
    """Starts at the real time, or at ``start``, and passes for a store's clock: calling it gives milliseconds."""

    def __init__(self, start: datetime | None = None) -> None:
        self.ms = instant_ms(start, "start") if start else time.time_ns() // 1_000_000

    def __call__(self) -> int:
        return self.ms

    def now(self) -> datetime:
        """The clock's time, in UTC."""
        return datetime.fromtimestamp(self.ms / 1000, UTC)

    def advance(self, by: Duration) -> None:
        """Move on by a duration such as ``"10m"``."""
        self.ms += to_ms(by, "advance")

    def set(self, to: datetime) -> None:
        """Move to an instant, also to an earlier one: stores must bear a host clock that is set back."""
        self.ms = instant_ms(to, "set")
