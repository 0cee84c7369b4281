"""Fixtures of the tests of metrics: the shop on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.observe.metric_kit import Shop
from tests.servers.fixtures import NewRedis, new_redis, redis7

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
