"""The servers that some of these need, and apps on each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.fixtures import new_redis, redis7
from tests.servers.redis import RedisServer, fresh_prefix
from tests.web.kit import World, make_app, populate
from windlass import Windlass

__all__ = ["new_redis", "redis7"]


@pytest.fixture
async def app() -> AsyncIterator[Windlass]:
    """The app in memory, for what does not depend on the engine."""
    app = make_app()
    yield app
    await app.close()


@pytest.fixture
async def world(app: Windlass) -> World:
    return await populate(app)


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def any_app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    """The app on each engine in turn."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis7")
        url = server.url
    app = make_app(url, fresh_prefix())
    yield app
    await app.close()
