"""An app's client: its connection to the store on one event loop, with what sends calls and waits for results there."""

from __future__ import annotations

import asyncio

from windlass.connections.here import Here
from windlass.connections.sender import Sender
from windlass.connections.waiter import Waiter
from windlass.core.job import Meta
from windlass.store.base import Direct, Store
from windlass.store.forks import lineage


class Client:
    """Made once per app and loop. ``name`` is where results are pushed to; ``source`` is this process, as the jobs
    name it that are sent from here.
    """

    def __init__(self, store: Store, name: str, source: str) -> None:
        self.store, self.name, self.source, self.lineage = store, name, source, lineage.number
        self.plain_meta = Meta(source).encode()
        self.loop = asyncio.get_running_loop()
        self.sender = Sender(self)
        self.waiter = Waiter(store, name)
        self.here = Here(self, store) if isinstance(store, Direct) else None
        self._opening = asyncio.Lock()
        self.opened = False

    async def open(self) -> None:
        """Connect, unless that is done."""
        async with self._opening:
            if not self.opened:
                await self.store.open()
                self.opened = True

    async def close(self) -> None:
        """Finish what is being sent, and disconnect."""
        self.opened = False
        await self.sender.flush()
        await self.waiter.close()
        await self.store.close()
