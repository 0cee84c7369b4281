"""For the tests of the Redis connection: a small library of functions, locations with short times, a fake server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import hiredis

from windlass.store.redis.commands import Library
from windlass.store.redis.location import Location, parse_url

CODE = b"""#!lua name=kit
redis.register_function('kit_echo', function(keys, args) return args end)
redis.register_function('kit_key', function(keys, args) return keys[1] end)
redis.register_function('kit_say', function(keys, args) return redis.call('PUBLISH', args[1], args[2]) end)
redis.register_function('kit_set', function(keys, args) return redis.call('SET', keys[1], args[1]) end)
redis.register_function('kit_get', function(keys, args) return redis.call('GET', keys[1]) end)
redis.register_function('kit_fail', function(keys, args) return redis.error_reply(args[1]) end)
redis.register_function('kit_spin', function(keys, args) while true do end end)
redis.register_function('kit_time', function(keys, args) return redis.call('TIME') end)
"""
LIBRARY = Library("kit", CODE)
PREFIX = "kit"


def location_of(url: str, **options: object) -> Location:
    """Short times, so that a test of silence does not take long."""
    options = {"timeout": "2s", "connect_timeout": "2s", **options}
    return parse_url(url + "?" + "&".join(f"{name}={value}" for name, value in options.items()), PREFIX)


async def until(true: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


class Fake(asyncio.Protocol):
    """Answers each command by its first word, with the raw bytes given."""

    def __init__(self, answers: dict[bytes, bytes], transports: list[asyncio.BaseTransport]) -> None:
        self.answers, self.transports = answers, transports
        self.parser = hiredis.Reader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.parser.feed(data)
        while (words := self.parser.gets()) is not False:
            self.transport.write(self.answers[words[0]])


@asynccontextmanager
async def fake_server(answers: dict[bytes, bytes]) -> AsyncIterator[str]:
    """Yields its URL."""
    transports: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(lambda: Fake(answers, transports), "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for transport in transports:
            transport.abort()
        await asyncio.sleep(0)


def hello_of(version: str, role: str = "master") -> bytes:
    """The answer to HELLO of such a server."""
    words = ["server", "redis", "version", version, "role", role]
    return b"%3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
