"""The conformance suite once more on what speaks like Redis: another server, a cluster, a master behind sentinels."""

from __future__ import annotations

import pytest

from tests.conformance.on_redis import redis_engine, redis_loss
from tests.servers.redis import RedisServer
from tests.servers.topology import Cluster, Sentinel
from windlass.testing.conformance import Conformance, Engine, Lose

pytestmark = pytest.mark.again


class TestValkey9(Conformance):
    @pytest.fixture
    def engine(self, valkey9: RedisServer) -> Engine:
        return redis_engine(valkey9.url)

    @pytest.fixture
    def lose(self, valkey9: RedisServer) -> Lose:
        return redis_loss(valkey9)


class TestRedisCluster(Conformance):
    @pytest.fixture
    def engine(self, redis_cluster: Cluster) -> Engine:
        return redis_engine(redis_cluster.url)


class TestRedisSentinel(Conformance):
    @pytest.fixture
    def engine(self, failed_over: Sentinel) -> Engine:
        return redis_engine(failed_over.url)
