"""One timer for all timeouts of a worker: thousands of jobs with timeouts cost the loop one callback."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count

from windlass.support.logs import Steady

log = Steady(logging.getLogger("windlass.worker"))


class Timers:
    """Calls back at an instant, unless the owner is over by then (``alive``): then the entry is dropped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Callable[[], None], Callable[[], bool]]] = []
        self._number = count()
        self._handle: asyncio.Handle | None = None
        self._armed_for = 0.0  # kept here, as a handle of uvloop whose time is past does not tell it

    def after(self, seconds: float, callback: Callable[[], None], alive: Callable[[], bool]) -> None:
        heapq.heappush(self._heap, (self._loop.time() + seconds, next(self._number), callback, alive))
        self._arm()

    def _arm(self) -> None:
        # Drop entries of ended jobs from the front, so that the heap does not outgrow the work.
        while self._heap and not self._heap[0][3]():
            heapq.heappop(self._heap)
        if not self._heap:
            return
        when = self._heap[0][0]
        if self._handle is None or when < self._armed_for:
            if self._handle is not None:
                self._handle.cancel()
            self._armed_for = when
            self._handle = self._loop.call_at(when, self._fire)

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            _, _, callback, alive = heapq.heappop(self._heap)
            if alive():
                try:
                    callback()
                except Exception:  # the timeouts of all other jobs depend on this callback
                    log.exception("a timer failed")
        self._arm()

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._heap.clear()
