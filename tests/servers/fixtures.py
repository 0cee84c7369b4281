"""Fixtures: conftests import the ones they use, by name.

`redis7` and `valkey9` are shared by all tests of a pytest process, so a test takes a `fresh_prefix()` and leaves the
servers as they are. `new_redis` is for tests that kill, fill or reconfigure: each call starts one more server that
belongs to the test alone. A server that is not installed is a skip with its reason (and a failure where CI is set).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.servers.postgres import FAST, PROGRAMS, PostgresServer
from tests.servers.redis import BINARIES, Certificates, RedisServer
from tests.servers.topology import Cluster, Sentinel

KINDS = ["redis7", pytest.param("valkey9", marks=pytest.mark.again)]
"""Servers of one kind, for `parametrize` and `params`: what holds on the first comes `again` on the second."""

NewRedis = Callable[..., RedisServer]


@pytest.fixture(scope="session")
def redis7() -> Iterator[RedisServer]:
    with RedisServer(BINARIES["redis7"]()) as server:
        yield server


@pytest.fixture(scope="session")
def valkey9() -> Iterator[RedisServer]:
    with RedisServer(BINARIES["valkey9"]()) as server:
        yield server


@pytest.fixture
def new_redis() -> Iterator[NewRedis]:
    """``new_redis("valkey9", fsync="always")``: a started server of the test's own; see `RedisServer`."""
    with ExitStack() as running:

        def start(kind: str = "redis7", **options: Any) -> RedisServer:
            return running.enter_context(RedisServer(BINARIES[kind](), **options))

        yield start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[Cluster]:
    """Three masters; a test that kills one brings it back with ``restart``."""
    with Cluster(BINARIES["redis7"]()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_sentinel() -> Iterator[Sentinel]:
    """A master, two replicas, three sentinels; a test that fails over brings the dead one back with ``restart``."""
    with Sentinel(BINARIES["redis7"]()) as sentinel:
        yield sentinel


@pytest.fixture(scope="session")
def postgres18() -> Iterator[PostgresServer]:
    with PostgresServer(PROGRAMS["postgres18"](), config=FAST) as server:
        yield server
