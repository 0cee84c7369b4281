"""Server-sent events: how a message is written, and the response that sends them until either side ends it.

A stream asks its source for the next message only when the last one is sent, so that nothing piles up for a slow
reader. It ends by itself after a while: the browser returns with the last id it saw, and is authenticated again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Source = AsyncGenerator[bytes, None]

MOST_STREAMS = 1_000
"""Open streams of one dashboard in one process."""

LIFETIME_SECONDS = 900.0
BEAT_SECONDS = 15.0
"""A stream is never silent for longer: proxies cut what is."""

BEAT = b": still here\n\n"


def message(event: str, id: str, data: Any) -> bytes:
    """One event. Neither JSON nor our ids have line breaks."""
    return b"event: %s\nid: %s\ndata: %s\n\n" % (event.encode(), id.encode(), msgspec.json.encode(data))


def retry(seconds: float) -> bytes:
    """How long a browser waits before it comes back."""
    return b"retry: %d\n\n" % round(seconds * 1000)


class Gauge:
    """How many streams are open."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.open, self._most = 0, most

    def check(self) -> None:
        if self.open >= self._most:
            raise HTTPException(503, "too many event streams are open", {"retry-after": "30"})

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


class EventStream(Response):
    """A response that sends what ``source`` yields. When the reader leaves, the source is closed at once."""

    media_type = "text/event-stream"

    def __init__(self, source: Source, gauge: Gauge, lifetime: float = LIFETIME_SECONDS) -> None:
        # Without this header, nginx holds messages back to fill a buffer.
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        gauge.check()
        self._source, self._gauge, self._lifetime = source, gauge, lifetime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(head)
        if scope["method"] != "HEAD":
            with self._gauge.counted():
                await first_of(lambda: self._pump(send), lambda: disconnected(receive))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._lifetime), contextlib.aclosing(self._source) as source:
                async for part in source:
                    await send({"type": "http.response.body", "body": part, "more_body": True})


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def first_of(*works: Callable[[], Awaitable[None]]) -> None:
    """Run these together until one ends; cancel the others and wait for them."""
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error
