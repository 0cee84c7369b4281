"""An app on each engine, and worker processes that do not outlive their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers.fixtures import redis7
from tests.servers.redis import fresh_prefix
from tests.worker.graphs import Tasks, declare_all
from tests.worker.helpers import SHORT, Fleet, Ledger
from windlass import Windlass
from windlass.testing.failing import FailingStore, Faults
from windlass.worker.service import Worker

__all__ = ["redis7"]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?durability=normal"


@pytest.fixture
async def app(url: str) -> AsyncIterator[Windlass]:
    app = Windlass("e2e", url, **SHORT)
    yield app
    await app.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Worker processes of ``tests.worker.jobs:app`` on a file of their own."""
    env = {"E2E_URL": f"sqlite:///{tmp_path}/fleet.db?durability=normal", "E2E_LEDGER": str(tmp_path / "ledger")}
    fleet = Fleet("tests.worker.jobs:app", tmp_path, env)
    yield fleet
    fleet.end()


# -- workflows: the app of ``tests.worker.graphs`` on every engine


@pytest.fixture
def faults() -> Faults:
    """Orders to fail that every connection of ``graph_app`` obeys."""
    return Faults()


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def graph_app(request: pytest.FixtureRequest, tmp_path: Path, faults: Faults) -> AsyncIterator[Windlass]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, **SHORT)
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    declare_all(app)
    yield app
    await app.close()


@pytest.fixture
def t(graph_app: Windlass) -> Tasks:
    return Tasks(graph_app)


@pytest.fixture
async def worker(graph_app: Windlass) -> AsyncIterator[Worker]:
    async with graph_app.worker(children=2, concurrency=20) as worker:
        yield worker
