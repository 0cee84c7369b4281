"""What must hold for the keys as a whole: one format, and no step half done where a cluster moves them."""

from __future__ import annotations

import pytest

from tests.servers.fixtures import redis_cluster
from tests.servers.redis import RedisServer, fresh_prefix
from tests.servers.topology import Cluster
from windlass import StoreError, StoreUnavailable, Windlass
from windlass.store.base import StoreSettings
from windlass.store.redis import RedisStore
from windlass.store.redis.place import parse_url
from windlass.testing.conformance.bench import new_job

__all__ = ["redis_cluster"]


async def test_keys_of_another_format_are_left_alone(redis7: RedisServer) -> None:
    prefix = fresh_prefix()
    store = RedisStore(f"{redis7.url}?prefix={prefix}", StoreSettings())
    await store.open()
    await store.insert([new_job("a")])
    redis7.command("HSET", f"{{{prefix}}}:meta", "numbers", b"\2" + bytes(36))
    with pytest.raises(StoreError, match="format 2, and this version of Windlass reads format 1"):
        await store.insert([new_job("b")])
    with pytest.raises(StoreError, match="format 2"):
        await store.get(["a"])
    await store.close()
    assert redis7.command("HLEN", f"{{{prefix}}}:jobs") == 1


async def test_a_slot_that_is_being_moved_takes_nothing_and_keeps_everything(redis_cluster: Cluster) -> None:
    prefix = fresh_prefix()
    url = f"{redis_cluster.url}?prefix={prefix}"
    slot, source = parse_url(url, prefix).slot, redis_cluster.owner(f"{{{prefix}}}:x")
    target = next(node for node in redis_cluster.nodes if node is not source)
    app = Windlass("shop", url)

    @app.task
    async def add(x: int) -> int:
        return x

    async with app:
        for x in range(5):
            await add.enqueue(x)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.command("CLUSTER", "MYID"))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.command("CLUSTER", "MYID"))
        with pytest.raises(StoreUnavailable, match="handing our keys to another node"):
            await add.enqueue(6)
        for node in (source, target):
            node.command("CLUSTER", "SETSLOT", slot, "STABLE")
        assert await app.queue("default").counts() == {"ready": 5}
        assert source.command("ZCARD", f"{{{prefix}}}:ready:default") == 5
        async with app.worker():
            assert [await app.job(job.id) for job in (await app.jobs(limit=5)).jobs] == [4, 3, 2, 1, 0]
        assert await app.queue("default").counts() == {"succeeded": 5}
