"""Jobs of lanes that leave their line: changed by hand, set aside, parked."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import Bench, move
from windlass.testing.conformance.gates import TASKS
from windlass.testing.conformance.lanes import add_lanes, key
from windlass.testing.conformance.outcomes import DONE
from windlass.testing.conformance.solo import add_solo
from windlass.testing.conformance.wake import idle_workers


class LaneHandRules:
    """What is done to a job by hand is done to its lane."""

    async def test_a_cancelled_or_deleted_job_leaves_its_lane(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 4)
        await add_lanes(bench, "b", 1)
        await bench.change(Action.CANCEL, "a0", "b0")
        await bench.change(Action.DELETE, "a2")
        assert (await bench.queue()).lanes == 1
        worker = await bench.worker()
        assert await worker.ids() == ["a1", "a3"]

    async def test_a_moved_job_gets_a_lane_of_the_new_queue(self, bench: Bench) -> None:
        await bench.add("x0", queue="x", **key("a", key_limit=1))
        await add_lanes(bench, "a", 2, key_limit=1)
        await bench.change(Action.MOVE, "a0", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        assert sorted(await worker.ids()) == ["a1", "x0"]
        await worker.finish(worker.held["x0"])
        assert await worker.ids() == ["a0"]

    async def test_a_moved_job_wakes_in_the_new_queue(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 1)
        [idle] = await idle_workers(bench, 1, queues=["x"])
        await bench.change(Action.MOVE, "a0", queue="x")
        await idle.mail.woken()
        assert await idle.ids() == ["a0"]

    async def test_a_reprioritised_job_moves_within_its_lane_and_its_lane_among_others(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3)
        await bench.change(Action.REPRIORITISE, "b2", priority=8)
        await bench.change(Action.REPRIORITISE, "a0", priority=1)
        worker = await bench.worker()
        assert await worker.ids() == ["b2", "a1", "b0", "a2", "b1", "a0"]

    async def test_a_promoted_job_joins_its_lane(self, bench: Bench) -> None:
        await bench.add("a9", delay=60_000, **key("a", key_limit=1))
        await add_lanes(bench, "a", 1, key_limit=1)
        await bench.change(Action.PROMOTE, "a9")
        worker = await bench.worker()
        assert await worker.ids() == ["a0"]
        await worker.finish(worker.held["a0"])
        assert await worker.ids() == ["a9"]

    async def test_a_rescheduled_job_leaves_its_lane_and_comes_back_in_time(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 2)
        await bench.change(Action.RESCHEDULE, "a0", delay=2_000)
        assert (await bench.job("a0")).state == State.SCHEDULED
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["a1"], 2_000)
        bench.clock.advance(2_000)
        assert await worker.ids() == ["a0"]

    async def test_one_rescheduled_into_the_past_is_ready_in_its_lane(self, bench: Bench) -> None:
        await bench.add("a0", delay=60_000, **key("a"))
        await bench.change(Action.RESCHEDULE, "a0", at=1)
        worker = await bench.worker()
        assert await worker.ids() == ["a0"]

    async def test_a_replayed_job_joins_its_lane(self, bench: Bench) -> None:
        await bench.ended("a0", **key("a", key_limit=1))
        await bench.add("a1", **key("a", key_limit=1))
        await bench.change(Action.RETRY, "a0")
        worker = await bench.worker()
        assert await worker.ids() == ["a1"]
        await worker.finish(worker.held["a1"])
        assert await worker.ids() == ["a0"]

    async def test_counts_and_ages_take_lanes_in(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 2, key_limit=1)
        bench.clock.advance(700)
        await bench.add("p")
        worker = await bench.worker()
        info = await bench.queue()
        assert (info.counts["ready"], info.oldest_ready) == (5, 700)
        assert sorted(await worker.ids()) == ["a0", "b0", "p"]
        info = await bench.queue()
        assert (info.counts["ready"], info.oldest_ready) == (2, 700)

    async def test_the_last_word_of_a_purge_leaves_no_lane_behind(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await add_lanes(bench, "abcde", 3)
        worker = await bench.worker()
        assert await worker.ids() == []
        await bench.change(Action.DELETE, *[f"{one}{n}" for one in "abcde" for n in range(3)])
        assert (await bench.gate("task:t")).waiting == 0
        assert (await bench.queue()).lanes == 0
        await bench.add("a9", **key("a"))
        await bench.limit("task:t", paused=False)
        assert await worker.ids() == ["a9"]


class LaneAsideRules:
    """What is set aside, or must run alone, comes back with all its gates."""

    async def test_an_undeclared_head_is_in_nobodys_way(self, bench: Bench) -> None:
        await bench.add("n0", task="new", **key("a"))
        await bench.add("a0", **key("a"))
        await bench.add("b0", **key("b"))
        old = await bench.worker("old")
        assert sorted(await old.ids()) == ["a0", "b0"]
        new = await bench.worker("new", declares={"new": Declared()})
        assert await new.ids() == ["n0"]

    async def test_one_set_aside_is_granted_only_if_its_gates_are_open(self, bench: Bench) -> None:
        await bench.add("n0", "n1", task="new", **key("a", key_limit=1))
        old = await bench.worker("old")
        assert await old.ids() == []
        new = await bench.worker("new", declares={"new": Declared()})
        [n0] = await new.claim()
        assert n0.id == "n0"
        await new.finish(n0)
        assert await new.ids() == ["n1"]

    async def test_one_set_aside_whose_task_is_paused_since_waits(self, bench: Bench) -> None:
        await bench.add("n0", "n1", task="new")
        old = await bench.worker("old")
        assert await old.ids() == []
        await bench.store.leave("old")
        await bench.limit("task:new", paused=True)
        [idle] = await idle_workers(bench, 1, declares={"new": Declared()})
        await bench.limit("task:new", paused=False)
        await idle.mail.woken()
        assert await idle.ids() == ["n0", "n1"]

    async def test_one_set_aside_in_a_limited_queue_waits(self, bench: Bench) -> None:
        await bench.add("n0", "n1", task="new")
        old = await bench.worker("old")
        assert await old.ids() == []
        await bench.limit("queue:q", limit=1)
        new = await bench.worker("new", declares={"new": Declared()})
        [first] = await new.claim()
        reply = await new.exchange([move(first, DONE)], want=5)
        assert len(reply.claims) == 1

    @pytest.mark.parametrize("gate", ["queue:q", "task:new"])
    async def test_a_unit_that_comes_free_wakes_for_one_set_aside(self, bench: Bench, gate: str) -> None:
        await bench.add("n0", "n1", task="new")
        old = await bench.worker("old")
        assert await old.ids() == []
        await bench.store.leave("old")
        await bench.limit(gate, limit=1)
        new = await bench.worker("new", declares={"new": Declared()})
        n0 = await new.take("n0")
        [idle] = await idle_workers(bench, 1, declares={"new": Declared()})
        await new.finish(n0)
        await idle.mail.woken()
        assert await idle.ids() == ["n1"]

    async def test_what_waits_at_a_gate_is_not_lost_to_workers_that_do_not_declare_it(self, bench: Bench) -> None:
        await bench.limit("task:new", paused=True)
        await bench.add("n0", task="new")
        old = await bench.worker("old")
        assert await old.ids() == []
        await bench.limit("task:new", paused=False)
        assert await old.ids() == []
        new = await bench.worker("new", declares={"new": Declared()})
        assert await new.ids() == ["n0"]

    async def test_one_that_must_run_alone_waits_at_its_gates(self, bench: Bench) -> None:
        await add_solo(bench)
        await bench.limit("task:t", paused=True)
        [idle] = await idle_workers(bench, 1)
        await bench.limit("task:t", paused=False)
        await idle.mail.woken()
        await bench.add("a")
        assert await idle.ids() == ["solo"]

    async def test_one_that_must_run_alone_is_charged(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await add_solo(bench)
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        solo = await worker.take("solo")
        assert (await bench.gate("task:t")).held == 1
        await bench.add("a")
        assert await other.ids() == []
        await worker.finish(solo)
        assert await other.ids() == ["a"]

    @pytest.mark.parametrize("gate", ["task:t", "queue:q"])
    async def test_nobody_drains_for_one_whose_gate_is_closed(self, bench: Bench, gate: str) -> None:
        await bench.add("x", task="u", queue="x")
        busy = await bench.worker(queues=["q", "x"], declares=TASKS)
        await busy.take("x")
        await add_solo(bench)
        await bench.limit(gate, paused=True)
        await bench.add("y", task="u", queue="x")
        reply = await busy.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.drain) == (["y"], False)
        await bench.limit(gate, paused=False)
        assert (await busy.exchange(want=5)).drain

    async def test_one_that_must_run_alone_in_a_limited_key(self, bench: Bench) -> None:
        await bench.add("solo", max_crashes=2, **key("a", key_limit=1))
        await bench.crash("solo")
        await bench.add("a0", **key("a", key_limit=1))
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        taken = [*await worker.ids(), *await other.ids()]
        assert len(taken) == 1
        hand = worker if worker.held else other
        await hand.finish(*list(hand.held.values()))
        taken += [*await worker.ids(), *await other.ids()]
        assert sorted(taken) == ["a0", "solo"]
