"""An app on each engine, and worker processes that do not outlive their test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.worker.helpers import SHORT, Fleet, Ledger
from windlass import Windlass


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
