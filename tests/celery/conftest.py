"""An app for each test, on memory unless the test asks for another store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.celery.kit import declare, working
from tests.servers.fixtures import redis7  # noqa: F401
from windlass.celery import Celery


@pytest.fixture
def app() -> Celery:
    return Celery("tests", broker="memory://")


@pytest.fixture
def tasks(app: Celery) -> Iterator[SimpleNamespace]:
    """The kit's tasks, and a worker that runs them."""
    found = declare(app)
    with working(app):
        yield found


@pytest.fixture(params=["memory", "sqlite", "redis"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """The same on every store."""
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    if url is None:
        url = request.getfixturevalue("redis7").url
    app = Celery(f"tests-{request.node.name[:40]}-{id(request)}", broker=url)
    found = declare(app)
    with working(app):
        yield found
