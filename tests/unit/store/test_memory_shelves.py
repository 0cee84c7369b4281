"""The memory engine's shelves and sums from inside: nothing stays of what is gone, and writing again adds nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest

from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store, StoreSettings
from windlass.store.items import Put, put_all
from windlass.store.jobs import Action
from windlass.store.memory import MemoryStore
from windlass.testing.conformance.bench import Bench, ManualClock
from windlass.testing.conformance.outcomes import DEAD

TTL = 10_000


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(f"memory://{uuid4()}", StoreSettings(), clock=ManualClock())


@pytest.fixture
def bench(store: MemoryStore) -> Bench:
    clock = store.hub.clock.host
    assert isinstance(clock, ManualClock)

    async def make(*, settings: StoreSettings = store.hub.settings, clock: object) -> Store:
        return store

    return Bench(make, store, clock, store.hub.settings)


def item(key: str, ttl: int = 0, body: bytes | None = b"x") -> Put:
    return Put(shelf="s", key=key, body=body, ttl=ttl)


async def test_an_item_written_again_and_again_is_looked_at_once(store: MemoryStore, bench: Bench) -> None:
    for _ in range(100):
        bench.clock.advance(10)
        await put_all(store, [item("a", TTL)])
    assert len(store.hub.fading) == 1
    await bench.passes(TTL)
    assert [one.key for one in await store.shelf("s")] == []
    await bench.passes(TTL)
    assert (store.hub.shelves, store.hub.fading, store.hub.going) == ({}, [], 0)


async def test_sooner_than_it_was_is_looked_at_sooner(store: MemoryStore, bench: Bench) -> None:
    await put_all(store, [item("a", 100 * TTL)])
    await put_all(store, [item("a", TTL)])
    await bench.passes(TTL)
    assert (store.hub.shelves, store.hub.going) == ({}, 0)


@pytest.mark.parametrize("ttl", [0, TTL])
async def test_nothing_stays_of_a_shelf_that_was_emptied(store: MemoryStore, bench: Bench, ttl: int) -> None:
    await put_all(store, [item("a", ttl), item("b", ttl), item("a", 0, None), item("b", ttl, None)])
    assert (store.hub.shelves, store.hub.going) == ({}, 0)
    await bench.passes(TTL)
    assert store.hub.fading == []


async def test_a_sweep_forgets_so_many_at_once(store: MemoryStore, bench: Bench) -> None:
    for n in range(3):
        await put_all(store, [item(f"{n}-{i}", TTL) for i in range(MAX_BATCH)])
    bench.clock.advance(TTL)
    left = []
    for _ in range(3):
        await store.sweep()
        left.append(store.hub.going)
    assert left == [2 * MAX_BATCH, MAX_BATCH, 0]


async def test_nothing_stays_of_faults_that_are_gone(store: MemoryStore, bench: Bench) -> None:
    await bench.ended("a", DEAD)
    await bench.ended("b", DEAD)
    assert list(store.hub.faults) == ["value-error"]
    await bench.change(Action.RETRY, "a")
    await bench.change(Action.DELETE, "b")
    assert store.hub.faults == {}
