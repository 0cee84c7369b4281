"""The store's clock as a pure function of what the store remembers: never backwards, forgiving of jumps.

It reads no clock itself: the host's instant comes in as an argument.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.store.shared import CALM


class Tick(NamedTuple):
    """``gap``: by how much leases must be moved on, 0 when nothing unusual happened."""

    now: int
    shift: int
    gap: int


def tick(host: int, last: int, shift: int, shortest_lease: int | None) -> Tick:
    """The next instant after ``last``. ``shift`` hides the host's steps backwards; a jump forward eats it."""
    now = host + shift
    if now < last:
        return Tick(last, shift + last - now, 0)
    gap = now - last
    calm = CALM if shortest_lease is None else min(CALM, shortest_lease / 2)
    if gap <= calm:
        return Tick(now, shift, 0)
    eaten = min(shift, gap)
    return Tick(now - eaten, shift - eaten, gap - eaten)
