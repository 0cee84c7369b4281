"""The dashboard behind a real server, and readers of its streams."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2
import msgspec
import uvicorn

from tests.worker.helpers import eventually

PATIENCE = 20.0


@contextlib.asynccontextmanager
async def serving(site: Any, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve an application on a free port of this machine, on this loop; a client for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    config = uvicorn.Config(site, ws="none", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve([listener]))
    base = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    try:
        async with httpx2.AsyncClient(base_url=base, timeout=PATIENCE, **options) as visitor:
            await eventually(lambda: server.started)
            yield visitor
    finally:
        server.should_exit = True
        await task
        listener.close()


class Told(NamedTuple):
    """One event of a stream."""

    event: str
    id: str
    data: Any


class Reader:
    """Reads events off a stream, each within the test's patience."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> Told:
        """The next event; beats and the like are passed over. StopAsyncIteration at the end."""
        found: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                if line:
                    name, _, value = line.partition(": ")
                    found[name] = value
                elif "event" in found:
                    return Told(found["event"], found["id"], msgspec.json.decode(found["data"]))
                else:
                    found = {}
        raise StopAsyncIteration

    async def until(self, event: str) -> list[Told]:
        """Events up to and with the next of this kind."""
        found: list[Told] = []
        while not found or found[-1].event != event:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Told]:
        found: list[Told] = []
        with contextlib.suppress(StopAsyncIteration):
            while True:
                found.append(await self.next())
        return found


@contextlib.asynccontextmanager
async def reading(visitor: httpx2.AsyncClient, url: str, **headers: str) -> AsyncIterator[Reader]:
    async with visitor.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Reader(answer)
