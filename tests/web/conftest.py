"""The servers that some of these need."""

from tests.servers.fixtures import new_redis, redis7

__all__ = ["new_redis", "redis7"]
