"""Locks for user code, over processes and machines: a lock is an item in the store that its holder renews.

The lock of a holder that died ends with its ttl. So a holder that was only slow may go on after another one began: a
system that must refuse its late writes compares ``lock.token``, which grows with every holder. ``once.py`` builds on
the same marks.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Self

from windlass.calls.context import current_or_none
from windlass.connections.connections import Connections
from windlass.core.duration import Duration, show_ms, to_ms
from windlass.core.flow_rules import fit
from windlass.errors import Busy, ConfigError, LockLost, StoreError, StoreUnavailable, WindlassError
from windlass.store.items import Item, Put, put_one, read_one
from windlass.support.ids import new_id

LEAST_TTL = 100
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
RESEND_SECONDS = 0.05

Wait = Duration | bool | None
"""How long to wait for somebody else: None, False or 0 not at all, True for ever."""


def seconds_to_wait(wait: Wait, what: str) -> float:
    if wait is True:
        return float("inf")
    return to_ms(wait, what) / 1000 if wait else 0.0


def checked_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where} got {value!r}; give a text that is not empty")
    return value


def ttl_ms(ttl: object, what: str) -> int:
    ms = to_ms(ttl, what)
    if ms < LEAST_TTL:
        raise ConfigError(f"{what} is {ttl!r}; give at least {LEAST_TTL} ms")
    return ms


def pauses(seconds: float) -> Iterator[float]:
    """How long to sleep before each further try, until so many seconds are over."""
    end, pause = time.monotonic() + seconds, FIRST_PAUSE
    while (left := end - time.monotonic()) > 0:
        yield min(left, pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


def check_place(connections: Connections) -> None:
    """Refuse a ``memory://`` store in a process child: its memory is its own, and no other process sees it."""
    running = current_or_none()
    if running is not None and running.is_in_child and connections.url.startswith("memory://"):
        raise WindlassError(
            "a memory:// store is in the worker's process and cannot be reached from a child process: locks, once() "
            "and breakers need another store there, or a task that does not run in a process"
        )


class Mark:
    """An item that this process holds and renews on the loop where it was taken, until it is given back."""

    def __init__(self, connections: Connections, shelf: str, name: str, value: bytes, ttl: int) -> None:
        self._connections, self._shelf, self.name = connections, shelf, fit(name)
        self._value, self._ttl = value, ttl
        self._renewing: asyncio.Task[None] | None = None
        self._until = 0.0
        self._taken_away = False
        self.version = 0

    @property
    def lost(self) -> bool:
        return bool(self.version) and (self._taken_away or time.monotonic() > self._until)

    async def take(self) -> Item:
        """Try to take the mark once. Answers the item as it is now; ``version`` is set if this process has it."""
        check_place(self._connections)
        try:
            done, item = await self._put(0, self._value, self._ttl)
        except BaseException:
            _in_background(self._withdraw())
            raise
        # Ours also if the reply to the first sending was lost.
        if done or (item.version and item.body == self._value):
            self.version, self._taken_away = item.version, False
            self._renewing = asyncio.get_running_loop().create_task(self._renew())
        return item

    async def _put(self, expect: int, body: bytes | None, ttl: int) -> tuple[bool, Item]:
        put = Put(shelf=self._shelf, key=self.name, body=body, ttl=ttl, expect=expect)
        store = (await self._connections.client()).store
        sent = time.monotonic()
        try:
            done, item = await put_one(store, put)
        except StoreUnavailable:
            await asyncio.sleep(RESEND_SECONDS)
            sent = time.monotonic()
            done, item = await put_one(store, put)
        if item.version and item.body == self._value:
            self._until = sent + self._ttl / 1000
        return done, item

    async def _withdraw(self) -> None:
        """Delete the mark after ``take`` was cancelled: the store may have granted it in that very moment."""
        with suppress(StoreError):
            store = (await self._connections.client()).store
            item = await read_one(store, self._shelf, self.name)
            if item.version and item.body == self._value:
                await put_one(store, Put(shelf=self._shelf, key=self.name, body=None, expect=item.version))

    async def _renew(self) -> None:
        pause = self._ttl / 3000
        while not self.lost:
            await asyncio.sleep(pause)
            try:
                _, item = await self._put(self.version, self._value, self._ttl)
            except StoreError:
                continue  # until the time is over
            if item.version != self.version:
                self._taken_away = True

    async def replace(self, value: bytes, ttl: int) -> bool:
        """Put another value in the mark's place and renew it no more. False: this process had lost the mark."""
        await self._stop()
        done, item = await self._put(self.version, value, ttl)
        return done or item.body == value

    async def give_back(self) -> bool:
        """Delete the mark. False: this process had lost it. Where the store is out of reach, the ttl ends the mark."""
        await self._stop()
        try:
            done, item = await self._put(self.version, None, 0)
        except StoreUnavailable:
            return not self.lost
        # Not there is as good as done: the reply to the first sending may have been lost.
        return done or (not item.version and not self.lost)

    async def _stop(self) -> None:
        task, self._renewing = self._renewing, None
        if task is not None:
            task.cancel()
            # An exchange under way may renew what is about to be given back, so it is waited for.
            await asyncio.wait([task])


_background: set[asyncio.Task[None]] = set()


def _in_background(coroutine: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(coroutine)
    _background.add(task)
    task.add_done_callback(_background.discard)


class Lock:
    """What ``app.lock(name)`` gives: ``async with`` it, or ``with`` it in plain code. Not for two at a time."""

    def __init__(self, connections: Connections, name: str, ttl: Duration, wait: Wait) -> None:
        self._connections, self.name = connections, checked_text(name, "app.lock()")
        self._ttl, self._wait = ttl_ms(ttl, f"lock {name!r}: ttl"), seconds_to_wait(wait, f"lock {name!r}: wait")
        self._mark: Mark | None = None

    @property
    def token(self) -> int:
        """The fence: larger than that of every holder before. Pass it to systems that can refuse a late write."""
        return self._held().version

    @property
    def lost(self) -> bool:
        """Whether somebody else may have it by now."""
        return self._held().lost

    def check(self) -> None:
        """Raise LockLost if the lock may be somebody else's by now."""
        if self.lost:
            raise self._lost_error()

    def _held(self) -> Mark:
        if self._mark is None:
            raise WindlassError(f"lock {self.name!r} is not held")
        return self._mark

    def _lost_error(self) -> LockLost:
        return LockLost(f"lock {self.name!r} was not renewed within {show_ms(self._ttl)}, and may be another's by now")

    async def acquire(self) -> Self:
        for pause in self._tries():
            if await self._try():
                return self
            await asyncio.sleep(pause)
        raise self._busy()

    async def release(self) -> None:
        mark, self._mark = self._held(), None
        if not await mark.give_back():
            raise self._lost_error()

    def _tries(self) -> Iterator[float]:
        if self._mark is not None:
            raise WindlassError(f"lock {self.name!r} is held by this very object; make another with app.lock()")
        yield 0.0
        yield from pauses(self._wait)

    async def _try(self) -> bool:
        mark = Mark(self._connections, "locks", self.name, f"{self._connections.source} {new_id()}".encode(), self._ttl)
        await mark.take()
        self._mark = mark if mark.version else None
        return self._mark is not None

    def _busy(self) -> Busy:
        waited = f" after {self._wait:g} s" if self._wait else ""
        return Busy(f"lock {self.name!r} is held by somebody else{waited}")

    async def __aenter__(self) -> Self:
        return await self.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            await self.release()
        except LockLost:
            if kind is None:  # the block's own error says more
                raise

    def __enter__(self) -> Self:
        # Slept in this thread, where a soft timeout or a cancel can reach it, and not in the portal's.
        for pause in self._tries():
            if self._connections.portal.call(self._try):
                return self
            time.sleep(pause)
        raise self._busy()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._connections.portal.call(lambda: self.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return f"<lock {self.name}>"
