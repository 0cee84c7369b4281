"""Listening: one connection per store, on the loop that opened it, for all names that listen here.

A connection that listens can go deaf without an error. So the ear writes to itself now and then; an ear that hears
nothing of that is replaced, and everybody who listens is woken, as something may have been missed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
from typing import Any

import psycopg

from windlass.store.jobs import Deliver
from windlass.store.postgres.letters import Parts, unpack
from windlass.store.postgres.location import Location
from windlass.store.postgres.session import KEPT_ALIVE

log = logging.getLogger("windlass.store")

CHECKED = 10.0
"""Seconds between two looks whether the ear still hears."""
PATIENCE = 5.0
"""Seconds after which what the ear wrote to itself must have come."""
PAUSES = (0.1, 5.0)
"""The first and the longest pause between two tries to connect."""
SELF = "\x07"
"""What the ear writes to itself."""


class Ear:
    """What is said to the names of one process."""

    def __init__(self, location: Location, name: str) -> None:
        self._location, self._name = location, name
        self.channel = f"windlass_{secrets.token_hex(8)}"
        self.names: dict[str, Deliver] = {}
        self._task: asyncio.Task[None] | None = None
        self._hears = asyncio.Event()
        self._heard_itself = asyncio.Event()
        self._was_deaf = False
        self._parts = Parts()

    async def listen(self, name: str, deliver: Deliver) -> None:
        """Begin to hear for a name; the first one waits until the connection stands."""
        self.names[name] = deliver
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._live())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hears.wait(), PATIENCE)

    def forget(self, name: str) -> bool:
        """Hear for a name no longer; True if nobody is left."""
        self.names.pop(name, None)
        return not self.names

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _live(self) -> None:
        pause, longest = PAUSES
        said = False
        while True:
            try:
                await self._hear()
            except (psycopg.Error, OSError, TimeoutError) as error:
                if self._hears.is_set():
                    pause = PAUSES[0]
                    said = False
                self._hears.clear()
                self._was_deaf = True
                if not said:
                    log.warning("not woken by the server for now, will listen again: %s", str(error).partition("\n")[0])
                    said = True
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(2 * pause, longest)

    async def _hear(self) -> None:
        settings: dict[str, Any] = {**KEPT_ALIVE, "application_name": f"{self._name} listens", **self._location.listen}
        db = await psycopg.AsyncConnection.connect(**settings, autocommit=True, prepare_threshold=None)
        try:
            await db.execute(f"LISTEN {self.channel}")
            self._hears.set()
            self._parts = Parts()
            for deliver in list(self.names.values()) if self._was_deaf else ():
                deliver([])
            self._was_deaf = False
            while True:
                self._heard_itself.clear()
                await db.execute("SELECT pg_notify(%s, %s)", (self.channel, SELF))
                await self._hear_for(db, PATIENCE)
                if not self._heard_itself.is_set():
                    raise TimeoutError("the connection that listens has gone deaf")
                await self._hear_for(db, CHECKED)
        finally:
            await db.close()

    async def _hear_for(self, db: psycopg.AsyncConnection[Any], seconds: float) -> None:
        """Deliver what comes, for so long; in the first part of a round no longer than until the ear heard itself."""
        waiting = not self._heard_itself.is_set()
        async for notice in db.notifies(timeout=seconds):
            if notice.payload == SELF:
                self._heard_itself.set()
                if waiting:
                    return
            else:
                self._deliver(notice.payload)

    def _deliver(self, letter: str) -> None:
        for name, items in unpack(self._parts.whole(letter)):
            deliver = self.names.get(name)
            if deliver is not None:
                deliver(items)
