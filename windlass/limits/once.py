"""``once``: a block of code whose result is kept, so that a retry finds it instead of doing it again.

While the block runs, this process holds an item in the store, a mark, and renews it like a lock; the mark of a
process that died ends with its ttl. At the end the result takes the mark's place; after an error nothing is kept. A
process that dies after the block has done its work and before the result is written leaves no result: the block runs
again.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ParamSpec, Self, TypeVar, get_type_hints

from windlass.calls.context import Current, current, current_or_none
from windlass.connections.connections import Connections
from windlass.core import codec
from windlass.core.duration import Duration
from windlass.errors import Busy, ConfigError, LockLost, PayloadError, WindlassError
from windlass.limits.locks import Mark, Wait, checked_text, pauses, seconds_to_wait, ttl_ms
from windlass.support.ids import new_id

P = ParamSpec("P")
R = TypeVar("R")

MARK_TTL = 30_000
_DONE, _UNDER_WAY = b"+", b"-"


class Once:
    """One block. ``done``: the block was run before, and ``result`` is what it gave; else run it and set ``result``.

    A result found is plain JSON; ``run`` and ``call`` read it by the function's annotation.
    """

    def __init__(self, connections: Connections | None, key: str | None, ttl: Duration, wait: Wait) -> None:
        self._connections, self._key = connections, None if key is None else checked_text(key, "once()")
        self._ttl, self._wait = ttl_ms(ttl, "once: ttl"), seconds_to_wait(wait, "once: wait")
        self._mark: Mark | None = None
        self._job: Current | None = None
        self._found: bytes | None = None
        self._result: Any = None

    @property
    def done(self) -> bool:
        return self._found is not None

    @property
    def result(self) -> Any:
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        if self.done:
            raise WindlassError(f"{self!r} was done already; look at .done before doing it again")
        self._result = value

    # -- using it

    async def run(self, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``fn(...)`` unless that was done before; what it gave, now or then."""
        async with self:
            if not self.done:
                self.result = await fn(*args, **kwargs)
            result: R = self._typed(fn)
        return result

    def call(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same for a plain function."""
        with self:
            if not self.done:
                self.result = fn(*args, **kwargs)
            result: R = self._typed(fn)
        return result

    def _typed(self, fn: Callable[..., Any]) -> Any:
        if self._found is None:
            return self._result
        hint = get_type_hints(fn, include_extras=True).get("return", Any)
        return codec.decode_as(hint, self._found, f"the kept result of {self!r}")

    async def __aenter__(self) -> Self:
        for pause in self._tries():
            if await self._try():
                return self
            await asyncio.sleep(pause)
        raise self._busy()

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        mark, self._mark = self._mark, None
        if mark is None:
            return
        if kind is not None:
            if self._job is not None:
                self._job.has_done_once = False  # nothing is kept: the job may try again with another once()
            await mark.give_back()
            return
        try:
            data = codec.encode(self._result, f"the result of {self!r}", self._connected().settings.max_payload)
        except PayloadError:
            await mark.give_back()
            raise
        if not await mark.replace(_DONE + data, self._ttl):
            raise LockLost(f"{self!r} was not renewed in time; somebody else may have done it as well")

    def __enter__(self) -> Self:
        portal, _ = self._connected().portal, self._name()  # both belong to the job of this thread
        for pause in self._tries():
            if portal.call(self._try):
                return self
            time.sleep(pause)
        raise self._busy()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self._connected().portal.call(lambda: self.__aexit__(kind, error, trace))

    # -- taking it

    def _tries(self) -> Iterator[float]:
        if self._mark is not None:
            raise WindlassError(f"{self!r} is under way in this very object")
        self._connections, self._key, self._found, self._result = self._connected(), self._name(), None, None
        yield 0.0
        yield from pauses(self._wait)

    async def _try(self) -> bool:
        """Whether to go on: it is ours to do, or done."""
        mark = Mark(self._connected(), "once", self._name(), _UNDER_WAY + new_id().encode(), MARK_TTL)
        item = await mark.take()
        if mark.version:
            self._mark = mark
        elif item.body[:1] == _DONE:
            self._found = item.body[1:]
            self._result = codec.decode_any(self._found)
        return self._mark is not None or self.done

    def _connected(self) -> Connections:
        return self._connections or current().app.connections

    def _name(self) -> str:
        if self._key is None:
            running = current_or_none()
            if running is None:
                raise ConfigError("once() outside of a running job needs a key")
            self._key, self._job = key_of(running), running
        return self._key

    def _busy(self) -> Busy:
        waited = f" after {self._wait:g} s" if self._wait else ""
        return Busy(f"{self!r} is under way elsewhere{waited}")

    def __repr__(self) -> str:
        return f"once({self._key or ''!r})"


def key_of(running: Current) -> str:
    """The same for every try of a job: its task and its arguments, with what a workflow gave it."""
    if running.batch:
        raise ConfigError(f"task {running.task}: once() in a batch needs a key: its jobs share one call")
    if running.has_done_once:
        raise ConfigError(f"task {running.task}: a second once() in one job needs a key of its own")
    running.has_done_once = True
    claim = running.claim
    digest = hashlib.blake2b(claim.payload + b"\0" + (claim.given or b""), digest_size=16)
    return f"{claim.task}:{digest.hexdigest()}"


def once(key: str | None = None, ttl: Duration = "24h", wait: Wait = True) -> Once:
    """In a task: do the block once per ``key``, also over retries. By default one block per task and arguments.

    ``ttl``: so long its result is kept. ``wait``: for one that is under way elsewhere, else ``Busy``.
    """
    return Once(None, key, ttl, wait)
