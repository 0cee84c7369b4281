"""Lanes: jobs of one key, or of one limited task, take turns with others, and only their own head keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.limits import NO_LIMITS, Limits, Rate
from windlass.core.terms import Terms
from windlass.store.jobs import Want
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move, new_job
from windlass.testing.conformance.gates import TASKS, a_second
from windlass.testing.conformance.outcomes import BACK, DONE, RETRY_LATER, RETRY_NOW
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
