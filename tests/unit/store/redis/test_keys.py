"""What must hold for the keys as a whole: one format, and no step half done where a cluster moves them."""

from __future__ import annotations

import asyncio

import pytest

from tests.servers.fixtures import redis_cluster
from tests.servers.redis import RedisServer, fresh_prefix
from tests.servers.topology import Cluster
from windlass import StoreError, StoreUnavailable, Windlass
from windlass.store.base import StoreSettings
from windlass.store.redis import RedisStore
from windlass.store.redis.location import parse_url
from windlass.testing.conformance.bench import new_job

__all__ = ["redis_cluster"]


async def test_keys_of_another_format_are_left_alone(redis7: RedisServer) -> None:
    prefix = fresh_prefix()
    store = RedisStore(f"{redis7.url}?prefix={prefix}", StoreSettings())
    await store.open()
    await store.insert([new_job("a")])
    for other in (3, 6):
        redis7.command("HSET", f"{{{prefix}}}:meta", "numbers", bytes([other]) + bytes(36))
        with pytest.raises(StoreError, match=f"format {other}, and this version of Windlass reads format 5"):
            await store.insert([new_job("b")])
        with pytest.raises(StoreError, match=f"format {other}"):
            await store.get(["a"])
    await store.close()
    assert redis7.command("HLEN", f"{{{prefix}}}:jobs") == 1


class Move:
    """The move of an app's slot from one node of a cluster to another, by hand."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster, self.slot = cluster, parse_url(cluster.url, prefix).slot
        self.source = cluster.owner(f"{{{prefix}}}:x")
        self.target = next(node for node in cluster.nodes if node is not self.source)

    def begin(self) -> None:
        self.target.command("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.source.command("CLUSTER", "MYID"))
        self.source.command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.target.command("CLUSTER", "MYID"))

    def give_up(self) -> None:
        for node in (self.source, self.target):
            node.command("CLUSTER", "SETSLOT", self.slot, "STABLE")

    def finish(self) -> None:
        for key in self.source.command("CLUSTER", "GETKEYSINSLOT", self.slot, 1000):
            self.source.command("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000)
        for node in (self.target, self.source, *self.cluster.nodes):
            node.command("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.command("CLUSTER", "MYID"))


async def test_a_slot_that_is_being_moved_takes_nothing_and_keeps_everything(redis_cluster: Cluster) -> None:
    prefix = fresh_prefix()
    move = Move(redis_cluster, prefix)
    app = Windlass("shop", f"{redis_cluster.url}?prefix={prefix}")

    @app.task
    async def add(x: int) -> int:
        return x

    async with app:
        for x in range(5):
            await add.enqueue(x)
        move.begin()
        with pytest.raises(StoreUnavailable, match="handing our keys to another node"):
            await add.enqueue(6)
        move.give_up()
        assert await app.queue("default").counts() == {"ready": 5}
        assert move.source.command("ZCARD", f"{{{prefix}}}:ready:default") == 5
        async with app.worker():
            assert [await app.job(job.id) for job in (await app.jobs(limit=5)).jobs] == [4, 3, 2, 1, 0]
            move.begin()
            move.finish()
            async with asyncio.timeout(20):
                assert await (await add.enqueue(7)) == 7
        assert await app.queue("default").counts() == {"succeeded": 6}
