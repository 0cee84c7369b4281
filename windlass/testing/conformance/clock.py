"""The store's time: never backwards, never frozen, and forgiving of a jump."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.testing.conformance.bench import HOUR, LEASE, START, STEP, Bench


class ClockRules:
    """What the store makes of the host's clock."""

    async def test_now_is_the_hosts_clock(self, bench: Bench) -> None:
        assert await bench.now() == START
        bench.clock.advance(1)
        assert await bench.now() == START + 1

    async def test_a_clock_set_back_does_not_take_now_with_it(self, bench: Bench) -> None:
        bench.clock.advance(1_000)
        before = await bench.now()
        bench.clock.advance(-HOUR)
        assert await bench.now() >= before

    async def test_now_goes_on_after_the_clock_was_set_back(self, bench: Bench) -> None:
        before = await bench.now()
        bench.clock.advance(-HOUR)
        middle = await bench.now()
        bench.clock.advance(1_000)
        assert await bench.now() == middle + 1_000
        assert middle - before < 1_000

    async def test_a_clock_set_back_again_and_again_is_hidden_each_time(self, bench: Bench) -> None:
        last = await bench.now()
        for _ in range(5):
            bench.clock.advance(-HOUR)
            bench.clock.advance(100)
            first = await bench.now()
            bench.clock.advance(100)
            now = await bench.now()
            assert last <= first < now
            last = now

    async def test_a_scheduled_job_is_due_in_time_though_the_clock_was_set_back(self, bench: Bench) -> None:
        await bench.add("a", delay=2_000)
        worker = await bench.worker()
        bench.clock.advance(-HOUR)
        assert await worker.claim() == []
        bench.clock.advance(2_000)
        assert await worker.ids() == ["a"]

    async def test_a_clock_set_back_keeps_no_dead_worker_alive(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        bench.clock.advance(-HOUR)
        await bench.store.sweep()
        await bench.passes(LEASE + 1)
        assert await bench.state("a") == State.READY

    async def test_a_correction_forwards_first_eats_what_was_added(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.add("a", delay=HOUR // 2)
        bench.clock.advance(-HOUR)
        before = await bench.now()
        bench.clock.advance(HOUR + 1_000)
        assert before <= await bench.now() <= before + 1_000
        assert await worker.claim() == []

    async def test_time_is_kept_with_the_data(self, bench: Bench) -> None:
        before = await bench.now()
        bench.clock.advance(-HOUR)
        bench.store = await bench.connect()
        assert await bench.now() >= before

    async def test_all_connections_have_one_now(self, bench: Bench) -> None:
        first, other = bench.store, await bench.connect()
        times = []
        for back in (0, HOUR, 5_000):
            bench.clock.advance(100 - back)
            for store in (first, other, first):
                bench.store = store
                times.append(await bench.now())
        assert times == sorted(times)
        bench.clock.advance(500)
        assert await bench.now() == times[-1] + 500


class JumpRules:
    """A paused server or a laptop asleep must not cost anyone his jobs, and must not keep the dead alive."""

    @pytest.mark.parametrize("jump", [LEASE // 2 + 1, LEASE, HOUR])
    async def test_a_jump_moves_the_leases_on(self, bench: Bench, jump: int) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        bench.clock.advance(jump)
        assert (await bench.store.sweep()).dead_workers == []
        assert (await worker.info()).alive
        assert not (await worker.beat()).gone
        await worker.finish(claim)

    async def test_whoever_comes_first_after_a_jump_moves_the_leases_on(self, bench: Bench) -> None:
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        bench.clock.advance(HOUR)
        assert not (await other.beat()).gone
        assert (await bench.store.sweep()).dead_workers == []
        assert not (await worker.beat()).gone

    async def test_a_jump_gives_the_gap_and_not_a_new_lease(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.passes(10_000)
        bench.clock.advance(HOUR)
        assert (await bench.store.sweep()).next_check == LEASE - 10_000
        await bench.passes(LEASE - 10_000)
        assert await bench.state("a") == State.READY

    async def test_a_jump_is_forgiven_once(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        bench.clock.advance(HOUR)
        await bench.store.sweep()
        await bench.store.sweep()
        replies = await bench.passes(LEASE)
        assert sum(reply.recovered for reply in replies) == 1

    async def test_steps_of_half_a_lease_are_no_jump(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker(lease=2 * STEP)
        await worker.take("a")
        for _ in range(2):
            bench.clock.advance(STEP)
            await bench.store.sweep()
        assert await bench.state("a") == State.READY

    async def test_a_worker_that_was_dead_before_the_jump_is_recovered(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        for _ in range(LEASE // STEP):
            bench.clock.advance(STEP)
            await bench.now()
        bench.clock.advance(HOUR)
        assert (await bench.store.sweep()).dead_workers == ["w1"]
        assert await bench.state("a") == State.READY

    async def test_a_worker_that_died_in_its_sleep_is_recovered_later(self, bench: Bench) -> None:
        await bench.add("a")
        worker, awake = await bench.worker("w1"), await bench.worker("w2")
        await worker.take("a")
        for _ in range(3):
            bench.clock.advance(HOUR)
            await awake.beat()
            await bench.store.sweep()
            await bench.passes(LEASE // 3, awake)
        assert await awake.ids() == ["a"]

    async def test_a_jump_makes_scheduled_jobs_due(self, bench: Bench) -> None:
        await bench.add("a", delay=HOUR)
        worker = await bench.worker()
        bench.clock.advance(HOUR)
        assert await worker.ids() == ["a"]
