"""The conformance suite over every kind of engine of this package. More servers: `test_engines_again.py`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from uuid import uuid4

import pytest

from tests.conformance.on_redis import redis_engine, redis_loss
from tests.servers.redis import RedisServer
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.testing.conformance import Conformance, Engine, Lose


class TestMemory(Conformance):
    @pytest.fixture
    def engine(self) -> Engine:
        url = f"memory://{uuid4()}"
        return lambda settings, clock: MemoryStore(url, settings, clock=clock)

    @pytest.fixture
    def lose(self) -> Lose:
        async def lose(store: Store, id: str) -> None:
            assert isinstance(store, MemoryStore)
            found = [rows.pop(id, None) for rows in (store.hub.jobs, store.hub.nodes)]
            assert any(found), f"there is no {id} to lose"

        return lose


class TestSQLite(Conformance):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        from windlass.store.sqlite import SQLiteStore

        url = f"sqlite:///{tmp_path}/jobs.db"
        return lambda settings, clock: SQLiteStore(url, settings, clock=clock)

    @pytest.fixture
    def lose(self, tmp_path: Path) -> Lose:
        async def lose(store: Store, id: str) -> None:
            import apsw

            with contextlib.closing(apsw.Connection(f"{tmp_path}/jobs.db")) as database, database:
                database.set_busy_timeout(5_000)
                for table in ("jobs", "nodes"):
                    database.execute(f"DELETE FROM {table} WHERE id = ?", (id,))
                assert database.total_changes() > 0, f"there is no {id} to lose"

        return lose


class TestRedis7(Conformance):
    @pytest.fixture
    def engine(self, redis7: RedisServer) -> Engine:
        return redis_engine(redis7.url)

    @pytest.fixture
    def lose(self, redis7: RedisServer) -> Lose:
        return redis_loss(redis7)
