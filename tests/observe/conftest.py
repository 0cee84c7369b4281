"""A traced app on each engine, and the spans it made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.observe.collected import Book
from tests.servers.fixtures import redis7
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT
from windlass import Windlass, context

__all__ = ["redis7"]


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
