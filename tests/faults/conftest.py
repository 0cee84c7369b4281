"""Worker processes on one store, and a caller's app beside them. The store is a SQLite file unless told otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.faults import jobs
from tests.servers.fixtures import new_redis, redis7, valkey9
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import Fleet, Ledger
from windlass import Windlass

__all__ = ["new_redis", "redis7", "valkey9"]


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """``sqlite`` or the name of a server's fixture; chosen by ``parametrize("engine", [...], indirect=True)``."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The store as the caller reaches it."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    return f"{request.getfixturevalue(engine).url}?prefix={fresh_prefix()}"


@pytest.fixture
def worker_url(url: str) -> str:
    """The store as the workers reach it."""
    return url


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def tasks() -> ModuleType:
    """The module whose app the workers serve; a test file may have another."""
    return jobs


@pytest.fixture
def fleet(tmp_path: Path, worker_url: str, tasks: ModuleType) -> Iterator[Fleet]:
    env = {"E2E_URL": worker_url, "E2E_LEDGER": str(tmp_path / "ledger")}
    fleet = Fleet(f"{tasks.__name__}:app", tmp_path, env)
    yield fleet
    fleet.end()


@pytest.fixture
async def app(url: str, tasks: ModuleType) -> AsyncIterator[Windlass]:
    """The workers' app as a caller has it."""
    app = Windlass("faults", url, **tasks.SETTINGS)
    for task in tasks.app.tasks.values():
        app.declared.add_task(task.fn, {"name": task.name, "runs_in": task.runs_in, "queue": task.queue, **task.layer})
    async with app:
        yield app
