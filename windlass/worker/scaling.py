"""How many worker processes there should be: ``scale`` decides, ``Autoscaler`` remembers since when the load is as it
is.

Pure: time is an argument, and nothing here starts or stops a process.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

# A process is given up only if the others would then be half idle, or it would be wanted back in the next second.
_SLACK = 0.5


class Load(msgspec.Struct, frozen=True):
    """What a worker process says about its load; ``waiting`` is True if jobs are ready that it has no room for."""

    running: int = 0
    slots: int = 1
    waiting: bool = False


def saturated(loads: Sequence[Load]) -> bool:
    """Whether every process is full and jobs are waiting."""
    return bool(loads) and all(load.running >= load.slots for load in loads) and any(load.waiting for load in loads)


def slack(loads: Sequence[Load]) -> bool:
    """Whether the running jobs would fit easily into one process less."""
    spare = sum(load.slots for load in loads) - max((load.slots for load in loads), default=0)
    return not any(load.waiting for load in loads) and sum(load.running for load in loads) <= spare * _SLACK


def scale(
    loads: Sequence[Load], current: int, low: int, high: int, *,
    saturated_for: float, slack_for: float, up_after: float, down_after: float,
) -> int:  # fmt: skip
    """How many processes there should be, at most one more or less than now, always within ``low`` and ``high``."""
    if not low <= current <= high:
        return min(max(current, low), high)
    if current < high and saturated(loads) and saturated_for >= up_after:
        return current + 1
    if current > low and slack(loads) and slack_for >= down_after:
        return current - 1
    return current


class Autoscaler:
    """Remembers how long the processes have been full or slack; a change of their number starts both anew."""

    def __init__(self, bounds: tuple[int, int], up_after: float, down_after: float) -> None:
        self.low, self.high = max(1, min(bounds)), max(1, *bounds)
        self._up_after = up_after
        self._down_after = down_after
        self._saturated_since: float | None = None
        self._slack_since: float | None = None

    def decide(self, loads: Sequence[Load], current: int, now: float) -> int:
        """The number wanted now. Nothing is decided until every process has reported its load."""
        if len(loads) < current:
            self._saturated_since = self._slack_since = None
            return current
        self._saturated_since = _since(self._saturated_since, saturated(loads), now)
        self._slack_since = _since(self._slack_since, slack(loads), now)
        wanted = scale(
            loads, current, self.low, self.high, saturated_for=_age(self._saturated_since, now),
            slack_for=_age(self._slack_since, now), up_after=self._up_after, down_after=self._down_after,
        )  # fmt: skip
        if wanted != current:
            self._saturated_since = self._slack_since = None
        return wanted


def _since(start: float | None, holds: bool, now: float) -> float | None:
    if not holds:
        return None
    return now if start is None else start


def _age(since: float | None, now: float) -> float:
    return 0.0 if since is None else now - since
