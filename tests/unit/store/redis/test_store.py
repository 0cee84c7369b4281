"""Small promises of the Redis engine that no other file has a place for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers.redis import RedisServer
from tests.unit.store.redis.store_kit import RedisBench, redis_bench
from windlass.core.job import Fence, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Outcome
from windlass.store.jobs import Action, Query, Want
from windlass.store.redis import library
from windlass.testing.conformance.bench import move
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER, RETRY_NOW


@pytest.fixture
async def bench(redis7: RedisServer) -> AsyncIterator[RedisBench]:
    async with redis_bench(redis7) as bench:
        yield bench


@pytest.mark.parametrize("first", [DONE, DEAD, RETRY_LATER, RETRY_NOW])
@pytest.mark.parametrize("second", [DONE, DEAD, RETRY_LATER, RETRY_NOW])
async def test_only_the_first_of_two_moves_of_one_job_in_one_exchange_counts(
    bench: RedisBench, first: Outcome, second: Outcome
) -> None:
    await bench.add("a")
    hand = await bench.worker()
    claim = await hand.take("a")
    reply = await hand.exchange([move(claim, first), move(claim, second)])
    assert reply.refused == ["a"]
    state = move(claim, first).to
    assert await bench.counts() == {str(state): 1}
    assert (await bench.job("a")).state is state
    indexed = sum(
        bench.keys("ZCARD", name) for name in bench.keys.all() if name.startswith(("ready:", "due", "bucket:", "solo:"))
    )
    assert indexed == 1


async def test_a_fence_is_compared_in_each_of_its_parts_also_for_a_job_that_has_a_head(bench: RedisBench) -> None:
    await bench.add("a", max_crashes=5)
    await bench.crash("a")
    hand = await bench.worker()
    claim = await hand.take("a")
    run, epoch, seq = claim.fence
    for forged in (Fence(run + 1, epoch, seq), Fence(run, epoch - 1, seq), Fence(run, epoch, seq + 1)):
        for outcome in (DONE, RETRY_LATER):
            assert (await hand.exchange([move(claim, outcome, fence=forged)])).refused == ["a"]
            assert not await hand.note(claim, "line", fence=forged)
    assert not (await hand.exchange([move(claim, DONE)])).refused


async def test_a_job_that_got_a_head_while_it_ran_is_settled_by_its_head_alone(bench: RedisBench) -> None:
    """A cancel, a log line: from then on the stamp would tell an old story."""
    await bench.add("a", "b")
    hand = await bench.worker()
    claims = await hand.claim()
    assert all(bench.keys("HSTRLEN", "held:w1", id) for id in "ab")
    await bench.change(Action.CANCEL, "a", reason="enough")
    await hand.note(claims[1], "line")
    assert not any(bench.keys("HSTRLEN", "held:w1", id) for id in "ab")
    await hand.exchange([move(claim, RETRY_NOW) for claim in claims])
    assert await bench.counts() == {"cancelled": 1, "ready": 1}
    assert [line.text for line in await bench.store.lines("b")] == ["line"]
    assert (await bench.job("a")).reason == "enough"


async def test_what_is_young_is_not_looked_at_again_before_it_can_be_old(redis7: RedisServer) -> None:
    """And not a moment later than that."""
    async with redis_bench(redis7, keep=Keep(age=60)) as bench:
        hand = await bench.worker()
        for n in range(3):
            await bench.add(f"j{n}")
            await hand.finish(await hand.take())
        costs = []
        for n in range(3, 5):
            await bench.add(f"j{n}")
            claim = await hand.take()
            with bench.counted() as calls:
                await hand.finish(claim)
            costs.append(calls.get("zrange", 0) + calls.get("hget", 0))
        assert costs[0] == costs[1]
        with bench.counted() as calls:
            await bench.store.sweep()
        assert calls.get("hget", 0) == 0  # no record was looked at
        await bench.passes(55_000, hand)
        assert await bench.counts() == {"succeeded": 5}
        await bench.passes(5_000, hand)
        assert await bench.counts() == {}


def test_a_process_calls_the_functions_it_was_started_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An upgrade of the package under a running process changes the files, not what is loaded already."""
    monkeypatch.setattr(library, "files", lambda _: tmp_path)
    made, names = library.build()
    assert b"register(" in made.code
    assert names["insert"].startswith(made.name.encode())


async def test_a_jump_extends_leases_once_also_if_the_step_that_saw_it_went_no_further(bench: RedisBench) -> None:
    hand = await bench.worker()
    ends = int(bench.keys("HGET", "worker:w1", "until"))
    bench.clock.advance(60_000)
    for seq in (1, 2, 3):
        assert (await bench.store.exchange("never heard of", seq, [], Want([], 0))).gone
    assert int(bench.keys("HGET", "worker:w1", "until")) == ends + 60_000
    assert float(bench.keys("ZSCORE", "leases", "w1")) == ends + 60_000
    assert not (await hand.beat()).gone


async def test_a_jump_does_not_bring_back_who_was_dead_before_it(bench: RedisBench) -> None:
    silent, alive = await bench.worker("silent"), await bench.worker("alive")
    await bench.add("a")
    await silent.take("a")
    for _ in range(4):  # nobody sweeps meanwhile
        bench.clock.advance(4_000)
        await alive.beat()
    bench.clock.advance(60_000)
    reply = await bench.store.sweep()
    assert (reply.dead_workers, reply.recovered) == (["silent"], 1)
    assert not (await alive.beat()).gone


async def test_a_jump_extends_the_leases_it_is_long_for_and_no_others(bench: RedisBench) -> None:
    await bench.worker("short", lease=15_000)
    await bench.worker("long", lease=60_000)
    ends = {id: int(bench.keys("HGET", f"worker:{id}", "until")) for id in ("short", "long")}
    bench.clock.advance(10_000)
    await bench.add("a")
    moved = {id: int(bench.keys("HGET", f"worker:{id}", "until")) - ends[id] for id in ends}
    assert moved == {"short": 10_000, "long": 0}


async def test_a_backlog_behind_many_that_came_since_is_met_at_once(redis7: RedisServer) -> None:
    async with redis_bench(redis7, scan_limit=100) as bench:
        for start in range(0, 2_400, 800):
            await bench.add(*(f"old-{n:04}" for n in range(start, start + 800)), queue="old")
        worker = await bench.worker()
        for round in range(6):
            await bench.add(*(f"new-{round}-{n}" for n in range(100)))
            await worker.finish(*await worker.claim(100))
        page = await bench.store.find(Query(states=(State.READY,), limit=3))
        assert ([job.id for job in page.jobs], page.partial) == (["old-2399", "old-2398", "old-2397"], False)
