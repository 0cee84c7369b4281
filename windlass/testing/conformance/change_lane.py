"""What operators do to jobs in lanes: each action keeps or changes the place in the line."""

from __future__ import annotations

import pytest

from windlass.core.limits import Limits
from windlass.core.terms import Terms, task_gate
from windlass.store.flow import Tuning
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, Bench
from windlass.testing.conformance.outcomes import DEAD, RETRY_LATER


class LaneChangeRules:
    """Jobs in lanes may be changed like others, and keep to the lanes."""

    async def test_a_rescheduled_job_keeps_its_place_in_a_strict_lane(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", terms=Terms(key="k", ordered=True))
        await bench.change(Action.RESCHEDULE, "b", delay=1_000)
        bench.clock.advance(1_000)
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c"]

    async def test_a_rescheduled_head_lets_the_next_one_go(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        await bench.change(Action.RESCHEDULE, "a", delay=1_000)
        worker = await bench.worker()
        assert await worker.ids() == ["b"]

    async def test_a_promoted_job_goes_into_its_lane(self, bench: Bench) -> None:
        await bench.add("later", delay=HOUR, terms=Terms(key="k", ordered=True))
        await bench.add("a", terms=Terms(key="k", ordered=True))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.PROMOTE, "later")
        assert await worker.claim() == []
        await worker.finish(claim)
        await worker.take("later")

    async def test_a_moved_job_has_a_lane_of_its_new_queue(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        await bench.add("x", queue="other", terms=Terms(key="k", ordered=True))
        here, there = await bench.worker("w1"), await bench.worker("w2", queues=["other"])
        await there.take("x")
        await bench.change(Action.MOVE, "a", queue="other")
        assert (await here.ids(), await there.ids()) == (["b"], [])
        await there.finish(*there.held.values())
        assert await there.ids() == ["a"]

    async def test_a_job_that_has_its_lane_leaves_it_when_it_moves(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        assert await worker.claim() == []
        await bench.change(Action.MOVE, "a", queue="other")
        await worker.take("b")

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_a_job_that_goes_leaves_its_lane_to_the_next(self, bench: Bench, action: Action) -> None:
        await bench.add("a", "b", "c", terms=Terms(key="k", ordered=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        assert await worker.claim() == []
        await bench.change(action, "a", "b")
        await worker.take("c")

    async def test_a_reprioritised_job_changes_its_place_in_a_lane_that_is_not_strict(self, bench: Bench) -> None:
        await bench.store.tune([Tuning(name=task_gate("t"), tuned=Limits(limit=1))])
        await bench.add("a", "b", "c")
        await bench.change(Action.REPRIORITISE, "c", priority=9)
        worker = await bench.worker()
        assert await bench.play(worker) == ["c", "a", "b"]

    async def test_a_reprioritised_job_keeps_its_place_in_a_strict_lane(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", terms=Terms(key="k", ordered=True))
        await bench.change(Action.REPRIORITISE, "c", priority=9)
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c"]
        assert (await bench.job("c")).priority == 9

    async def test_an_edited_job_keeps_its_place_in_its_lane(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        await bench.change(Action.EDIT, "a", payload=b"[2]")
        worker = await bench.worker()
        assert (await worker.take("a")).payload == b"[2]"
        assert await worker.claim() == []

    async def test_a_replayed_job_goes_behind_the_others_of_its_lane(self, bench: Bench) -> None:
        await bench.ended("a", DEAD, terms=Terms(key="k", ordered=True))
        await bench.add("b", terms=Terms(key="k", ordered=True))
        await bench.change(Action.RETRY, "a")
        worker = await bench.worker()
        assert await bench.play(worker) == ["b", "a"]
