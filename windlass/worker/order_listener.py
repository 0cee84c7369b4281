"""Receives what operators order this worker to do. The worker itself acts on the orders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from windlass.core.job import Finished
from windlass.errors import StoreError
from windlass.operate.orders import Given, ear, read, read_queues
from windlass.store.base import Store
from windlass.support.logs import Steady

log = Steady(logging.getLogger("windlass.worker"))

AGAIN = 1.0
"""Seconds until an order that could not be read is asked for again."""


class OrderListener:
    """Reads an order when a signal announces one, and hands each on once."""

    def __init__(self, store: Store, obey: Callable[[Given], None], serve: Callable[[dict[str, bool]], None]) -> None:
        self._store, self._obey, self._serve = store, obey, serve
        self._worker = ""
        self._last: Given | None = None
        self._queues: dict[str, bool] = {}
        self._signalled = asyncio.Event()

    async def listen(self, worker: str) -> None:
        """Listen for orders to this id; the id before it gets none any more."""
        await self.leave()
        await self._store.listen(ear(worker), self._on_signal)
        self._worker = worker
        self._signalled.set()  # an order may have been written before the listener started

    async def leave(self) -> None:
        if self._worker:
            worker, self._worker = self._worker, ""
            await self._store.unlisten(ear(worker))

    async def run(self) -> None:
        while True:
            await self._signalled.wait()
            self._signalled.clear()
            try:
                given = await read(self._store, self._worker)
                queues = self._queues | await read_queues(self._store, self._worker)
            except StoreError as error:
                log.warning("cannot read what this worker is ordered to do, will try again: %s", error)
                await asyncio.sleep(AGAIN)
                self._signalled.set()
                continue
            if queues != self._queues:
                self._queues = queues
                self._serve(queues)
            if given is not None and given != self._last:
                self._last = given
                self._obey(given)

    def _on_signal(self, items: list[Finished]) -> None:
        self._signalled.set()
