"""What an event loop has of its own: connections and tasks belong to the loop they were made on, and one application
may be served by several (threads of a WSGI server, tests).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes one for each loop that asks. What was of a loop that is closed goes when another one asks."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made = {known: made for known, made in self._made.items() if not known.is_closed()}
            self._made[loop] = self._make()
        return self._made[loop]
