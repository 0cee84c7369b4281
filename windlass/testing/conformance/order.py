"""In which order jobs are granted: by priority, then as they became ready; due times to the millisecond."""

from __future__ import annotations

import pytest

from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Want
from windlass.testing.conformance.bench import Bench, new_job
from windlass.testing.conformance.outcomes import BACK, RETRY_LATER, RETRY_NOW, SNOOZE


class OrderRules:
    """Ready order, due order, and how much of it one exchange takes."""

    async def test_jobs_of_one_priority_come_in_the_order_they_became_ready(self, bench: Bench) -> None:
        await bench.add("c", "a")
        await bench.add("b")
        worker = await bench.worker()
        assert await worker.ids() == ["c", "a", "b"]

    async def test_a_higher_priority_comes_first(self, bench: Bench) -> None:
        priorities = [5, 0, 9, 4, 6, 9, 1]
        await bench.store.insert([new_job(f"{p}-{n}", priority=p) for n, p in enumerate(priorities)])
        worker = await bench.worker()
        assert await worker.ids() == ["9-2", "9-5", "6-4", "5-0", "4-3", "1-6", "0-1"]

    async def test_order_holds_across_exchanges(self, bench: Bench) -> None:
        await bench.add(*[f"j{n:02}" for n in range(30)])
        worker = await bench.worker()
        taken = [id for _ in range(10) for id in await worker.ids(3)]
        assert taken == [f"j{n:02}" for n in range(30)]

    async def test_a_late_job_of_high_priority_overtakes(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.add("a", "b", "c")
        await worker.take("a")
        await bench.add("z", priority=6)
        assert await worker.ids() == ["z", "b", "c"]

    async def test_due_jobs_come_in_the_order_they_were_due(self, bench: Bench) -> None:
        for id, delay in [("c", 30), ("a", 10), ("d", 31), ("b", 20)]:
            await bench.add(id, delay=delay)
        bench.clock.advance(50)
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b", "c", "d"]

    async def test_jobs_due_together_come_in_the_order_they_were_accepted(self, bench: Bench) -> None:
        await bench.add("b", "a", delay=10)
        await bench.add("c", delay=10)
        bench.clock.advance(10)
        worker = await bench.worker()
        assert await worker.ids() == ["b", "a", "c"]

    async def test_a_job_is_due_to_the_millisecond(self, bench: Bench) -> None:
        await bench.add("a", delay=1_000)
        worker = await bench.worker()
        bench.clock.advance(999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert await worker.ids() == ["a"]

    async def test_a_due_job_of_high_priority_goes_first(self, bench: Bench) -> None:
        await bench.add("late", delay=10, priority=9)
        await bench.add("a", "b")
        bench.clock.advance(10)
        worker = await bench.worker()
        assert await worker.ids() == ["late", "a", "b"]

    async def test_a_job_retried_at_once_goes_behind_those_that_were_ready(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_NOW)
        assert await worker.ids() == ["b", "c", "a"]

    async def test_a_retried_job_keeps_its_priority(self, bench: Bench) -> None:
        await bench.add("a", priority=7)
        await bench.add("b", "c")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_NOW)
        assert await worker.ids() == ["a", "b", "c"]

    async def test_a_retry_and_a_snooze_come_back_when_due_behind_what_was_ready(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        await worker.settle(await worker.take("b"), SNOOZE)
        await bench.add("c")
        bench.clock.advance(2_000)
        assert await worker.ids() == ["c", "a"]
        bench.clock.advance(1_000)
        assert await worker.ids() == ["b"]

    async def test_a_due_time_that_was_overtaken_is_forgotten(self, bench: Bench) -> None:
        await bench.add("first", delay=500)
        await bench.add("a", delay=1_000)
        await bench.change(Action.PROMOTE, "a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        bench.clock.advance(1_000)
        assert await worker.ids() == ["first"]
        bench.clock.advance(1_000)
        assert await worker.ids() == ["a"]

    async def test_a_job_handed_back_keeps_its_place(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), BACK)
        assert await worker.ids() == ["a", "b", "c"]

    async def test_wanted_queues_are_served_in_order_each_up_to_its_cap(self, bench: Bench) -> None:
        await bench.add("x1", "x2", queue="x")
        await bench.add("y1", "y2", "y3", queue="y", priority=9)
        worker = await bench.worker(queues=["x", "y"])
        reply = await worker.exchange(want=Want([("x", 1), ("y", 5)], 3))
        assert [claim.id for claim in reply.claims] == ["x1", "y1", "y2"]

    async def test_the_total_bounds_what_the_queues_would_allow(self, bench: Bench) -> None:
        await bench.add("x1", "x2", queue="x")
        await bench.add("y1", "y2", queue="y")
        worker = await bench.worker(queues=["x", "y"])
        reply = await worker.exchange(want=Want([("y", 2), ("x", 2)], 3))
        assert [claim.id for claim in reply.claims] == ["y1", "y2", "x1"]

    @pytest.mark.parametrize("want", [Want([("q", 5)], 0), Want([("q", 0)], 5), Want([], 5), Want([("other", 5)], 5)])
    async def test_what_is_not_wanted_is_not_granted(self, bench: Bench, want: Want) -> None:
        await bench.add("a")
        worker = await bench.worker(queues=["q", "other"])
        assert (await worker.exchange(want=want)).claims == []
        assert (await bench.job("a")).epoch == 0

    async def test_one_exchange_grants_at_most_a_batch(self, bench: Bench) -> None:
        await bench.add(*[f"j{n}" for n in range(MAX_BATCH)])
        await bench.add("last")
        worker = await bench.worker()
        assert len(await worker.claim(2 * MAX_BATCH)) == MAX_BATCH
        assert await worker.ids() == ["last"]

    async def test_a_promoted_job_goes_behind_what_was_ready(self, bench: Bench) -> None:
        await bench.add("later", delay=10_000)
        await bench.add("a")
        await bench.change(Action.PROMOTE, "later")
        await bench.add("b")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "later", "b"]
