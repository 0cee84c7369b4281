"""The conformance suite over every engine of this package."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.servers.redis import RedisServer, fresh_prefix
from tests.servers.topology import Cluster, Sentinel
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


class TestRedis7(Conformance):
    @pytest.fixture
    def engine(self, redis7: RedisServer) -> Engine:
        return redis_engine(redis7.url)


class TestValkey9(Conformance):
    @pytest.fixture
    def engine(self, valkey9: RedisServer) -> Engine:
        return redis_engine(valkey9.url)


class TestRedisCluster(Conformance):
    @pytest.fixture
    def engine(self, redis_cluster: Cluster) -> Engine:
        return redis_engine(redis_cluster.url)


class TestRedisSentinel(Conformance):
    @pytest.fixture
    def engine(self, failed_over: Sentinel) -> Engine:
        return redis_engine(failed_over.url)


def redis_engine(url: str) -> Engine:
    from windlass.store.redis import RedisStore

    prefixed = f"{url}?prefix={fresh_prefix()}"
    return lambda settings, clock: RedisStore(prefixed, settings, clock=clock)
