"""Objects that each event loop has of its own: connections and tasks belong to the loop they were made on, and several
loops may serve one application (threads of a WSGI server, tests).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes an object for each loop that asks. The object of a closed loop goes when another loop asks."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made = {known: made for known, made in self._made.items() if not known.is_closed()}
            self._made[loop] = self._make()
        return self._made[loop]
