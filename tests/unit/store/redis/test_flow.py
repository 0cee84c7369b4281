"""What the Redis engine keeps for lanes and gates: nothing of what is not used, little work in one call, and no unit or
lane lost with a damaged record."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits, Rate
from windlass.core.terms import Policy, Terms
from windlass.store.answers import MAX_BATCH
from windlass.store.flow import Tuning
from windlass.testing.conformance.bench import move, new_job
from windlass.testing.conformance.outcomes import DONE

DAY = 24 * 3_600_000
FLOW = {"gates", "tallies", "openings", "fading", "laned", "turns", "strict", "uniques"}


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7) as bench:
        yield bench


def left(bench: RedisBench) -> set[str]:
    """The keys of lanes, gates and the like that are there."""
    prefixes = ("lane:", "lanes:", "stays:", "waits:")
    return {key for key in bench.keys.all() if key in FLOW or key.startswith(prefixes)}


def damage(bench: RedisBench, id: str) -> None:
    bench.keys("HSET", "heads", id, "nonsense")


async def test_plain_jobs_leave_no_trace_of_lanes_and_gates(bench: RedisBench) -> None:
    await bench.add(*"abc")
    hand = await bench.worker()
    await hand.finish(*await hand.claim())
    assert left(bench) == set()
    assert bench.keys("HKEYS", "meta") == ["numbers", "workers"]


async def test_nothing_stays_of_keys_that_are_not_used(bench: RedisBench) -> None:
    rated = Terms(key="r", key_limit=1, key_rate=Rate(1_000_000, 1))
    await bench.add(*[f"r{n}" for n in range(3)], terms=rated)
    await bench.add(*[f"o{n}" for n in range(3)], terms=Terms(key="o", ordered=True))
    await bench.add(*[f"s{n}" for n in range(1, 4)], terms=Terms(key="s", seq=1))
    await bench.add("u", terms=Terms(unique="u", window=1_000))
    hand = await bench.worker()
    for _ in range(12):
        await hand.finish(*await hand.claim())
        bench.clock.advance(1_000)
    assert await bench.counts() == {"succeeded": 10}
    await bench.store.sweep()
    assert left(bench) == {"fading", "strict"}  # the number that a lane expects is kept for a week
    bench.clock.advance(7 * DAY)
    await hand.beat()
    await bench.store.sweep()
    assert left(bench) == set()


async def test_a_gate_that_is_no_more_leaves_nothing(bench: RedisBench) -> None:
    await bench.add(*[f"j{n}" for n in range(5)])
    await bench.store.tune([Tuning(name="task:t", tuned=Limits(limit=2, rate=Rate(1_000, 1)), note=b"x")])
    hand = await bench.worker()
    claims = await hand.claim()
    await bench.store.tune([Tuning(name="task:t", tuned=NO_LIMITS, note=b"")])
    await hand.exchange([move(claim, DONE) for claim in claims], want=9)
    await hand.finish(*hand.held.values())
    bench.clock.advance(1_000)
    await bench.store.sweep()
    assert left(bench) == set()


async def test_a_damaged_job_that_runs_gives_its_units_back(bench: RedisBench) -> None:
    for gate in ("queue:q", "task:t", "breaker:b"):
        await bench.store.tune([Tuning(name=gate, tuned=Limits(limit=2))])
    terms = Terms(key="k", key_limit=2, units=2, breaker="b", ageing=1_000)  # such a one has a head, to be damaged
    await bench.add("a", "b", terms=terms)
    hand = await bench.worker()
    claim = await hand.take("a")
    damage(bench, "a")
    reply = await hand.exchange([move(claim, DONE)], want=5)
    assert reply.refused == ["a"]
    assert [claim.id for claim in reply.claims] == ["b"]
    names = ["queue:q", "task:t", "breaker:b", "key:q:k"]
    assert [info.held for info in await bench.store.gates(names)] == [2, 2, 2, 2]


@pytest.mark.parametrize("runs", [False, True])
async def test_a_damaged_job_leaves_its_lane_and_its_key(bench: RedisBench, runs: bool) -> None:
    await bench.add("a", "b", terms=Terms(key="o", ordered=True))
    await bench.add("u", terms=Terms(unique="u", policy=Policy.REPLACE))
    hand = await bench.worker()
    claims = await hand.claim()
    assert sorted(claim.id for claim in claims) == ["a", "u"]
    await bench.add("v", terms=Terms(unique="u", policy=Policy.REPLACE))
    if not runs:
        await bench.store.leave(hand.id)
        hand = await bench.worker("w2")
    damage(bench, "a")
    damage(bench, "u")
    moves = [move(claim, DONE) for claim in claims] if runs else []
    await hand.exchange(moves, want=5)
    assert {"b", "v"} <= {*hand.held, *await hand.ids()}
    assert await bench.states("a", "u") == [State.FAILED, State.FAILED]


async def test_a_claim_over_many_lanes_is_a_few_commands_for_each(bench: RedisBench) -> None:
    for start in range(0, 3_000, MAX_BATCH):
        jobs = [
            new_job(f"j{n}", terms=Terms(key=f"k{n % 1_500}", key_limit=1)) for n in range(start, start + MAX_BATCH)
        ]
        with bench.counted() as calls:
            await bench.store.insert(jobs)
        assert sum(calls.values()) < 4 * MAX_BATCH
    hand = await bench.worker()
    with bench.counted() as calls:
        claims = await hand.claim(500)
    assert len(claims) == 500
    assert sum(calls.values()) < 8 * 500
    with bench.counted() as calls:
        await hand.exchange([move(claim, DONE) for claim in claims], want=500)
    assert sum(calls.values()) < 20 * 500


async def test_a_claim_of_many_jobs_of_few_lanes_costs_by_the_lane(bench: RedisBench) -> None:
    await bench.store.insert([new_job(f"j{n}", terms=Terms(key=f"k{n % 10}")) for n in range(MAX_BATCH)])
    hand = await bench.worker()
    with bench.counted() as calls:
        assert len(await hand.claim(500)) == 500
    assert sum(calls.values()) < 150


async def test_a_claim_past_many_lanes_that_must_wait_is_bounded(bench: RedisBench) -> None:
    for start in range(0, 3_000, MAX_BATCH):
        await bench.store.insert([new_job(f"j{n}", terms=Terms(key=f"k{n}")) for n in range(start, start + MAX_BATCH)])
    await bench.store.tune([Tuning(name="task:t", tuned=Limits(paused=True))])
    hand = await bench.worker()
    for _ in range(3):
        with bench.counted() as calls:
            assert await hand.claim(100) == []
        assert sum(calls.values()) < 20 * MAX_BATCH
    for _ in range(4):
        with bench.counted() as calls:
            await hand.claim(100)
    with bench.counted() as calls:
        await bench.store.tune([Tuning(name="task:t", tuned=Limits(paused=False))])
    assert sum(calls.values()) < 20 * MAX_BATCH
    seen = 0
    for _ in range(100):
        claims = await hand.claim(100)
        seen += len(claims)
        await hand.finish(*claims)
        if seen == 3_000:
            break
    assert seen == 3_000


async def test_numbers_lost_with_a_key_find_lanes_and_gates_again(bench: RedisBench) -> None:
    await bench.store.tune([Tuning(name="task:u", tuned=Limits(paused=True))])
    await bench.add("a", terms=Terms(key="k"))
    await bench.add("b", task="u")
    bench.keys("DEL", "meta")
    hand = await bench.worker()
    assert await hand.ids() == ["a"]
    assert await bench.state("b") == State.READY
