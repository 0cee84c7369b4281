"""Writes what the tracker counted to the store's shelves, at intervals and at the stop.

A sheet is written whole, over its last version, under a name no other process uses: a sheet sent twice counts once.
Jobs never wait for this. A store that is away is logged once and tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time

from windlass.core.chart import KEPT, MINUTE, encode_sheet, sheet_key
from windlass.errors import StoreError
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.support.logs import Steady
from windlass.worker.tracker import OpenSheet, Tracker

log = Steady(logging.getLogger("windlass.worker"))

EVERY = 5.0
MOST = 300
"""So many sheets wait at most for a store that is away; the oldest go first."""


class SheetWriter:
    """``worker``: the name of this worker's sheets. It stays the same when the store gives the worker another id."""

    def __init__(self, store: Store, tracker: Tracker, worker: str) -> None:
        self._store, self._tracker, self._worker = store, tracker, worker
        self._due: dict[tuple[str, int], OpenSheet] = {}
        self._failing = False

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self.write()
            await asyncio.sleep(_pause(time.time()))

    async def write(self) -> None:
        """Write the sheets that have changed."""
        self._due.update({(slot.shelf, slot.at): slot for slot in self._tracker.fold(int(time.time() * 1000))})
        for name in list(self._due)[:-MOST]:
            del self._due[name]
        slots = [slot for slot in self._due.values() if slot.dirty]
        if not slots:
            return
        items = [self._item(slot) for slot in slots]
        try:
            await put_all(self._store, items)
        except StoreError as error:
            if not self._failing:
                log.warning("the charts cannot be written, will go on trying: %s", error)
            self._failing = True
            return
        self._failing = False
        self._due.clear()
        for slot in slots:
            slot.dirty = False

    def _item(self, slot: OpenSheet) -> Put:
        key = sheet_key(slot.at, self._worker)
        return Put(shelf=slot.shelf, key=key, body=encode_sheet(slot.sheet()), ttl=KEPT[slot.shelf])


def _pause(now: float) -> float:
    """Seconds until the next write. There is one at the end of each minute, so that a sheet has all of its minute."""
    to_the_minute = MINUTE / 1000 - now % (MINUTE / 1000)
    return min(EVERY, to_the_minute + 0.001)
