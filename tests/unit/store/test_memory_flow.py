"""The memory engine's lanes and gates from inside: no opening is lost, every step is bounded, nothing stays behind."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from windlass.core.limits import Limits, Rate
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept
from windlass.store.base import Store, StoreSettings
from windlass.store.items import Put, put_all
from windlass.store.jobs import Action, Declared, Want
from windlass.store.memory import MemoryStore, lanes
from windlass.store.memory.hub import Hub
from windlass.testing.conformance.bench import LEASE, Bench, ManualClock, move, new_job
from windlass.testing.conformance.outcomes import DONE

DAY = 86_400_000
BOTH = {"t": Declared(), "u": Declared()}


@pytest.fixture
async def bench() -> Bench:
    url, clock, settings = f"memory://{uuid4()}", ManualClock(), StoreSettings()

    async def make(*, settings: StoreSettings = settings, clock: Any) -> Store:
        return MemoryStore(url, settings, clock=clock)

    return Bench(make, await make(clock=clock), clock, settings)


def hub_of(bench: Bench) -> Hub:
    assert isinstance(bench.store, MemoryStore)
    return bench.store.hub


async def pass_days(bench: Bench, days: int) -> None:
    """The store sees that time pass in steps, and sweeps as often."""
    for _ in range(days):
        bench.clock.advance(DAY)
        await bench.store.sweep()


class TestOpenings:
    """A unit that came free is offered until someone takes it."""

    async def test_a_heavy_head_that_goes_makes_way_for_a_light_one(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=4)
        await bench.add("stays", "goes", terms=Terms(key="r", units=2))
        worker = await bench.worker()
        _, goes = await worker.claim()
        await bench.add("heavy", terms=Terms(key="h", units=3))
        await bench.add("light", terms=Terms(key="l"))
        reply = await worker.exchange([move(goes, DONE)], want=5)
        assert reply.claims == []
        await bench.change(Action.CANCEL, "heavy")
        assert await worker.ids() == ["light"]

    async def test_a_unit_is_not_kept_by_a_queue_nobody_works_on(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("first")
        worker = await bench.worker()
        first = await worker.take("first")
        await bench.add("elsewhere", queue="deserted")
        await bench.add("here")
        assert await worker.ids() == []
        reply = await worker.exchange([move(first, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["here"]

    async def test_a_lane_that_makes_no_use_of_it_passes_it_on(self, bench: Bench) -> None:
        await bench.limit("breaker:b", limit=1)
        await bench.add("first", terms=Terms(key="1", breaker="b"))
        worker = await bench.worker()
        first = await worker.take("first")
        await bench.add("strange", task="u", terms=Terms(key="2", breaker="b"))
        await bench.add("second", terms=Terms(key="3", breaker="b"))
        assert await worker.ids() == []
        reply = await worker.exchange([move(first, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["second"]

    async def test_what_a_rate_saved_up_meanwhile_is_for_all_who_wait(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=Rate(1_000_000, 5))
        await bench.add(*"abcde")
        worker = await bench.worker()
        assert len(await worker.claim()) == 5
        for key in "xyz":
            await bench.add(key, terms=Terms(key=key))
        assert await worker.ids() == []
        bench.clock.advance(3_000)
        assert sorted(await worker.ids()) == ["x", "y", "z"]


class TestBounds:
    """No step looks at more lanes than it may, and none is looked at for nothing."""

    async def add_keys(self, bench: Bench, count: int) -> None:
        for first in range(0, count, 1_000):
            ids = [f"k{n:05}" for n in range(first, min(first + 1_000, count))]
            await bench.store.insert([new_job(id, terms=Terms(key=id)) for id in ids])

    async def test_a_gate_that_opens_to_all_opens_in_steps(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await self.add_keys(bench, 2_500)
        assert (await bench.gate("task:t")).waiting == 2_500
        worker = await bench.worker()
        assert (await worker.beat()).ready is False
        await bench.limit("task:t", paused=False)
        assert (await bench.gate("task:t")).waiting == 1_500
        assert (await worker.exchange(want=0)).next_due == 0
        await worker.exchange(want=0)
        assert (await bench.gate("task:t")).waiting == 0

    async def test_a_job_of_many_lanes_at_one_gate_costs_a_few_looks(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=2)
        await self.add_keys(bench, 1_000)
        worker = await bench.worker()
        claims = await worker.claim(2)
        with patch.object(lanes, "look", side_effect=lanes.look) as look:
            for _ in range(100):
                reply = await worker.exchange([move(claim, DONE) for claim in claims], want=2)
                claims = reply.claims
                assert len(claims) == 2
        assert look.call_count < 100 * 2 * 8

    async def test_a_job_that_must_run_alone_many_times_over_is_no_deep_call(self, bench: Bench) -> None:
        ids = [f"s{n}" for n in range(1_000)]
        await bench.store.insert([new_job(id, max_crashes=2, terms=Terms(key="k")) for id in ids])
        doomed = await bench.worker("doomed")
        await doomed.exchange(want=Want([("q", 1_000)], 1_000))
        await bench.store.leave("doomed", crashed=True)
        await bench.limit("task:t", paused=True)
        worker = await bench.worker()
        assert await worker.ids() == []
        await bench.limit("task:t", paused=False)
        assert len(await worker.claim()) == 1


class TestNothingStays:
    """What is over leaves nothing behind, beyond what it has to be remembered for."""

    async def test_of_lanes_keys_and_gates(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=3, rate=Rate(1_000, 10))
        for n in range(5):
            await bench.add(f"a{n}", terms=Terms(key=f"{n}", key_rate=Rate(5_000_000), breaker="b"))
            await bench.add(f"b{n}", terms=Terms(key=f"{n}", ordered=True))
            await bench.add(f"c{n}", terms=Terms(key="s", seq=n + 1))
        worker = await bench.worker()
        ran: set[str] = set()
        while len(ran) < 15:
            claims = await worker.claim()
            ran |= {claim.id for claim in claims}
            await worker.exchange([move(claim, DONE) for claim in claims])
            bench.clock.advance(1_000)
        await bench.tune("task:t", tuned=Limits())
        hub = hub_of(bench)
        assert [lane.name for lane in hub.orders["q"].lanes.values()] == ["ss"]
        await bench.store.leave(worker.id)
        await pass_days(bench, 9)
        assert (hub.gates, hub.keys, hub.orders, hub.openings, hub.fading) == ({}, {}, {}, [], [])

    async def test_of_unique_keys_and_items(self, bench: Bench) -> None:
        await bench.add("a", terms=Terms(unique="u", window=5_000))
        await put_all(bench.store, [Put(shelf="s", key="k", body=b"x", ttl=3_000)])
        await bench.change(Action.CANCEL, "a")
        hub = hub_of(bench)
        assert (len(hub.uniques), len(hub.shelves)) == (1, 1)
        bench.clock.advance(5_000)
        await bench.store.sweep()
        assert (hub.uniques, hub.shelves, hub.fading) == ({}, {}, [])

    async def test_of_the_order_in_which_a_full_queue_drops(self, bench: Bench) -> None:
        terms = Terms(max_ready=2, drop_oldest=True)
        await bench.add(*"abc", terms=terms)
        assert "q" in hub_of(bench).oldest
        worker = await bench.worker()
        for n in range(1_200):
            await bench.add(f"j{n}", terms=terms)
            claims = await worker.claim()
            await worker.exchange([move(claim, DONE) for claim in claims])
        assert hub_of(bench).oldest == {}

    async def test_a_job_without_terms_in_a_store_without_gates_meets_none_of_it(self, bench: Bench) -> None:
        with patch.object(lanes, "enter") as enter, patch.object(lanes, "changed") as changed:
            await bench.add("a", "b", delay=0)
            worker = await bench.worker()
            claims = await worker.claim()
            await worker.exchange([move(claim, DONE) for claim in claims])
        assert (enter.called, changed.called) == (False, False)


class TestUnique:
    """Cases at the edges of unique keys."""

    async def test_a_successor_has_its_place_in_a_lane_from_when_it_is_ready(self, bench: Bench) -> None:
        terms = Terms(unique="u", policy=Policy.REPLACE, key="k", ordered=True)
        await bench.add("a", terms=terms)
        worker = await bench.worker()
        a = await worker.take("a")
        await bench.add("b", terms=terms)
        await bench.add("c", terms=Terms(key="k", ordered=True))
        assert await worker.ids() == []
        reply = await worker.exchange([move(a, DONE)], want=5)
        [c] = reply.claims
        reply = await worker.exchange([move(c, DONE)], want=5)
        assert [c.id, *(claim.id for claim in reply.claims)] == ["c", "b"]

    async def test_a_holder_whose_worker_died_for_good_hands_its_key_on(self, bench: Bench) -> None:
        terms = Terms(unique="u", policy=Policy.REPLACE)
        await bench.add("a", terms=terms, max_crashes=1)
        worker = await bench.worker()
        await worker.take("a")
        [answer] = await bench.add("b", terms=terms)
        assert answer.status is Accept.ACCEPTED
        idle = await bench.worker("w2", lease=10 * LEASE)
        await bench.passes(LEASE + 1, idle)
        assert await idle.ids() == ["b"]
