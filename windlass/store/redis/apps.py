"""Which apps keep their jobs on a server: for a person who gave a URL and forgot to say whose keys are meant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from windlass.store.redis import library
from windlass.store.redis.link import Link
from windlass.store.redis.location import Address, Location, parse_url

SECONDS = 2.0
KEYS_AT_ONCE = 1_000
MOST = 20


async def find_prefixes(url: str) -> tuple[list[str], bool]:
    """Prefixes found on the server, or on all masters of a cluster, in order; and whether the search came to its end.

    It looks through the names of all keys, hence for two seconds at most, and stops when it has found twenty.
    """
    location, found, whole = parse_url(url, "windlass"), set[str](), True
    try:
        async with asyncio.timeout(SECONDS):
            async for prefix in _search(location):
                found.add(prefix)
                if len(found) >= MOST:
                    whole = False
                    break
    except TimeoutError:
        whole = False
    return sorted(found), whole


async def _search(location: Location) -> AsyncIterator[str]:
    for node in await _masters(location) if location.kind == "cluster" else [location]:
        link = await _open(node)
        try:
            cursor = b"0"
            while True:
                cursor, keys = await link.command("SCAN", cursor, "MATCH", "{*}:meta", "COUNT", KEYS_AT_ONCE)
                for key in keys:
                    yield key.decode(errors="replace")[1 : -len("}:meta")]
                if cursor == b"0":
                    break
        finally:
            await link.close()


async def _masters(location: Location) -> list[Location]:
    """Each master of a cluster as a location of its own."""
    link = await _open(location)
    try:
        slots = await link.command("CLUSTER", "SLOTS")
    finally:
        await link.close()
    seen = {
        Address((host or b"").decode().strip("?") or location.nodes[0].host, port)
        for _, _, (host, port, *_), *_ in slots
    }
    return [msgspec.structs.replace(location, kind="single", nodes=(node,)) for node in sorted(seen)]


async def _open(location: Location) -> Link:
    link = Link(location, library.build()[0])
    await link.open()
    return link
