"""Waiting for results on one event loop: the store pushes them, and everyone who waits shares one subscription."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.core.job import Finished
from windlass.errors import StoreError, StoreUnavailable
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store

log = logging.getLogger("windlass.client")

T = TypeVar("T")

FIRST_PAUSE, PATIENCE_SECONDS = 0.05, 8.0
"""The first pause before a store that cannot be reached is asked again, and the one after which it is asked no more."""

REWATCH_SECONDS = 15.0


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Try for a while what is safe to try again: who waits for a result has time."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            if pause > PATIENCE_SECONDS:
                raise
            log.warning("the store cannot be asked now, will try again: %s", error)
            await asyncio.sleep(pause)
            pause *= 2


class Waiter:
    """Everyone on this loop who waits for a job, behind one subscription."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._futures: dict[str, asyncio.Future[Finished]] = {}
        self._fresh: list[str] = []
        self._listening = False
        self._flusher: asyncio.Task[None] | None = None
        self._rewatcher: asyncio.Task[None] | None = None
        self._fetchers: set[asyncio.Task[None]] = set()
        self._followers: set[Callable[[], None]] = set()

    async def wait(self, id: str) -> Finished:
        """What became of a job, once it is over; state None when the store has no record of it."""
        future = self._futures.get(id)
        if future is None or future.done():
            future = self._futures[id] = asyncio.get_running_loop().create_future()
            self._fresh.append(id)
            if self._flusher is None or self._flusher.done():
                self._flusher = asyncio.get_running_loop().create_task(self._watch_fresh())
        return await asyncio.shield(future)

    async def listen(self) -> None:
        if not self._listening:
            await self._store.listen(self._name, self._deliver)
            if not self._listening:
                self._listening = True
                self._rewatcher = asyncio.get_running_loop().create_task(self._rewatch())

    async def _watch_fresh(self) -> None:
        """One watch for all who started waiting in this turn of the loop."""
        try:
            await patiently(self.listen)
            while self._fresh:
                await patiently(self._watch_some)
        except Exception as error:
            self._fail(error)

    async def _watch_some(self) -> None:
        ids = self._fresh[:MAX_BATCH]
        await self._watch(ids)
        del self._fresh[: len(ids)]

    async def _watch(self, ids: list[str]) -> None:
        reply = await self._store.watch(self._name, ids)
        self._deliver(reply.finished)
        for id in reply.missing:
            self._resolve(Finished(id, None, reason="missing"))

    def _deliver(self, items: list[Finished]) -> None:
        # Always: a wake-up for new events may have been delivered together with news of finished jobs.
        for follower in list(self._followers):
            follower()
        large = [item.id for item in items if not item.inline]
        if large:
            task = asyncio.get_running_loop().create_task(self._fetch(large))
            self._fetchers.add(task)
            task.add_done_callback(self._fetchers.discard)
        for item in items:
            if item.inline:
                self._resolve(item)

    async def _fetch(self, ids: list[str]) -> None:
        for id, job in zip(ids, await self._store.get(ids), strict=True):
            if job is None:
                self._resolve(Finished(id, None, reason="pruned"))
            else:
                # A join keeps no value, nor does a job that a workflow replaced: whoever waits puts it together.
                whole = job.result is not None or not (job.replaced or not job.task)
                self._resolve(Finished(id, job.state, job.result, job.error, job.reason, whole))

    def _resolve(self, item: Finished) -> None:
        future = self._futures.pop(item.id, None)
        if future is not None and not future.done():
            future.set_result(item)

    def _fail(self, error: Exception) -> None:
        futures, self._futures, self._fresh = self._futures, {}, []
        for future in futures.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # heard, also where whoever waited has given up by now

    async def _rewatch(self) -> None:
        """The backstop for a lost message: ask again for everything awaited, now and then."""
        while True:
            await asyncio.sleep(REWATCH_SECONDS)
            ids = [id for id, future in self._futures.items() if not future.done()]
            for follower in list(self._followers):
                follower()
            try:
                if ids:
                    await self._store.sweep()  # where no worker lives, nobody else would let an awaited job expire
                for start in range(0, len(ids), MAX_BATCH):
                    await self._watch(ids[start : start + MAX_BATCH])
            except StoreUnavailable as error:
                log.warning("cannot ask for %d awaited results now, will try again: %s", len(ids), error)
            except StoreError as error:
                self._fail(error)

    def follow(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at every plain wake-up (new events); returns the way to stop it."""
        self._followers.add(callback)
        return lambda: self._followers.discard(callback)

    async def close(self) -> None:
        for task in (self._rewatcher, self._flusher, *self._fetchers):
            if task is not None:
                task.cancel()
        if self._listening:
            self._listening = False
            with contextlib.suppress(StoreUnavailable):  # the store forgets a silent listener by itself
                await self._store.unlisten(self._name)
        self._fail(StoreError("the app was closed while waiting"))
