"""What the tabs and processes of one app share: reads of the same thing within a moment are one read.

It is kept per app and forgotten with it. Nothing here outlives a second or two but what cannot change any more.
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
    """Answers of late by name. Who asks while the same is being read waits for that one."""

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
        # Shielded: one who goes away takes nothing from those who still wait.
        return cast(T, await asyncio.shield(flight))

    async def _read(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        changes = self._changes
        try:
            answer = await read()
            if changes == self._changes:  # else it may be older than the change
                self._kept[name] = time.monotonic(), answer
            return answer
        finally:
            self._flights.pop((id(asyncio.get_running_loop()), name), None)

    def forget(self) -> None:
        """Something was changed: the next read sees it."""
        self._changes += 1
        self._kept.clear()
        self._flights.clear()


def _heard(flight: asyncio.Task[Any]) -> None:
    """All who waited may have gone away: then an error is nobody's, and asyncio need not complain of it."""
    if not flight.cancelled():
        flight.exception()


_of_apps: WeakKeyDictionary[Windlass, RecentReads] = WeakKeyDictionary()


def shared_of(app: Windlass) -> RecentReads:
    return _of_apps.setdefault(app, RecentReads())
