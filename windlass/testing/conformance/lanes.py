"""Lanes: jobs of one key, or of one limited task, take turns with others, and only their own head keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits, Rate
from windlass.core.terms import Terms
from windlass.store.flow import Tuning
from windlass.store.jobs import Action, Declared, Want
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move, new_job
from windlass.testing.conformance.gates import TASKS, a_second
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.graph_drafts import GraphDraft, chain
from windlass.testing.conformance.outcomes import BACK, DONE, RETRY_LATER, RETRY_NOW
from windlass.testing.conformance.solo import add_solo
from windlass.testing.conformance.wake import idle_workers, woken

MANY = 2_000


def key(name: str, **fields: Any) -> dict[str, Any]:
    """The fields of a job with this key."""
    return {"terms": Terms(key=name, **fields)}


async def add_lanes(bench: Bench, keys: str, each: int, **fields: Any) -> None:
    """``each`` jobs of every key, lane by lane: a0 a1 … b0 b1 …"""
    for one in keys:
        await bench.add(*[f"{one}{n}" for n in range(each)], **key(one, **fields))


async def one_by_one(hand: Hand, times: int) -> list[str]:
    return [id for _ in range(times) for id in await hand.ids(1)]


class TurnRules:
    """Priority first; among equals, lanes take turns."""

    async def test_lanes_take_turns(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3)
        await bench.add("c0", **key("c"))
        worker = await bench.worker()
        assert await worker.ids() == ["a0", "b0", "c0", "a1", "b1", "a2", "b2"]

    async def test_turns_go_on_from_exchange_to_exchange_and_over_workers(self, bench: Bench) -> None:
        await add_lanes(bench, "abc", 3)
        first, second = await bench.worker("w1"), await bench.worker("w2")
        taken = [id for hand in (first, second) * 5 for id in await hand.ids(1)]
        assert taken == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]

    async def test_a_new_lane_goes_behind_all_others(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3)
        worker = await bench.worker()
        await worker.take("a0")
        await bench.add("b0", "b1", **key("b"))
        assert await worker.ids() == ["a1", "b0", "a2", "b1"]

    async def test_a_lane_that_was_empty_goes_behind_all_others(self, bench: Bench) -> None:
        await add_lanes(bench, "abc", 1)
        worker = await bench.worker()
        await worker.take("a0")
        await bench.add("a1", **key("a"))
        assert await worker.ids() == ["b0", "c0", "a1"]

    async def test_many_of_one_key_do_not_keep_another_waiting(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 500)
        await bench.add("b0", **key("b"))
        worker = await bench.worker()
        assert "b0" in await worker.ids(2)

    async def test_the_plain_order_is_one_lane_among_them(self, bench: Bench) -> None:
        await bench.add(*[f"p{n}" for n in range(4)])
        await add_lanes(bench, "ab", 4)
        worker = await bench.worker()
        taken = await worker.ids(12)
        for n in range(4):
            assert sorted(taken[3 * n : 3 * n + 3]) == [f"a{n}", f"b{n}", f"p{n}"], taken
        assert [id for id in taken if id[0] != "p"] == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]

    async def test_without_lanes_the_plain_order_is_as_it_ever_was(self, bench: Bench) -> None:
        await bench.add("k0", **key("k"))
        worker = await bench.worker()
        await worker.take("k0")
        await bench.add(*"abc")
        await bench.add("z", priority=9)
        assert await worker.ids() == ["z", "a", "b", "c"]

    async def test_the_highest_head_comes_first_wherever_it_is(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 2)
        await bench.add("b0", "b1", priority=7, **key("b"))
        await bench.add("p9", priority=9)
        await bench.add("p1", priority=1)
        await bench.add("c0", priority=8, **key("c"))
        worker = await bench.worker()
        assert await worker.ids() == ["p9", "c0", "b0", "b1", "a0", "a1", "p1"]

    async def test_within_a_lane_the_higher_priority_comes_first(self, bench: Bench) -> None:
        for n, priority in enumerate([5, 2, 9, 5, 7]):
            await bench.add(f"a{n}", priority=priority, **key("a"))
        worker = await bench.worker()
        assert await worker.ids() == ["a2", "a4", "a0", "a3", "a1"]

    async def test_a_lane_whose_head_got_higher_goes_first(self, bench: Bench) -> None:
        await add_lanes(bench, "abc", 2)
        await bench.add("c9", priority=9, **key("c"))
        worker = await bench.worker()
        assert await worker.ids(3) == ["c9", "a0", "b0"]

    async def test_different_tasks_of_one_key_share_a_lane(self, bench: Bench) -> None:
        await bench.add("k0", **key("k"))
        await bench.add("k1", task="u", **key("k"))
        await bench.add("k2", **key("k"))
        await bench.add("a0", "a1", **key("a"))
        worker = await bench.worker(declares=TASKS)
        assert await worker.ids() == ["k0", "a0", "k1", "a1", "k2"]

    async def test_the_same_key_in_another_queue_is_another_lane(self, bench: Bench) -> None:
        await bench.add("q0", "q1", **key("k", key_limit=1))
        await bench.add("x0", "x1", queue="x", **key("k", key_limit=1))
        worker = await bench.worker(queues=["q", "x"])
        assert await worker.ids() == ["q0", "x0"]

    async def test_a_retry_goes_to_the_end_of_its_lane(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3)
        worker = await bench.worker()
        await worker.settle(await worker.take("a0"), RETRY_NOW)
        assert await worker.ids() == ["a1", "a2", "a0"]

    async def test_what_is_handed_back_keeps_its_place_in_its_lane(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3)
        worker = await bench.worker()
        await worker.settle(await worker.take("a0"), BACK)
        assert await worker.ids() == ["a0", "a1", "a2"]

    async def test_what_a_worker_leaves_behind_keeps_its_place_in_its_lane(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 2)
        worker = await bench.worker("w1")
        assert await worker.ids(2) == ["a0", "b0"]
        await bench.store.leave("w1")
        other = await bench.worker("w2")
        taken = await other.ids()
        assert [id for id in taken if id[0] == "a"] == ["a0", "a1"]
        assert [id for id in taken if id[0] == "b"] == ["b0", "b1"]

    async def test_what_becomes_due_joins_its_lane(self, bench: Bench) -> None:
        await bench.add("a0", delay=1_000, **key("a"))
        await add_lanes(bench, "b", 2)
        worker = await bench.worker()
        await worker.take("b0")
        bench.clock.advance(1_000)
        assert await worker.ids() == ["b1", "a0"]
        await worker.settle(worker.held["a0"], RETRY_LATER)
        bench.clock.advance(2_000)
        assert await worker.ids() == ["a0"]

    async def test_a_job_for_a_batch_and_a_heavy_one_have_a_lane_of_their_task(self, bench: Bench) -> None:
        for task, terms in (("t", Terms(batch=True)), ("u", Terms(units=2))):
            await bench.add(*[f"{task}{n}" for n in range(3)], task=task, terms=terms)
        worker = await bench.worker(declares=TASKS)
        assert await worker.ids() == ["t0", "u0", "t1", "u1", "t2", "u2"]

    async def test_an_insert_into_a_lane_wakes_like_any_other(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 3)
        await bench.add("a0", **key("a"))
        await bench.add("b0", **key("b"))
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_a_beat_says_that_a_lane_has_work(self, bench: Bench) -> None:
        worker = await bench.worker()
        assert not (await worker.beat()).ready
        await bench.add("a0", **key("a"))
        assert (await worker.beat()).ready

    async def test_thousands_of_keys_cost_no_turn(self, bench: Bench) -> None:
        jobs = [new_job(f"j{n}", **key(f"k{n % MANY}")) for n in range(2 * MANY)]
        for first in range(0, len(jobs), 1_000):
            await bench.store.insert(jobs[first : first + 1_000])
        worker = await bench.worker()
        taken = [id for _ in range(4) for id in await worker.ids(1_000)]
        assert taken == [f"j{n}" for n in range(2 * MANY)]

    async def test_caps_and_totals_hold_for_lanes(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3)
        await bench.add("x0", "x1", queue="x", **key("k"))
        worker = await bench.worker(queues=["q", "x"])
        reply = await worker.exchange(want=Want([("q", 2), ("x", 5)], 3))
        assert [claim.id for claim in reply.claims] == ["a0", "b0", "x0"]


class KeyRules:
    """Every key of a queue may have a limit and a rate of its own."""

    async def test_a_key_has_its_own_limit(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3, key_limit=1)
        worker = await bench.worker()
        a0, _ = await worker.claim()
        assert sorted(worker.held) == ["a0", "b0"]
        reply = await worker.exchange([move(a0, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["a1"]

    async def test_a_key_is_free_again_when_its_worker_dies(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 2, key_limit=1)
        worker = await bench.worker("w1")
        await worker.take("a0")
        [idle] = await idle_workers(bench, 1)
        await bench.passes(LEASE + 1, idle)
        await idle.mail.woken()
        assert len(await idle.claim()) == 1

    async def test_a_keys_limit_counts_units(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3, key_limit=5, units=2)
        worker = await bench.worker()
        assert await worker.ids() == ["a0", "a1"]

    async def test_the_queues_gate_has_the_word_over_the_calls(self, bench: Bench) -> None:
        await bench.limit("queue:q", key_limit=2)
        await add_lanes(bench, "a", 5, key_limit=1)
        worker = await bench.worker()
        assert await worker.ids() == ["a0", "a1"]
        await bench.limit("queue:q", key_limit=0)
        assert await worker.ids() == ["a2", "a3", "a4"]

    async def test_the_queues_word_concerns_calls_that_say_nothing(self, bench: Bench) -> None:
        await bench.tune("queue:q", declared=Limits(key_limit=1))
        await add_lanes(bench, "ab", 2)
        await bench.add("p0", "p1")
        worker = await bench.worker()
        assert sorted(await worker.ids()) == ["a0", "b0", "p0", "p1"]

    async def test_a_limit_of_keys_set_while_jobs_run_counts_them(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 4)
        worker = await bench.worker()
        a0, _b0, a1 = await worker.claim(3)
        await bench.limit("queue:q", key_limit=2)
        assert await worker.ids() == ["b1"]
        reply = await worker.exchange([move(a0, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["a2"]
        await worker.finish(a1)
        assert await worker.ids() == ["a3"]

    async def test_a_limit_of_keys_taken_back_leaves_the_calls_word(self, bench: Bench) -> None:
        await bench.limit("queue:q", key_limit=1)
        await add_lanes(bench, "a", 3, key_limit=2)
        worker = await bench.worker()
        await worker.take("a0")
        [idle] = await idle_workers(bench, 1)
        await bench.tune("queue:q", tuned=NO_LIMITS)
        await idle.mail.woken()
        assert await idle.ids() == ["a1"]

    async def test_what_runs_under_a_key_counts_also_if_its_own_call_set_no_limit(self, bench: Bench) -> None:
        await bench.add("a0", **key("a"))
        worker = await bench.worker()
        await worker.take("a0")
        await bench.add("a1", **key("a", key_limit=1))
        assert await worker.ids() == []
        await worker.finish(worker.held["a0"])
        assert await worker.ids() == ["a1"]

    async def test_ordered_and_other_jobs_of_a_key_share_its_limit(self, bench: Bench) -> None:
        await bench.add("a0", "a1", **key("a", key_limit=2))
        await bench.add("o0", **key("a", key_limit=2, ordered=True))
        worker = await bench.worker()
        assert len(await worker.claim()) == 2

    async def test_a_key_has_its_own_rate(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3, key_rate=a_second())
        worker = await bench.worker()
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["a0", "b0"], 1_000)
        bench.clock.advance(999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert await worker.ids() == ["a1", "b1"]

    async def test_keys_open_each_in_its_time(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 2, key_rate=a_second())
        worker = await bench.worker()
        await worker.take("a0")
        bench.clock.advance(400)
        await add_lanes(bench, "b", 2, key_rate=a_second())
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["b0"], 600)
        bench.clock.advance(600)
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["a1"], 400)

    async def test_a_keys_rate_outlives_its_jobs(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 1, key_rate=a_second())
        worker = await bench.worker()
        await worker.finish(await worker.take("a0"))
        bench.clock.advance(400)
        await bench.store.sweep()
        await bench.add("a1", **key("a", key_rate=a_second()))
        reply = await worker.exchange(want=9)
        assert (reply.claims, reply.next_due) == ([], 600)
        bench.clock.advance(600)
        assert await worker.ids() == ["a1"]

    @pytest.mark.parametrize("how", ["insert", "hand back"])
    async def test_one_that_comes_to_a_key_whose_rate_is_closed_sets_an_alarm(self, bench: Bench, how: str) -> None:
        await add_lanes(bench, "a", 1, key_rate=a_second())
        worker = await bench.worker()
        a0 = await worker.take("a0")
        [idle] = await idle_workers(bench, 1)
        bench.clock.advance(300)
        if how == "insert":
            await bench.add("a1", **key("a", key_rate=a_second()))
        else:
            await worker.settle(a0, BACK)
        await idle.mail.woken()
        reply = await idle.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], 700)

    async def test_the_queues_gate_may_give_every_key_a_rate(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 3)
        worker = await bench.worker()
        await bench.limit("queue:q", key_rate=a_second())
        assert await worker.ids(2) == ["a0", "b0"]
        [idle] = await idle_workers(bench, 1)
        await bench.limit("queue:q", key_rate=Rate(0, 0))
        await idle.mail.woken()
        assert await idle.ids() == ["a1", "b1", "a2", "b2"]

    async def test_a_sweep_opens_keys_whose_time_has_come_and_wakes(self, bench: Bench) -> None:
        await add_lanes(bench, "ab", 2, key_rate=a_second())
        worker = await bench.worker()
        await worker.claim(2)
        hands = await idle_workers(bench, 3)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert sorted(await woken(hands)) == [0, 1, 1]

    async def test_a_queues_limit_and_that_of_a_key_hold_both(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=3, key_limit=2)
        await add_lanes(bench, "ab", 4)
        worker = await bench.worker()
        assert await worker.ids() == ["a0", "b0", "a1"]
        reply = await worker.exchange([move(worker.held["b0"], DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["b1"]

    async def test_nothing_stays_of_keys_that_are_not_used(self, bench: Bench) -> None:
        for n in range(20):
            await bench.add(f"j{n}", **key(f"k{n}", key_limit=1, key_rate=a_second()))
        worker = await bench.worker()
        await worker.finish(*await worker.claim(50))
        await bench.passes(10_000, worker)
        assert await bench.store.gates() == []
        assert (await bench.queue()).lanes == 0

    async def test_a_claim_sent_again_is_charged_to_its_key_once(self, bench: Bench) -> None:
        await add_lanes(bench, "a", 3, key_limit=2, key_rate=a_second(2))
        worker = await bench.worker()
        await worker.lost_reply(want=1)
        assert [claim.id for claim in (await worker.resend()).claims] == ["a0"]
        other = await bench.worker("w2")
        assert await other.ids() == ["a1"]


class HeadRules:
    """A lane gives its head or nothing; a head that may not start keeps its own lane only."""

    async def test_a_head_that_waits_keeps_its_own_lane_only(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await bench.add("a0", **key("a"))
        await bench.add("a1", task="u", **key("a"))
        await bench.add("b0", "b1", task="u", **key("b"))
        await bench.add("p0", task="u")
        worker = await bench.worker(declares=TASKS)
        assert sorted(await worker.ids()) == ["b0", "b1", "p0"]
        await bench.limit("task:t", paused=False)
        assert await worker.ids() == ["a0", "a1"]

    @pytest.mark.parametrize("how", ["cancel", "delete", "move", "expire", "reschedule"])
    async def test_when_the_head_is_gone_the_lane_is_looked_at_again(self, bench: Bench, how: str) -> None:
        await bench.limit("task:t", paused=True)
        await bench.add("a0", expires_in=1_000 if how == "expire" else 0, **key("a"))
        await bench.add("a1", task="u", **key("a"))
        [idle] = await idle_workers(bench, 1, declares=TASKS)
        if how == "expire":
            bench.clock.advance(1_001)
            await bench.store.sweep()
        elif how == "reschedule":
            await bench.change(Action.RESCHEDULE, "a0", delay=60_000)
        else:
            await bench.change(Action(how), "a0", **({"queue": "x"} if how == "move" else {}))
        await idle.mail.woken()
        assert await idle.ids() == ["a1"]

    async def test_one_that_goes_before_a_head_that_waits_is_looked_at(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await bench.add("a0", **key("a"))
        [idle] = await idle_workers(bench, 1, declares=TASKS)
        await bench.add("a1", task="u", priority=9, **key("a"))
        await idle.mail.woken()
        assert await idle.ids() == ["a1"]
        assert await bench.state("a0") == State.READY

    async def test_one_made_higher_than_a_head_that_waits_is_looked_at(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await bench.add("a0", **key("a"))
        await bench.add("a1", task="u", **key("a"))
        worker = await bench.worker(declares=TASKS)
        assert await worker.ids() == []
        await bench.change(Action.REPRIORITISE, "a1", priority=6)
        assert await worker.ids() == ["a1"]

    async def test_a_heavy_head_that_is_cancelled_lets_a_light_one_pass(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=3)
        await bench.add("a0", terms=Terms(units=2))
        await bench.add("heavy", terms=Terms(units=3))
        await bench.add("light")
        worker = await bench.worker()
        await worker.take("a0")
        assert await worker.ids() == []
        await bench.change(Action.CANCEL, "heavy")
        assert await worker.ids() == ["light"]

    async def test_an_expired_head_is_passed_over_by_the_claim(self, bench: Bench) -> None:
        await bench.add("a0", expires_in=1_000, **key("a", key_limit=1))
        await bench.add("a1", **key("a", key_limit=1))
        bench.clock.advance(1_001)
        worker = await bench.worker()
        assert await worker.ids() == ["a1"]
        assert await bench.state("a0") == State.CANCELLED

    async def test_jobs_ready_before_their_task_was_gated_keep_their_order(self, bench: Bench) -> None:
        await bench.add("t0", "t1", "t2")
        await bench.add("t9", priority=9)
        await bench.limit("task:t", limit=1)
        await bench.add("t3")
        worker = await bench.worker()
        ran = []
        for _ in range(5):
            [claim] = await worker.claim()
            ran.append(claim.id)
            await worker.finish(claim)
        assert ran == ["t9", "t0", "t1", "t2", "t3"]

    async def test_jobs_in_the_lane_of_a_task_that_is_no_longer_gated_keep_their_order(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("t0", "t1", "t2")
        worker = await bench.worker()
        await worker.take("t0")
        await bench.tune("task:t", tuned=NO_LIMITS)
        await bench.add("t3")
        taken = await worker.ids()
        assert sorted(taken) == ["t1", "t2", "t3"]
        assert taken.index("t1") < taken.index("t2")

    async def test_a_gated_job_in_the_plain_order_is_in_no_ones_way(self, bench: Bench) -> None:
        await bench.add("t0", "t1")
        await bench.add("u0", "u1", task="u")
        await bench.limit("task:t", limit=1)
        worker = await bench.worker(declares=TASKS)
        assert sorted(await worker.ids()) == ["t0", "u0", "u1"]
        reply = await worker.exchange([move(worker.held["t0"], DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["t1"]


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


class OpeningRules:
    """When a gate may let something through again, as many lanes as it has room for are looked at, in their turn."""

    async def test_lanes_take_turns_at_a_gate_they_share(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await add_lanes(bench, "abcd", 3)
        worker = await bench.worker()
        ran = []
        for _ in range(12):
            [claim] = await worker.claim()
            ran.append(claim.id)
            await worker.finish(claim)
        assert ran == [f"{one}{n}" for n in range(3) for one in "abcd"]

    async def test_a_free_unit_opens_no_more_lanes_than_it_can_serve(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=2)
        for n in range(30):
            await bench.add(f"j{n}", **key(f"k{n}"))
        worker = await bench.worker()
        first, _ = await worker.claim(20)
        for _ in range(5):
            assert await worker.ids() == []
        assert (await bench.gate("task:t")).waiting == 28
        await worker.finish(first)
        assert (await bench.gate("task:t")).waiting >= 27

    async def test_a_unit_that_one_lane_cannot_use_goes_to_the_next(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("a0", "a1", **key("a", key_limit=1))
        await bench.add("b0", **key("b"))
        await bench.add("u", task="u", **key("a", key_limit=1))
        worker, other = await bench.worker("w1", declares=TASKS), await bench.worker("w2", declares=TASKS)
        a0 = await worker.take("a0")
        assert await other.ids() == []
        reply = await worker.exchange([move(a0, DONE)], want=5)
        assert len(reply.claims) >= 1
        seen = {"a0", *(claim.id for claim in reply.claims)}
        for _ in range(6):
            moves = [move(claim, DONE) for claim in worker.held.values()]
            seen |= {claim.id for claim in (await worker.exchange(moves, want=5)).claims}
        assert seen == {"a0", "a1", "b0", "u"}

    async def test_thousands_of_lanes_are_opened_in_bounded_steps(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        jobs = [new_job(f"j{n:04}", **key(f"k{n}")) for n in range(MANY)]
        for first in range(0, MANY, 1_000):
            await bench.store.insert(jobs[first : first + 1_000])
        worker = await bench.worker()
        for _ in range(20):
            assert await worker.ids() == []
            if (await bench.gate("task:t")).waiting == MANY:
                break
        assert (await bench.gate("task:t")).waiting == MANY
        await worker.exchange()
        [idle] = await idle_workers(bench, 1)
        info = await bench.limit("task:t", paused=False)
        assert info.waiting >= MANY - 1_000
        await idle.mail.woken()
        taken = [id for _ in range(6) for id in await worker.ids(1_000)]
        assert taken == [job.id for job in jobs]
        assert (await bench.gate("task:t")).waiting == 0

    async def test_the_rest_of_an_opening_is_due_at_once(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        jobs = [new_job(f"j{n:04}", **key(f"k{n}")) for n in range(MANY + 500)]
        for first in range(0, len(jobs), 1_000):
            await bench.store.insert(jobs[first : first + 1_000])
        worker = await bench.worker()
        for _ in range(20):
            assert await worker.ids() == []
        await bench.limit("task:t", paused=False)
        reply = await worker.exchange(want=0)
        assert reply.next_due == 0 or (await bench.gate("task:t")).waiting == 0
        taken = [id for _ in range(8) for id in await worker.ids(1_000)]
        assert sorted(taken) == [job.id for job in jobs]

    async def test_a_wide_opening_is_worked_off_by_sweeps_too(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        jobs = [new_job(f"j{n:04}", **key(f"k{n}")) for n in range(MANY)]
        for first in range(0, len(jobs), 1_000):
            await bench.store.insert(jobs[first : first + 1_000])
        worker = await bench.worker()
        for _ in range(20):
            assert await worker.ids() == []
        await bench.limit("task:t", paused=False)
        for _ in range(6):
            await bench.store.sweep()
        assert (await bench.gate("task:t")).waiting == 0
        assert len(await worker.ids(1_000)) == 1_000

    async def test_a_tuning_of_several_gates_opens_what_waits_at_each(self, bench: Bench) -> None:
        for gate in ("task:t", "task:u"):
            await bench.limit(gate, paused=True)
        await bench.add("t0")
        await bench.add("u0", task="u")
        [idle] = await idle_workers(bench, 1, declares=TASKS)
        await bench.store.tune([Tuning(name=gate, tuned=Limits(paused=False)) for gate in ("task:t", "task:u")])
        await idle.mail.woken()
        assert sorted(await idle.ids()) == ["t0", "u0"]


class GraphLaneRules:
    """Jobs of workflows have lanes and gates like any others."""

    async def test_members_of_one_key_run_one_at_a_time(self, bench: Bench) -> None:
        plan = GraphDraft()
        for n in range(3):
            plan.job(f"m{n}", **key("a", key_limit=1))
        await bench.submit(plan.end("m0", "m1", "m2"))
        worker = await bench.worker()
        for n in range(3):
            [claim] = await worker.claim()
            assert claim.id == f"m{n}"
            await worker.finish(claim)
        assert (await bench.graph()).state == State.SUCCEEDED

    async def test_a_released_member_waits_at_its_gate(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        a = await worker.take("a")
        await bench.limit("task:t", paused=True)
        assert (await worker.exchange([move(a, DONE)])).claims == []
        [idle] = await idle_workers(bench, 1)
        await bench.limit("task:t", paused=False)
        await idle.mail.woken()
        assert await idle.ids() == ["b"]

    async def test_a_job_that_waits_for_its_children_holds_nothing(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("p", **key("a", key_limit=1))
        worker = await bench.worker(queues=["q", "inner"])
        await adopt(bench, worker, await worker.take("p"), inner("c0", "c1"))
        assert (await bench.gate("task:t")).held == 0
        await bench.add("a0", **key("a", key_limit=1))
        ran = await bench.play(worker)
        assert sorted(ran) == ["a0", "c0", "c1", "p"]

    async def test_a_stopped_workflow_leaves_no_lane_behind(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        plan = GraphDraft()
        for n in range(3):
            plan.job(f"m{n}", **key(f"k{n}"))
        await bench.submit(plan.end("m0", "m1", "m2"))
        worker = await bench.worker()
        m0 = await worker.take("m0")
        assert await worker.ids() == []
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await worker.finish(m0)
        await bench.drain()
        info = await bench.gate("task:t")
        assert (info.held, info.waiting, (await bench.queue()).lanes) == (0, 0, 0)
        assert await bench.states("m1", "m2", "g") == ["cancelled"] * 3
        await bench.add("after")
        assert await worker.ids() == ["after"]
