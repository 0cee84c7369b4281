"""The part of the contract about what holds jobs up: gates, lanes and unique keys."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from windlass.core.limits import NO_LIMITS, Limits, in_force


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """A change to one gate; what is UNSET stays as it is.

    ``expect``: only if the gate has this version (0: it does not exist), -1: whatever it is. ``declared`` is what the
    code says, ``tuned`` what an operator says. ``closed_for``: closed to all for so long from now (ms); 0 opens it.
    ``note``: bytes for whoever tunes it.
    """

    name: str
    expect: int = -1
    declared: Limits | msgspec.UnsetType = msgspec.UNSET
    tuned: Limits | msgspec.UnsetType = msgspec.UNSET
    closed_for: int | msgspec.UnsetType = msgspec.UNSET
    note: bytes | msgspec.UnsetType = msgspec.UNSET


class GateInfo(msgspec.Struct, kw_only=True):
    """A gate. ``version`` 0: it does not exist, nothing is limited. ``changed``: the tuning it answers was done.

    ``held``: units of the running jobs it concerns, counted only while it has a limit. ``waiting``: lanes that wait at
    it. ``opens_in``: ms until its rate, or the end of ``closed_for``, lets one unit through; 0 when it would now.
    """

    name: str
    version: int = 0
    declared: Limits = NO_LIMITS
    tuned: Limits = NO_LIMITS
    closed_for: int = 0
    note: bytes = b""
    held: int = 0
    waiting: int = 0
    opens_in: int = 0
    changed: bool = False

    @property
    def limits(self) -> Limits:
        """What holds."""
        return in_force(self.tuned, self.declared)


class HoldKind(StrEnum):
    """Why a job is not in the ready order of its queue, though nothing else is in its way."""

    LANE = "lane"
    ASIDE = "aside"
    SOLO = "solo"
    SUCCESSOR = "successor"


class Hold(msgspec.Struct, kw_only=True):
    """What keeps a job that is ready, or that waits for the holder of its unique key.

    ``lane``: its lane. ``gate``: where that waits, empty while it is open; a key's own gate is ``key:QUEUE:KEY``.
    ``holder``: the job that has the lane or the key. ``missing``: the number a resequenced lane waits for, 0 for none.
    ``opens_in``: ms until time opens it, -1 when something else must happen. ``ahead``: jobs before it in its lane.
    """

    kind: HoldKind
    lane: str = ""
    gate: str = ""
    holder: str = ""
    missing: int = 0
    opens_in: int = -1
    ahead: int = 0


class UniqueInfo(msgspec.Struct, kw_only=True):
    """Who has a unique key: ``holder`` (over already, while its window lasts: ``window`` ms) and its successor."""

    holder: str
    successor: str = ""
    window: int = 0


class Flow(Protocol):
    """What holds jobs up: gates, lanes and unique keys."""

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        """Change gates: limits, pauses, closures. One answer per tuning, the gate as it is now."""

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        """The gates of these names, or all there are."""

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        """What keeps each of these jobs out of the ready order, None where nothing does."""

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        """Who has these unique keys."""
