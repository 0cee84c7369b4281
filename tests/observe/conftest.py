"""The shop on each engine for metrics; a traced app on each engine, and the spans it made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.observe.collected import Book
from tests.observe.metric_kit import Shop
from tests.servers.fixtures import NewRedis, new_redis, redis7
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT
from windlass import Windlass
from windlass.calls import context

__all__ = ["new_redis", "redis7"]


@pytest.fixture(params=["sqlite", "redis"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """On SQLite and on a Redis of its own."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db?durability=normal"
    else:
        start: NewRedis = request.getfixturevalue("new_redis")
        url = f"redis://127.0.0.1:{start().port}/0"
    made = Shop(tmp_path, url)
    yield made
    made.end()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Shop]:
    """On SQLite only, where the engine does not matter."""
    made = Shop(tmp_path, f"sqlite:///{tmp_path}/shop.db?durability=normal")
    yield made
    made.end()


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "spans")


@pytest.fixture(autouse=True)
def _no_taggers_left() -> Iterator[None]:
    """What ``trace`` says of log lines holds for the whole process."""
    before = context.taggers[:]
    yield
    context.taggers[:] = before


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, **SHORT)
    yield app
    await app.close()


@pytest.fixture
async def solo(tmp_path: Path) -> AsyncIterator[Windlass]:
    """On one engine, for what does not depend on it."""
    app = Windlass("solo", "memory://", **SHORT)
    yield app
    await app.close()
