"""One look at the store for all listeners of an event loop. Without listeners nothing is asked and nothing kept."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

from windlass.errors import StoreError
from windlass.web.streams import BEAT_SECONDS

log = logging.getLogger("windlass.web")


class Poll:
    """Calls ``look`` at intervals while there are listeners. ``look`` answers whether there is something new."""

    def __init__(self, look: Callable[[], Awaitable[bool]], every: float) -> None:
        self._look, self._every = look, every
        self._joined = 0
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Event()
        self._first = asyncio.Event()
        self.turns = 0
        self.away = False

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        self._joined += 1
        if self._task is None:
            self._first.clear()
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            yield
        finally:
            self._joined -= 1
            if not self._joined and self._task is not None:
                self._task.cancel()
                self._task = None

    async def ready(self) -> None:
        """Wait until the store has been looked at once since the first listener joined, whether it answered or not."""
        await self._first.wait()

    async def turn(self, seen: int, seconds: float = BEAT_SECONDS) -> bool:
        """Wait for a turn newer than ``seen``; False if none comes within ``seconds``."""
        if self.turns != seen:
            return True
        try:
            await asyncio.wait_for(self._turn.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _run(self) -> None:
        while True:
            if await self._safe_look():
                self.turns += 1
                turn, self._turn = self._turn, asyncio.Event()
                turn.set()
            self._first.set()
            await asyncio.sleep(self._every)

    async def _safe_look(self) -> bool:
        """Look. A store that goes away is reported once, and so is its return."""
        try:
            new = await self._look()
        except StoreError as error:
            if not self.away:
                log.warning("the store cannot be looked at, will go on trying: %s", error)
            new, self.away = not self.away, True
        else:
            new, self.away = new or self.away, False
        return new
