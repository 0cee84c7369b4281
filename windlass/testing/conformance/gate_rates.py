"""How often jobs start: rates, several gates at once, and how much of it one worker asks for."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.limits import Rate
from windlass.core.terms import Terms
from windlass.store.jobs import Want
from windlass.testing.conformance.bench import Bench, move
from windlass.testing.conformance.gates import KINDS, NO_RATE, OF_A_BREAKER, TASKS, a_second, each_kind
from windlass.testing.conformance.outcomes import BACK, DONE, RETRY_NOW
from windlass.testing.conformance.wake import idle_workers, woken


class RateRules:
    """A rate is GCRA on the store's clock: exact, over all workers, never given back."""

    @each_kind
    async def test_a_burst_at_once_and_then_one_at_a_time(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second(2))
        await bench.add(*"abcde", **fields)
        worker = await bench.worker()
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["a", "b"], 1_000)
        bench.clock.advance(999)
        reply = await worker.exchange(want=9)
        assert (reply.claims, reply.next_due) == ([], 1)
        bench.clock.advance(1)
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["c"], 1_000)
        bench.clock.advance(1_500)
        reply = await worker.exchange(want=9)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["d"], 500)
        bench.clock.advance(500)
        assert await worker.ids() == ["e"]

    @each_kind
    async def test_it_holds_over_all_workers(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second(3))
        await bench.add(*"abcdef", **fields)
        hands = [await bench.worker(f"w{n}") for n in range(3)]
        assert [await hand.ids(2) for hand in hands] == [["a", "b"], ["c"], []]

    async def test_no_more_than_a_burst_is_saved_up(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second(2))
        bench.clock.advance(3_600_000)
        await bench.add(*"abcde")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_a_part_of_a_millisecond_rounds_up(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=Rate(1_500, 1))
        await bench.add(*"abc")
        worker = await bench.worker()
        reply = await worker.exchange(want=9)
        assert (len(reply.claims), reply.next_due) == (1, 2)
        bench.clock.advance(1)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert len(await worker.claim()) == 1

    async def test_one_faster_than_the_clock_is_no_limit_over_time(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=Rate(100, 10))
        await bench.add(*[f"j{n}" for n in range(100)])
        worker = await bench.worker()
        seen = []
        for _ in range(4):
            seen.append(len(await worker.claim(100)))
            bench.clock.advance(1)
        assert seen == [10, 10, 10, 10]

    @each_kind
    async def test_it_is_not_given_back(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add("a", **fields)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), BACK)
        reply = await worker.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], 1_000)
        bench.clock.advance(1_000)
        await worker.settle(await worker.take("a"), RETRY_NOW)
        assert await worker.ids() == []

    async def test_an_exchange_sent_again_is_charged_once(self, bench: Bench) -> None:
        await bench.limit("queue:q", rate=a_second(3))
        await bench.add(*"abcd")
        worker = await bench.worker()
        await worker.lost_reply(want=2)
        for _ in range(3):
            assert [claim.id for claim in (await worker.resend()).claims] == ["a", "b"]
        other = await bench.worker("w2")
        assert await other.ids() == ["c"]

    async def test_a_gate_says_when_it_opens(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second(2))
        assert (await bench.gate("task:t")).opens_in == 0
        await bench.add(*"abc")
        worker = await bench.worker()
        await worker.take("a")
        assert (await bench.gate("task:t")).opens_in == 0
        await worker.take("b")
        bench.clock.advance(300)
        assert (await bench.gate("task:t")).opens_in == 700

    @each_kind
    async def test_a_rate_taken_away_opens_at_once_and_wakes(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add(*"abc", **fields)
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.limit(gate, rate=NO_RATE)
        await idle.mail.woken()
        assert await idle.ids() == ["b", "c"]

    @each_kind
    async def test_a_rate_given_at_run_time_holds_from_now_on(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.add(*"abcde", **fields)
        worker = await bench.worker()
        assert await worker.ids(2) == ["a", "b"]
        await bench.limit(gate, rate=a_second())
        assert await worker.ids() == ["c"]
        bench.clock.advance(1_000)
        assert await worker.ids() == ["d"]

    @each_kind
    async def test_a_rate_that_is_raised_is_felt_at_once(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=Rate(3_600_000_000, 1))
        await bench.add(*"abcd", **fields)
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.limit(gate, rate=a_second())
        await idle.mail.woken()
        assert (await idle.exchange(want=5)).next_due == 1_000
        bench.clock.advance(1_000)
        assert await idle.ids() == ["b"]

    @each_kind
    async def test_a_larger_burst_lets_more_through_at_once(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add(*"abcde", **fields)
        worker = await bench.worker()
        await worker.take("a")
        assert await worker.ids() == []
        await bench.limit(gate, rate=a_second(3))
        assert await worker.ids() == ["b", "c"]

    @each_kind
    async def test_a_sweep_after_it_opened_wakes_as_many_as_may_start(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add(*"abcd", **fields)
        worker = await bench.worker()
        await worker.take("a")
        hands = await idle_workers(bench, 3)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert sorted(await woken(hands)) == [0, 0, 1]

    @each_kind
    @pytest.mark.parametrize("how", ["insert", "hand back"])
    async def test_one_that_comes_while_it_is_closed_sets_an_alarm(self, bench: Bench, kind: str, how: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add("a", **fields)
        worker = await bench.worker()
        a = await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        bench.clock.advance(300)
        if how == "insert":
            await bench.add("b", **fields)
        else:
            await worker.settle(a, BACK)
        await idle.mail.woken()
        reply = await idle.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], 700)

    @each_kind
    async def test_a_beat_knows_when_it_opens(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, rate=a_second())
        await bench.add(*"ab", **fields)
        worker = await bench.worker()
        await worker.take("a")
        assert await worker.ids() == []
        assert (await worker.beat()).next_due == 1_000

    async def test_an_empty_queue_has_no_opening(self, bench: Bench) -> None:
        await bench.limit("queue:q", rate=a_second())
        await bench.limit("task:t", rate=a_second())
        await bench.add("a")
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        assert (len(reply.claims), reply.next_due) == (1, -1)

    async def test_the_nearest_of_due_times_and_openings_is_told(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second())
        await bench.add("a", "b")
        await bench.add("later", task="u", delay=5_000)
        worker = await bench.worker(declares=TASKS)
        assert (await worker.exchange(want=5)).next_due == 1_000
        bench.clock.advance(1_000)
        assert (await worker.exchange(want=5)).next_due == 4_000

    async def test_a_clock_set_back_gives_nothing_back(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second())
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        bench.clock.advance(-60_000)
        assert (await worker.exchange(want=5)).next_due in (999, 1_000)
        bench.clock.advance(1_000)
        assert await worker.ids() == ["b"]

    async def test_a_rate_is_kept_with_the_data(self, bench: Bench) -> None:
        await bench.limit("queue:q", rate=a_second())
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        other = await bench.worker("w2", store=await bench.connect())
        reply = await other.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], 1_000)


class SeveralGateRules:
    """A job is granted only if all its gates are open, and then charged to all of them in one step."""

    async def test_every_gate_must_be_open(self, bench: Bench) -> None:
        await bench.add("a", terms=Terms(breaker="b", key="k", key_limit=1))
        worker = await bench.worker()
        for gate in ("queue:q", "task:t", "breaker:b"):
            await bench.limit(gate, paused=True)
            assert await worker.ids() == [], gate
        for gate in ("breaker:b", "queue:q"):
            await bench.limit(gate, paused=False)
            assert await worker.ids() == [], gate
        await bench.limit("task:t", paused=False)
        assert await worker.ids() == ["a"]

    async def test_all_are_charged(self, bench: Bench) -> None:
        for gate in ("queue:q", "task:t", "breaker:b"):
            await bench.limit(gate, limit=9, rate=a_second(3))
        await bench.add("a", terms=Terms(units=3, breaker="b", key="k"))
        worker = await bench.worker()
        await worker.take("a")
        infos = await bench.store.gates(["queue:q", "task:t", "breaker:b"])
        assert [(info.held, info.opens_in) for info in infos] == [(3, 1_000)] * 3

    async def test_one_that_is_closed_charges_none_of_the_others(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=1, rate=a_second())
        await bench.limit("task:t", rate=a_second())
        await bench.limit("breaker:b", paused=True)
        await bench.add("a", terms=OF_A_BREAKER)
        worker = await bench.worker(declares=TASKS)
        for _ in range(3):
            assert await worker.ids() == []
        infos = await bench.store.gates(["queue:q", "task:t"])
        assert [(info.held, info.opens_in) for info in infos] == [(0, 0), (0, 0)]
        await bench.add("u", task="u")
        assert await worker.ids() == ["u"]

    async def test_a_closed_task_leaves_its_queues_units_to_others(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=2)
        await bench.limit("task:t", limit=1)
        await bench.add("t1", "t2", "t3")
        await bench.add("u1", task="u")
        worker = await bench.worker(declares=TASKS)
        assert sorted(await worker.ids()) == ["t1", "u1"]

    async def test_the_next_gate_is_found_when_the_first_opens(self, bench: Bench) -> None:
        await bench.tune("task:t", closed_for=1_000)
        await bench.tune("breaker:b", closed_for=3_000)
        await bench.add("a", terms=OF_A_BREAKER)
        worker = await bench.worker()
        assert 0 < (await worker.exchange(want=1)).next_due <= 3_000
        bench.clock.advance(1_000)
        assert (await worker.exchange(want=1)).next_due == 2_000
        bench.clock.advance(2_000)
        assert await worker.ids() == ["a"]

    async def test_a_limit_and_a_rate_of_one_gate_hold_both(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1, rate=a_second())
        await bench.add(*"abc")
        worker = await bench.worker()
        a = await worker.take("a")
        bench.clock.advance(1_000)
        assert await worker.ids() == []
        reply = await worker.exchange([move(a, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["b"]
        reply = await worker.exchange([move(reply.claims[0], DONE)], want=5)
        assert (reply.claims, reply.next_due) == ([], 1_000)

    async def test_a_closed_queue_is_left_and_the_next_is_served(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=1)
        await bench.add("q1", "q2")
        await bench.add("x1", "x2", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        assert await worker.ids() == ["q1", "x1", "x2"]


class WantRules:
    """A worker says how much it has room for: queues more than once, and how much of it at once."""

    async def test_a_queue_named_twice_gives_up_to_each_cap(self, bench: Bench) -> None:
        await bench.add("q1", "q2", "q3", "q4")
        await bench.add("x1", "x2", "x3", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        reply = await worker.exchange(want=Want([("q", 2), ("x", 1), ("q", 9), ("x", 9)], 6))
        assert [claim.id for claim in reply.claims] == ["q1", "q2", "x1", "q3", "q4", "x2"]

    async def test_what_one_queue_lacks_goes_to_the_other(self, bench: Bench) -> None:
        await bench.add("q1")
        await bench.add("x1", "x2", "x3", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        reply = await worker.exchange(want=Want([("q", 3), ("x", 1), ("q", 4), ("x", 4)], 4))
        assert [claim.id for claim in reply.claims] == ["q1", "x1", "x2", "x3"]

    async def test_a_queue_named_twice_has_one_limit(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=3)
        await bench.add(*[f"q{n}" for n in range(9)])
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 2), ("q", 9)], 9))
        assert [claim.id for claim in reply.claims] == ["q0", "q1", "q2"]

    async def test_lanes_of_a_queue_named_twice_go_on_with_their_turns(self, bench: Bench) -> None:
        for key in "ab":
            await bench.add(*[f"{key}{n}" for n in range(3)], terms=Terms(key=key))
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 1), ("q", 2), ("q", 9)], 6))
        assert [claim.id for claim in reply.claims] == ["a0", "b0", "a1", "b1", "a2", "b2"]

    async def test_an_undeclared_job_of_a_queue_named_twice_is_set_aside_once(self, bench: Bench) -> None:
        await bench.add("n1", task="new")
        await bench.add("a", "b")
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 1), ("q", 9)], 9))
        assert [claim.id for claim in reply.claims] == ["a", "b"]
        assert await bench.counts() == {"ready": 1, "running": 2}

    async def test_no_more_of_lanes_than_could_start_now(self, bench: Bench) -> None:
        for key in "ab":
            await bench.add(*[f"{key}{n}" for n in range(3)], terms=Terms(key=key))
        await bench.add("p0", "p1", "p2", "p3")
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 9)], 9, now=2))
        taken = [claim.id for claim in reply.claims]
        assert [id for id in taken if not id.startswith("p")] == ["a0", "b0"]
        assert [id for id in taken if id.startswith("p")] == ["p0", "p1", "p2", "p3"]

    @pytest.mark.parametrize("limits", [{"limit": 50}, {"rate": a_second(50)}])
    async def test_no_more_of_a_limited_queue_than_could_start_now(self, bench: Bench, limits: dict[str, Any]) -> None:
        await bench.limit("queue:q", **limits)
        await bench.add(*[f"q{n}" for n in range(9)])
        await bench.add("x0", "x1", "x2", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        reply = await worker.exchange(want=Want([("q", 9), ("x", 9)], 9, now=2))
        assert [claim.id for claim in reply.claims] == ["q0", "q1", "x0", "x1", "x2"]

    async def test_no_more_of_a_limited_task_than_could_start_now(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=50)
        await bench.add(*[f"t{n}" for n in range(5)])
        await bench.add("u0", "u1", "u2", task="u")
        worker = await bench.worker(declares=TASKS)
        reply = await worker.exchange(want=Want([("q", 9)], 9, now=1))
        assert sorted(claim.id for claim in reply.claims) == ["t0", "u0", "u1", "u2"]

    async def test_it_bounds_all_lanes_and_queues_of_an_exchange_together(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=50)
        await bench.add("q0", "q1", "q2")
        await bench.add("x0", "x1", "x2", queue="x", terms=Terms(key="k"))
        worker = await bench.worker(queues=["q", "x"])
        reply = await worker.exchange(want=Want([("q", 2), ("x", 9), ("q", 9)], 9, now=3))
        assert [claim.id for claim in reply.claims] == ["q0", "q1", "x0"]

    async def test_nothing_of_lanes_where_nothing_could_start_now(self, bench: Bench) -> None:
        await bench.add("k0", "k1", terms=Terms(key="k"))
        await bench.add("p0", "p1")
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 9)], 9, now=0))
        assert [claim.id for claim in reply.claims] == ["p0", "p1"]
        assert await worker.ids() == ["k0", "k1"]

    async def test_it_bounds_no_plain_jobs(self, bench: Bench) -> None:
        await bench.add(*[f"p{n}" for n in range(9)])
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 9)], 9, now=1))
        assert len(reply.claims) == 9

    async def test_who_got_all_that_could_start_now_is_not_idle(self, bench: Bench) -> None:
        await bench.add("p0", "p1")
        worker = await bench.worker()
        reply = await worker.exchange(want=Want([("q", 9)], 9, now=2))
        assert (len(reply.claims), (await worker.info()).idle) == (2, False)
        await worker.exchange(want=Want([("q", 9)], 9, now=0))
        assert not (await worker.info()).idle
        await worker.exchange(want=Want([("q", 9)], 9, now=1))
        assert (await worker.info()).idle

    async def test_nobody_who_is_full_is_woken_in_place_of_one_who_is_idle(self, bench: Bench) -> None:
        full = await bench.worker("full")
        await full.exchange(want=Want([("q", 9)], 9, now=0))
        [idle] = await idle_workers(bench, 1)
        await bench.add("k0", terms=Terms(key="k"))
        await idle.mail.woken()
        assert await woken([full]) == [0]
