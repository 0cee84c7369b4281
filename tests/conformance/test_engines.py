"""The conformance suite over every engine of this package."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from windlass.store.memory import MemoryStore
from windlass.testing.conformance import Conformance, Engine


class TestMemory(Conformance):
    @pytest.fixture
    def engine(self) -> Engine:
        url = f"memory://{uuid4()}"
        return lambda settings, clock: MemoryStore(url, settings, clock=clock)


class TestSQLite(Conformance):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        from windlass.store.sqlite import SQLiteStore

        url = f"sqlite:///{tmp_path}/jobs.db"
        return lambda settings, clock: SQLiteStore(url, settings, clock=clock)
