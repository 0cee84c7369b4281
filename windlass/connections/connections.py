"""An app's connections: one client per event loop, made when it is first wanted, and the portal for sync code.

An app may be used from any number of event loops, threads and (after ``fork``) processes.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol

from windlass.connections.client import Client
from windlass.connections.here import Here
from windlass.core.job import Meta
from windlass.settings import Settings
from windlass.store import make_store
from windlass.store.base import Store
from windlass.store.forks import lineage
from windlass.support.ids import new_id
from windlass.support.portal import Portal, portal


class Connected(Protocol):
    """What is connected to a store: an app's connections, or the app itself."""

    @property
    def portal(self) -> Portal:
        """Runs coroutines for sync code."""
        ...

    async def client(self) -> Client:
        """This loop's client, opened."""
        ...


class Connections:
    """The clients of an app in this process. ``name`` and ``url``: the app's name, and where its store is."""

    def __init__(self, name: str, url: str, settings: Settings) -> None:
        self.name, self.settings, self.portal = name, settings, portal
        # An app in memory has its own store, shared by its loops and threads.
        self.url = f"memory://{name}-{new_id()}" if url == "memory://" else url
        self.store_factory: Callable[[], Store] | None = None  # set by the test harness, and by nothing else
        self.clients: dict[int, Client] = {}
        self._for_threads: Client | None = None
        # Made here so that a wrong URL fails now and not at the first call.
        self._anchor = make_store(self.url, settings.for_store(name))

    @property
    def source(self) -> str:
        """This process, as the jobs it enqueues name it."""
        return f"{self.name}@{socket.gethostname()}:{os.getpid()}"

    @property
    def plain_meta(self) -> bytes:
        """The ready-made meta of calls with nothing special."""
        return Meta(self.source).encode()

    def own_client(self) -> Client:
        """This loop's client, opened or not. A client inherited over a fork is abandoned, not closed."""
        loop = asyncio.get_running_loop()
        client = self.clients.get(id(loop))
        if client is None or client.lineage != lineage.number or client.loop is not loop:
            client = self.clients[id(loop)] = Client(self.new_store(), f"client-{new_id()}", self.source)
            if client.here is not None and self.portal.owns(loop):
                self._for_threads = client
        return client

    async def client(self) -> Client:
        """This loop's client, opened."""
        client = self.own_client()
        if not client.opened:
            await client.open()
        return client

    def for_threads(self) -> Here | None:
        """The portal's client, if threads may call its store directly: it is open, and of this process."""
        client = self._for_threads
        return client.here if client is not None and client.opened and client.lineage == lineage.number else None

    def new_store(self) -> Store:
        """A store of its own, not opened."""
        return self.store_factory() if self.store_factory else make_store(self.url, self.settings.for_store(self.name))

    async def close(self) -> None:
        """Close this loop's connection."""
        client = self.clients.pop(id(asyncio.get_running_loop()), None)
        if client is not None:
            await client.close()
