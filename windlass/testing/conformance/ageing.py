"""Ageing: a job gains one priority for so much waiting, so that a low one is never kept for ever."""

from __future__ import annotations

from windlass.core.terms import Terms
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench
from windlass.testing.conformance.outcomes import RETRY_NOW

AGED = Terms(ageing=1_000)


class AgeingRules:
    """A job with ``terms.ageing`` gains one priority level for every so many ms of waiting."""

    async def test_it_changes_nothing_among_jobs_that_came_together(self, bench: Bench) -> None:
        for id, priority in (("low", 1), ("a", 5), ("high", 9), ("b", 5)):
            await bench.add(id, priority=priority, terms=AGED)
        worker = await bench.worker()
        assert await worker.ids() == ["high", "a", "b", "low"]

    async def test_who_waited_a_level_longer_precedes(self, bench: Bench) -> None:
        await bench.add("low", priority=4, terms=AGED)
        bench.clock.advance(999)
        await bench.add("soon", terms=AGED)
        bench.clock.advance(2)
        await bench.add("late", terms=AGED)
        worker = await bench.worker()
        assert await worker.ids() == ["soon", "low", "late"]

    async def test_it_counts_level_by_level(self, bench: Bench) -> None:
        await bench.add("lowest", priority=0, terms=AGED)
        bench.clock.advance(8_999)
        await bench.add("soon", priority=9, terms=AGED)
        bench.clock.advance(2)
        await bench.add("late", priority=9, terms=AGED)
        await bench.add("last", priority=8, terms=AGED)
        worker = await bench.worker()
        assert await worker.ids() == ["soon", "lowest", "late", "last"]

    async def test_a_retry_starts_to_age_anew(self, bench: Bench) -> None:
        await bench.add("low", priority=4, terms=AGED)
        worker = await bench.worker()
        low = await worker.take("low")
        bench.clock.advance(3_000)
        await worker.settle(low, RETRY_NOW)
        bench.clock.advance(500)
        await bench.add("a", terms=AGED)
        assert await worker.ids() == ["a", "low"]

    async def test_what_becomes_due_ages_from_then_on(self, bench: Bench) -> None:
        await bench.add("due", priority=4, delay=2_000, terms=AGED)
        bench.clock.advance(2_000)
        await bench.store.sweep()
        bench.clock.advance(500)
        await bench.add("a", terms=AGED)
        worker = await bench.worker()
        assert await worker.ids() == ["a", "due"]

    async def test_it_has_the_middle_priority_among_jobs_that_do_not_age(self, bench: Bench) -> None:
        await bench.add("aged9", priority=9, terms=AGED)
        await bench.add("aged0", priority=0, terms=AGED)
        await bench.add("plain4", priority=4)
        await bench.add("plain6", priority=6)
        worker = await bench.worker()
        assert await worker.ids() == ["plain6", "aged9", "aged0", "plain4"]

    async def test_it_counts_within_the_lane_of_a_key(self, bench: Bench) -> None:
        aged = Terms(key="k", ageing=1_000)
        await bench.add("low", priority=4, terms=aged)
        bench.clock.advance(999)
        await bench.add("soon", terms=aged)
        bench.clock.advance(2)
        await bench.add("late", terms=aged)
        worker = await bench.worker()
        assert await worker.ids() == ["soon", "low", "late"]

    async def test_it_does_not_count_in_a_strict_lane(self, bench: Bench) -> None:
        strict = Terms(key="k", ordered=True, ageing=1_000)
        await bench.add("low", priority=0, terms=strict)
        await bench.add("high", priority=9, terms=strict)
        worker = await bench.worker()
        await worker.finish(await worker.take("low"))
        assert await worker.ids() == ["high"]

    async def test_a_job_that_is_reprioritised_gains_what_its_new_priority_gives(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=AGED)
        await bench.change(Action.REPRIORITISE, "b", priority=9)
        worker = await bench.worker()
        assert await worker.ids() == ["b", "a"]

    async def test_the_lowest_comes_to_its_turn_under_a_stream_of_higher_ones(self, bench: Bench) -> None:
        await bench.add("low", priority=0, terms=AGED)
        worker = await bench.worker()
        for n in range(30):
            await bench.add(f"high{n}", priority=9, terms=AGED)
            claim = await worker.take()
            if claim.id == "low":
                break
            await worker.finish(claim)
            bench.clock.advance(500)
        else:
            raise AssertionError("it never came to its turn")
        assert n >= 18
