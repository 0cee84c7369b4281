"""Reads that the tabs and requests of one app share: the same read, asked for again within a moment, is done once.

The answers are kept per app and go with it. Nothing here is kept longer than a second or two, unless it can no longer
change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from windlass.app import Windlass

T = TypeVar("T")

FRESH = 1.0
"""So many seconds a read is shared."""


class RecentReads:
    """Recent answers by name. A caller that asks while the same is being read waits for that read."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, Any]] = {}
        self._flights: dict[tuple[int, str], asyncio.Task[Any]] = {}
        self._changes = 0
        self.lasting: dict[str, Any] = {}

    async def ask(self, name: str, read: Callable[[], Awaitable[T]], seconds: float = FRESH) -> T:
        kept = self._kept.get(name)
        if kept is not None and time.monotonic() - kept[0] < seconds:
            return cast(T, kept[1])
        loop = asyncio.get_running_loop()
        flight = self._flights.get((id(loop), name))
        if flight is None or flight.done() or flight.get_loop() is not loop:
            flight = self._flights[id(loop), name] = loop.create_task(self._read(name, read))
            flight.add_done_callback(_heard)
        # Shielded: a caller that goes away does not end the read for those who still wait.
        return cast(T, await asyncio.shield(flight))

    async def _read(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        changes = self._changes
        try:
            answer = await read()
            if changes == self._changes:  # otherwise the answer may be older than a change
                self._kept[name] = time.monotonic(), answer
            return answer
        finally:
            self._flights.pop((id(asyncio.get_running_loop()), name), None)

    def forget(self) -> None:
        """Forget all answers after a change, so that the next read sees it."""
        self._changes += 1
        self._kept.clear()
        self._flights.clear()


def _heard(flight: asyncio.Task[Any]) -> None:
    """Mark the error as retrieved: if all callers have gone away, asyncio need not report it."""
    if not flight.cancelled():
        flight.exception()


_of_apps: WeakKeyDictionary[Windlass, RecentReads] = WeakKeyDictionary()


def shared_of(app: Windlass) -> RecentReads:
    return _of_apps.setdefault(app, RecentReads())
