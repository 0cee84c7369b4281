"""Worker processes on one SQLite file, and a caller's app beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.faults import jobs
from tests.worker.helpers import SHORT, Fleet, Ledger
from windlass import Windlass


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    env = {"E2E_URL": f"sqlite:///{tmp_path}/jobs.db?durability=normal", "E2E_LEDGER": str(tmp_path / "ledger")}
    fleet = Fleet("tests.faults.jobs:app", tmp_path, env)
    yield fleet
    fleet.end()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Windlass]:
    """The workers' app as a caller has it."""
    app = Windlass("faults", fleet.env["E2E_URL"], **SHORT, **jobs.PATIENT)
    for task in jobs.app.tasks.values():
        app.add_task(task.fn, {"name": task.name, "runs_in": task.runs_in, **task.layer})
    async with app:
        yield app
