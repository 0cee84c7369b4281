"""What the tests of the link share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from tests.servers.fixtures import KINDS, certificates, new_redis, redis7, valkey9
from tests.servers.redis import RedisServer
from tests.unit.store.redis.kit import LIBRARY, PREFIX, location_of
from windlass.store.redis.commands import Library
from windlass.store.redis.link import Link

__all__ = ["certificates", "new_redis", "redis7", "valkey9"]

CHANNEL = f"{{{PREFIX}}}:to:me".encode()

SECRET = "s3cret"

NewLink = Callable[..., Link]


@pytest.fixture
async def new_link() -> AsyncIterator[NewLink]:
    """``new_link(url, timeout=1)``: a link of the test's own, not opened."""
    async with AsyncExitStack() as links:

        def make(url: str, library: Library = LIBRARY, **options: object) -> Link:
            link = Link(location_of(url, **options), library)
            links.push_async_callback(link.close)
            return link

        yield make


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found
