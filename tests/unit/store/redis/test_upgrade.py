"""What the version before kept in format 4, opened by this one: cells and shelves are items, and nothing is lost."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.servers.fixtures import redis_cluster
from tests.servers.redis import RedisServer, fresh_prefix
from tests.servers.topology import Cluster
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass import StoreError
from windlass.operate.timetable import Schedule, read_all
from windlass.store.base import StoreSettings
from windlass.store.items import Item, Put, put_one, read_one
from windlass.store.redis import RedisStore
from windlass.testing.conformance.bench import START, new_job

__all__ = ["redis_cluster"]

TTL = 60_000
FOREVER = 1 << 40
CELLS = {
    "lock:invoice": ("locks", "invoice", TTL),
    "lock:lock:x": ("locks", "lock:x", TTL),
    "once:charge|日本": ("once", "charge|日本", TTL),
    "windlass:notices:lease": ("notices", "lease", TTL),
    "windlass:notices:book": ("notices", "book", 0),
    "windlass:schedules:abc": ("schedules.declared", "abc", TTL),
    "mine": ("cells", "mine", TTL),
}


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7) as bench:
        await bench.store.insert([new_job("kept")])
        yield bench


def become_former(bench: RedisBench) -> None:
    """Write the numbers as format 4 had them, which differ in the format alone."""
    numbers = bench.keys("HGET", "meta", "numbers").encode(errors="surrogateescape")
    bench.keys("HSET", "meta", "numbers", b"\x04" + numbers[1:])


def put_cell(bench: RedisBench, name: str, version: int, value: bytes, ends: int) -> None:
    packed = version.to_bytes(6, "big") + ends.to_bytes(6, "big") + value
    bench.keys("HSET", "cells", name, packed)
    bench.keys("ZADD", "fading", ends, b"c" + name.encode())


def put_shelved(bench: RedisBench, shelf: str, key: str, body: bytes, ends: int = 0) -> None:
    bench.keys("ZADD", f"shelf:{shelf}", 0, key)
    bench.keys("HSET", f"items:{shelf}", key, body)
    if ends:
        mark = struct.pack(">H", len(shelf.encode())) + shelf.encode() + key.encode()
        bench.keys("ZADD", "passing", ends, mark)


async def test_cells_are_items_of_the_shelves_that_use_them_now(bench: RedisBench) -> None:
    for n, name in enumerate(CELLS, 1):
        put_cell(bench, name, n, name.encode(), START + (FOREVER if "book" in name else TTL))
    put_cell(bench, "lock:over", 9, b"x", START)
    bench.keys("HSET", "cells", "damaged", b"x")
    become_former(bench)
    store = await bench.again()
    for n, (name, (shelf, key, ttl)) in enumerate(CELLS.items(), 1):
        assert await read_one(store, shelf, key) == Item(shelf=shelf, key=key, body=name.encode(), ttl=ttl, version=n)
    assert [item.key for item in await store.shelf("locks")] == ["invoice", "lock:x"]
    assert not {"cells", "fading"} & set(bench.keys.all())
    assert "moving" not in bench.keys("HKEYS", "meta")
    bench.clock.advance(TTL)
    await store.sweep()
    assert [item.key for item in await store.shelf("notices")] == ["book"]


async def test_what_was_on_a_shelf_stays_there_and_gets_a_version(bench: RedisBench) -> None:
    many = {f"{n:05}": b"%d" % n for n in range(1_200)}
    for key, body in many.items():
        put_shelved(bench, "charts.1m", key, body)
    shelf = "ü日*[a]"
    put_shelved(bench, shelf, "b", bytes(range(256)), START + TTL)
    put_shelved(bench, shelf, "a", b"")
    become_former(bench)
    store = await bench.again()
    found = await store.shelf("charts.1m") + await store.shelf("charts.1m", after="00999")
    assert {item.key: item.body for item in found} == many
    versions = [item.version for item in [*found, *await store.shelf(shelf)]]
    assert len(set(versions)) == len(versions)
    assert min(versions) > 0
    assert [(item.key, item.body, item.ttl) for item in await store.shelf(shelf)] == [
        ("a", b"", 0), ("b", bytes(range(256)), TTL),
    ]  # fmt: skip
    assert not [key for key in bench.keys.all() if key.startswith("items:")]


async def test_schedules_are_items_that_fire_where_they_were(bench: RedisBench) -> None:
    rows = {
        f"s{n:03}": [b'{"every": %d}' % n, START + n, 'by "hand"' if n else "", n + 1, n, n, n, f"job {n}"]
        for n in range(250)
    }
    for name, row in rows.items():
        bench.keys("HSET", "schedules", name, msgspec.msgpack.encode([row[0].decode(), *row[1:]]))
        bench.keys("ZADD", "timetable", 0, name)
    bench.keys("HSET", "schedules", "damaged", b"x")
    become_former(bench)
    found = await read_all(await bench.again())
    assert found == [
        Schedule(
            name=name, body=body, next_slot=slot, paused=paused, version=version, fired=fired, last_slot=last,
            last_at=at, last_job=job,
        )
        for name, (body, slot, paused, version, fired, last, at, job) in rows.items()
    ]  # fmt: skip
    assert not {"schedules", "timetable"} & set(bench.keys.all())


async def test_versions_go_on_growing_behind_those_of_cells(bench: RedisBench) -> None:
    put_cell(bench, "lock:a", 1, b"old", START + TTL)
    become_former(bench)
    store = await bench.again()
    done, item = await put_one(store, Put(shelf="locks", key="a", body=b"new", ttl=TTL, expect=1))
    assert done
    assert item.version > 1
    assert (await store.get(["kept"]))[0] is not None


async def test_several_processes_may_bring_it_over_at_once(bench: RedisBench) -> None:
    for n in range(600):
        put_cell(bench, f"once:{n}", n + 1, b"%d" % n, START + TTL)
        put_shelved(bench, "s", f"{n:03}", b"%d" % n)
    become_former(bench)
    stores = await asyncio.gather(*[bench.again() for _ in range(4)])
    for store in stores:
        keys = [f"{n}" for n in range(600)]
        assert [item.body for item in await store.items("once", keys)] == [key.encode() for key in keys]
        assert [item.body for item in await store.shelf("s")] == [key.encode() for key in keys]


async def test_one_goes_on_with_what_another_left_half_done(bench: RedisBench) -> None:
    for n in range(600):
        put_cell(bench, f"once:{n}", n + 1, b"%d" % n, START + TTL)
        put_shelved(bench, "s", f"{n:03}", b"%d" % n)
    become_former(bench)
    assert await bench.store._call("upgrade", "cells", "") == 1
    assert await bench.store._call("upgrade", "shelf", "s") == 1
    assert 0 < bench.keys("HLEN", "kept:s") < 600
    store = await bench.again()
    assert len(await store.shelf("once")) == len(await store.shelf("s")) == 600
    assert "moving" not in bench.keys("HKEYS", "meta")


async def test_former_workers_are_shut_out_and_their_jobs_not_charged(bench: RedisBench) -> None:
    hand = await bench.worker("former")
    [claim] = await hand.claim()
    become_former(bench)
    with pytest.raises(StoreError, match="format 4, and this version of Windlass reads format 5: start this process"):
        await hand.beat()
    woken = hand.mail.wakes
    store = await bench.again()
    assert bench.keys("HGET", "meta", "numbers").encode(errors="surrogateescape")[0] == 5
    await hand.mail.woken(woken + 1)
    await bench.passes(TTL)
    [job] = await store.get([claim.id])
    assert job is not None
    assert (job.state, job.crashes) == ("ready", 0)


async def test_an_app_of_this_format_is_opened_without_a_call(bench: RedisBench) -> None:
    with bench.counted() as calls:
        await bench.again()
    assert calls.get("fcall", 0) == 0
    assert calls.get("scan", 0) == 0


async def test_the_keys_of_a_cluster_are_brought_over_too(redis_cluster: Cluster) -> None:
    prefix = fresh_prefix()
    node, url = redis_cluster.owner(f"{{{prefix}}}:x"), f"{redis_cluster.url}?prefix={prefix}"
    for n in range(300):
        packed = (n + 1).to_bytes(6, "big") + b"\x7f" * 6 + b"%d" % n
        node.command("HSET", f"{{{prefix}}}:cells", f"once:{n}", packed)
        node.command("ZADD", f"{{{prefix}}}:shelf:s", 0, f"{n:03}")
        node.command("HSET", f"{{{prefix}}}:items:s", f"{n:03}", b"%d" % n)
    node.command("HSET", f"{{{prefix}}}:meta", "numbers", b"\x04" + bytes(22) + bytes([9, 9]) + bytes(12))
    store = RedisStore(url, StoreSettings())
    await store.open()
    for shelf in ("once", "s"):
        assert {item.body for item in await store.shelf(shelf)} == {b"%d" % n for n in range(300)}
    await store.close()
