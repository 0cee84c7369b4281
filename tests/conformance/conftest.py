"""The servers that the engines need."""

from tests.servers.fixtures import redis7, redis_cluster, redis_sentinel, valkey9

__all__ = ["redis7", "redis_cluster", "redis_sentinel", "valkey9"]
