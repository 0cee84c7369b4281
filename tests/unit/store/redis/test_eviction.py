"""Keys that are lost (evicted, deleted by hand): the jobs of a dead worker are found and given back all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from tests.servers.fixtures import KINDS
from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import Keys, RedisBench, redis_bench
from windlass.core.job import State
from windlass.testing.conformance.bench import LEASE
from windlass.testing.conformance.outcomes import DONE, RETRY_NOW

pytestmark = pytest.mark.parametrize("kind", KINDS)

AUDIT = 60_000


@pytest.fixture
async def bench(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[RedisBench]:
    server: RedisServer = request.getfixturevalue(kind)
    async with redis_bench(server, audit_every=AUDIT) as bench:
        yield bench


def lose_leases(keys: Keys) -> None:
    keys("DEL", "leases")


def lose_held(keys: Keys) -> None:
    keys("DEL", "held:w1")


def lose_both(keys: Keys) -> None:
    lose_held(keys)
    lose_leases(keys)


def lose_workers(keys: Keys) -> None:
    lose_held(keys)
    keys("DEL", "workers")


def lose_all_of_it(keys: Keys) -> None:
    lose_workers(keys)
    lose_leases(keys)
    keys("DEL", "worker:w1")


Loss = Callable[[Keys], None]
LOSSES = [lose_leases, lose_held, lose_both, lose_workers, lose_all_of_it]


@pytest.mark.parametrize("lose", LOSSES)
async def test_the_jobs_of_a_dead_worker_are_found(bench: RedisBench, lose: Loss) -> None:
    """One that runs for the first time, one that does not, and one that waits, which is left alone."""
    await bench.ended("again", RETRY_NOW)
    await bench.add("first", "other")
    worker = await bench.worker()
    claims = await worker.claim(2)
    assert {claim.id for claim in claims} == {"again", "first"}
    lose(bench.keys)
    await bench.passes(LEASE + 1)
    for _ in range(4):
        await bench.passes(AUDIT + 1)
    assert await bench.counts() == {"ready": 3}
    second = await bench.worker("w2")
    granted = await second.claim(5)
    assert sorted(claim.id for claim in granted) == ["again", "first", "other"]
    before = {claim.id: claim.fence for claim in claims}
    assert all(claim.fence.epoch > before[claim.id].epoch for claim in granted if claim.id in before)
    late = await worker.settle(claims[0], DONE)
    assert late.gone
    assert late.refused == [claims[0].id]
    for claim in granted:
        assert (await second.settle(claim, DONE)).refused == []
    assert await bench.counts() == {"succeeded": 3}


async def test_a_live_worker_whose_jobs_were_lost_is_told_so_and_they_run_again(bench: RedisBench) -> None:
    await bench.add("a")
    worker = await bench.worker()
    claim = await worker.take("a")
    lose_held(bench.keys)
    assert (await worker.beat(held=["a"])).lost == ["a"]
    await bench.passes(AUDIT + 1, worker)
    await bench.passes(AUDIT + 1, worker)
    assert await bench.state("a") == State.READY
    assert (await worker.settle(claim, DONE)).refused == ["a"]


async def test_it_goes_on_in_bounded_steps(bench: RedisBench) -> None:
    await bench.add(*(f"j{n}" for n in range(999)))
    await bench.add("last-1", "last-2", "last-3")
    worker = await bench.worker()
    await worker.claim(1_000)
    await worker.claim(2)
    lose_held(bench.keys)
    seen = [0]
    for _ in range(6):
        bench.clock.advance(LEASE)
        await bench.store.sweep()
        seen.append((await bench.counts()).get("ready", 0))
    assert seen[-1] == 1_002
    assert max(now - before for before, now in pairwise(seen)) <= 1_000


async def test_nothing_is_looked_over_while_nothing_is_missing(bench: RedisBench) -> None:
    await bench.add("a", "b")
    worker = await bench.worker()
    await worker.take("a")
    await bench.passes(AUDIT + 1, worker)
    assert bench.keys("HGET", "meta", "strays_list") in ("", None)
    assert await bench.states("a", "b") == ["running", "ready"]
