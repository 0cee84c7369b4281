"""The servers that the engines need."""

from __future__ import annotations

import pytest

from tests.servers.fixtures import postgres18, redis7, redis_cluster, redis_sentinel, valkey9
from tests.servers.topology import Sentinel

__all__ = ["failed_over", "postgres18", "redis7", "redis_cluster", "redis_sentinel", "valkey9"]


@pytest.fixture(scope="session")
def failed_over(redis_sentinel: Sentinel) -> Sentinel:
    """A group whose first master was killed: a promoted replica is the master now, and must keep every rule."""
    dead = redis_sentinel.fail_over()
    redis_sentinel.restart(dead)
    return redis_sentinel
