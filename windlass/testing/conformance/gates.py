"""Gates: pauses, closures, limits and rates of queues, tasks and breakers, and what is counted at them."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Outcome
from windlass.core.limits import NO_LIMITS, Limits, Rate
from windlass.core.terms import Terms
from windlass.store.base import Action, Declared, Tuning, Want
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, EVERY, OOPS, RETRY_NOW
from windlass.testing.conformance.wake import idle_workers, woken

TASKS = {"t": Declared(), "u": Declared(), "v": Declared()}
NO_RATE = Rate(0, 0)
OF_A_BREAKER = Terms(breaker="b")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "queue": ("queue:q", {}),
    "task": ("task:t", {}),
    "breaker": ("breaker:b", {"terms": OF_A_BREAKER}),
}
"""Every kind of gate that is tuned: its name, and the fields of a job it concerns."""

each_kind = pytest.mark.parametrize("kind", KINDS)


def a_second(burst: int = 1) -> Rate:
    """One unit a second."""
    return Rate(1_000_000, burst)


async def held(bench: Bench, gate: str) -> int:
    return (await bench.gate(gate)).held


class TuneRules:
    """A gate is what an operator said of it over what the code says; versions guard it."""

    async def test_a_gate_nobody_tuned_does_not_exist_and_says_nothing(self, bench: Bench) -> None:
        await bench.add("a")
        info = await bench.gate("task:t")
        assert (info.name, info.version, info.limits, info.held, info.waiting) == ("task:t", 0, NO_LIMITS, 0, 0)
        assert await bench.store.gates() == []

    async def test_tuning_makes_it_and_all_can_be_listed(self, bench: Bench) -> None:
        made = [await bench.tune(name, tuned=Limits(limit=1)) for name in ("task:t", "queue:q", "breaker:b")]
        assert all(info.changed and info.version > 0 for info in made)
        assert {info.name for info in await bench.store.gates()} == {"task:t", "queue:q", "breaker:b"}

    async def test_gates_are_answered_in_the_order_they_were_asked_for(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        found = await bench.store.gates(["queue:none", "task:t", "task:none"])
        assert [(info.name, info.version > 0) for info in found] == [
            ("queue:none", False),
            ("task:t", True),
            ("task:none", False),
        ]

    async def test_what_is_not_said_stays_as_it_is(self, bench: Bench) -> None:
        code, operator = Limits(limit=5, rate=a_second(3)), Limits(limit=2, paused=True)
        await bench.tune("task:t", declared=code)
        await bench.tune("task:t", tuned=operator)
        await bench.tune("task:t", note=b"by hand")
        await bench.tune("task:t", closed_for=1_000)
        info = await bench.gate("task:t")
        assert (info.declared, info.tuned, info.note, info.closed_for) == (code, operator, b"by hand", 1_000)

    async def test_an_operators_word_holds_over_the_codes_field_by_field(self, bench: Bench) -> None:
        await bench.tune("task:t", declared=Limits(limit=5, rate=a_second(3)))
        info = await bench.tune("task:t", tuned=Limits(limit=2))
        assert info.limits == Limits(limit=2, rate=a_second(3))
        await bench.add(*"abcde")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_an_operator_may_lift_what_the_code_says(self, bench: Bench) -> None:
        await bench.tune("queue:q", declared=Limits(limit=1, rate=a_second()))
        await bench.limit("queue:q", limit=0, rate=NO_RATE)
        await bench.add(*"abc")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b", "c"]

    async def test_when_the_operator_takes_his_word_back_the_codes_holds_again(self, bench: Bench) -> None:
        await bench.tune("queue:q", declared=Limits(limit=2), tuned=Limits(limit=0))
        await bench.tune("queue:q", tuned=NO_LIMITS)
        await bench.add(*"abc")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_what_the_code_no_longer_says_no_longer_holds(self, bench: Bench) -> None:
        await bench.tune("task:t", declared=Limits(limit=1))
        await bench.add("a", "b")
        worker = await bench.worker()
        assert await worker.ids() == ["a"]
        await bench.tune("task:t", declared=NO_LIMITS)
        assert await worker.ids() == ["b"]

    async def test_every_change_gives_a_larger_version(self, bench: Bench) -> None:
        versions = [
            (await bench.tune("breaker:b", **fields)).version
            for fields in ({"note": b"1"}, {"note": b"2"}, {"tuned": Limits(limit=1)}, {"closed_for": 500})
        ]
        assert versions == sorted(set(versions))
        assert versions[0] > 0

    async def test_the_version_expected_lets_a_change_through(self, bench: Bench) -> None:
        first = await bench.tune("breaker:b", expect=0, note=b"1")
        second = await bench.tune("breaker:b", expect=first.version, note=b"2")
        assert (first.changed, second.changed, second.note) == (True, True, b"2")

    async def test_another_version_than_expected_changes_nothing(self, bench: Bench) -> None:
        first = await bench.tune("breaker:b", note=b"1")
        await bench.tune("breaker:b", note=b"2")
        late = await bench.tune("breaker:b", expect=first.version, note=b"3", closed_for=5_000, tuned=Limits(limit=1))
        assert (late.changed, late.note, late.closed_for, late.tuned) == (False, b"2", 0, NO_LIMITS)
        assert (await bench.gate("breaker:b")).note == b"2"

    async def test_a_gate_expected_not_to_exist_is_made_once(self, bench: Bench) -> None:
        first, second = [await bench.tune("task:t", expect=0, tuned=Limits(limit=n)) for n in (1, 2)]
        assert (first.changed, second.changed, second.tuned.limit) == (True, False, 1)

    async def test_a_gate_expected_to_exist_is_not_made(self, bench: Bench) -> None:
        info = await bench.tune("task:t", expect=7, tuned=Limits(limit=1))
        assert (info.changed, info.version) == (False, 0)
        assert await bench.store.gates() == []

    async def test_tunings_of_one_call_are_independent(self, bench: Bench) -> None:
        await bench.tune("task:t", note=b"1")
        answers = await bench.store.tune([
            Tuning(name="task:t", expect=0, note=b"x"),
            Tuning(name="queue:q", tuned=Limits(limit=3)),
            Tuning(name="task:u", expect=0, note=b"y"),
            Tuning(name="task:u", expect=0, note=b"z"),
        ])  # fmt: skip
        assert [(info.name, info.changed) for info in answers] == [
            ("task:t", False),
            ("queue:q", True),
            ("task:u", True),
            ("task:u", False),
        ]
        assert (await bench.gate("task:t")).note == b"1"
        assert (await bench.gate("task:u")).note == b"y"

    async def test_a_gate_is_the_same_on_every_connection(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("a", "b")
        worker = await bench.worker(store=await bench.connect())
        assert await worker.ids() == ["a"]
        assert await held(bench, "task:t") == 1

    async def test_a_change_is_an_event(self, bench: Bench) -> None:
        for fields in ({"tuned": Limits(paused=True)}, {"tuned": Limits(paused=False)}, {"closed_for": 700}):
            await bench.tune("queue:q", **fields)
        await bench.tune("queue:q", declared=Limits(limit=4))
        assert [(event.kind, event.job, event.task, event.queue, event.data) for event in await bench.events()] == [
            ("gate_changed", "queue:q", "", "", {"paused": True}),
            ("gate_changed", "queue:q", "", "", {"paused": False}),
            ("gate_changed", "queue:q", "", "", {"closed_for": 700}),
            ("gate_changed", "queue:q", "", "", {}),
        ]

    async def test_a_tuning_that_changes_nothing_is_no_event(self, bench: Bench) -> None:
        await bench.tune("queue:q", declared=Limits(limit=4), note=b"1")
        before = await bench.newest()
        await bench.tune("queue:q", declared=Limits(limit=4))
        await bench.tune("queue:q", note=b"1")
        await bench.tune("queue:q", expect=0, note=b"2")
        assert await bench.kinds(after=before) == []

    async def test_gates_of_others_concern_nobody_else(self, bench: Bench) -> None:
        for name in ("queue:other", "task:u", "breaker:b", "task:q", "queue:t"):
            await bench.limit(name, paused=True)
        await bench.add("a", "b")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_a_gate_with_nothing_to_say_is_in_nobodys_way(self, bench: Bench) -> None:
        await bench.add("a", task="u")
        await bench.tune("task:t", note=b"only a note")
        await bench.limit("queue:q", paused=False, limit=0, rate=NO_RATE)
        await bench.add("b")
        worker = await bench.worker(declares=TASKS)
        assert await worker.ids() == ["a", "b"]


class PauseRules:
    """A paused gate lets nothing through, and keeps nothing else."""

    async def test_a_paused_queue_takes_in_and_gives_nothing(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.limit("queue:q", paused=True)
        await bench.add("b")
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], -1)
        assert await bench.counts() == {"ready": 2}
        await bench.limit("queue:q", paused=False)
        assert await worker.ids() == ["a", "b"]

    async def test_a_paused_queue_keeps_no_other(self, bench: Bench) -> None:
        await bench.limit("queue:q", paused=True)
        await bench.add("a")
        await bench.add("x", queue="x")
        worker = await bench.worker(queues=["q", "x"])
        assert await worker.ids() == ["x"]

    @each_kind
    async def test_what_runs_at_a_pause_goes_on(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.add("a", "b", **fields)
        worker = await bench.worker()
        a, b = await worker.claim()
        await bench.limit(gate, paused=True)
        await worker.finish(a)
        await worker.settle(b, RETRY_NOW)
        assert await bench.states("a", "b") == [State.SUCCEEDED, State.READY]
        assert await worker.ids() == []
        await bench.limit(gate, paused=False)
        assert await worker.ids() == ["b"]

    @each_kind
    async def test_what_becomes_due_waits_for_the_end_of_the_pause(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, paused=True)
        await bench.add("a", delay=1_000, **fields)
        worker = await bench.worker()
        bench.clock.advance(1_000)
        assert await worker.ids() == []
        assert await bench.state("a") == State.READY
        await bench.limit(gate, paused=False)
        assert await worker.ids() == ["a"]

    async def test_a_paused_task_keeps_its_own_jobs_only(self, bench: Bench) -> None:
        await bench.add("t1", "t2")
        await bench.add("u1", task="u")
        await bench.limit("task:t", paused=True)
        await bench.add("t3")
        await bench.add("u2", task="u")
        worker = await bench.worker(declares=TASKS)
        assert await worker.ids() == ["u1", "u2"]
        assert await bench.counts() == {"ready": 3, "running": 2}
        await bench.limit("task:t", paused=False)
        assert await worker.ids() == ["t1", "t2", "t3"]

    async def test_a_paused_task_is_paused_in_every_queue(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        for queue in ("q", "x", "y"):
            await bench.add(f"t-{queue}", queue=queue)
            await bench.add(f"u-{queue}", queue=queue, task="u")
        worker = await bench.worker(queues=["q", "x", "y"], declares=TASKS)
        assert await worker.ids() == ["u-q", "u-x", "u-y"]
        await bench.limit("task:t", paused=False)
        assert await worker.ids() == ["t-q", "t-x", "t-y"]

    async def test_thousands_of_a_paused_task_keep_nothing_behind_them(self, bench: Bench) -> None:
        for batch in range(3):
            await bench.add(*[f"t{batch}-{n}" for n in range(1_000)], priority=9)
        await bench.limit("task:t", paused=True)
        await bench.add("u1", "u2", task="u")
        worker = await bench.worker(declares=TASKS)
        found: list[str] = []
        for _ in range(10):
            found += await worker.ids(1)
        assert found == ["u1", "u2"]
        await bench.limit("task:t", paused=False)
        assert await worker.ids(3) == ["t0-0", "t0-1", "t0-2"]

    async def test_an_insert_into_a_paused_queue_wakes_nobody(self, bench: Bench) -> None:
        hands = await idle_workers(bench, 2)
        await bench.limit("queue:q", paused=True)
        before = await woken(hands)
        await bench.add("a", "b")
        assert await woken(hands) == before

    async def test_an_insert_of_a_paused_task_whose_lane_waits_wakes_nobody(self, bench: Bench) -> None:
        await bench.limit("task:t", paused=True)
        await bench.add("a")
        hands = await idle_workers(bench, 2)
        await bench.add("b", "c")
        assert await woken(hands) == [0, 0]

    async def test_a_resumed_queue_wakes_as_many_as_it_has_jobs(self, bench: Bench) -> None:
        await bench.limit("queue:q", paused=True)
        await bench.add("a", "b")
        hands = await idle_workers(bench, 4)
        await bench.limit("queue:q", paused=False)
        assert sorted(await woken(hands)) == [0, 0, 1, 1]

    @pytest.mark.parametrize("kind", ["task", "breaker"])
    async def test_a_resumed_task_wakes_as_many_as_it_has_jobs(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, paused=True)
        await bench.add("a", "b", **fields)
        hands = await idle_workers(bench, 4)
        await bench.limit(gate, paused=False)
        assert sorted(await woken(hands)) == [0, 0, 1, 1]

    async def test_a_pause_and_its_end_wake_workers_of_that_queue_only(self, bench: Bench) -> None:
        await bench.limit("queue:q", paused=True)
        await bench.add("a")
        hands = await idle_workers(bench, 1, queues=["other"])
        await bench.limit("queue:q", paused=False)
        assert await woken(hands) == [0]

    @each_kind
    async def test_what_a_pause_keeps_can_be_cancelled_deleted_and_moved(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, paused=True)
        await bench.add(*"abcdef", **fields)
        worker = await bench.worker(queues=["q", "x"])
        assert await worker.ids() == []
        await bench.change(Action.CANCEL, "a")
        await bench.change(Action.DELETE, "b")
        await bench.change(Action.MOVE, "c", queue="x")
        await bench.change(Action.REPRIORITISE, "e", priority=9)
        await bench.add("g", priority=7, **fields)
        await bench.limit(gate, paused=False)
        assert await worker.ids() == ["e", "g", "d", "f", "c"]

    @each_kind
    async def test_what_a_pause_keeps_expires(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, paused=True)
        await bench.add("a", expires_in=1_000, **fields)
        worker = await bench.worker()
        assert await worker.ids() == []
        bench.clock.advance(1_001)
        await bench.store.sweep()
        assert await bench.state("a") == State.CANCELLED
        await bench.limit(gate, paused=False)
        assert await worker.ids() == []

    @each_kind
    async def test_a_scheduled_job_can_be_promoted_into_a_pause(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, paused=True)
        await bench.add("a", delay=60_000, **fields)
        await bench.change(Action.PROMOTE, "a")
        worker = await bench.worker()
        assert await worker.ids() == []
        await bench.limit(gate, paused=False)
        assert await worker.ids() == ["a"]


class ClosureRules:
    """``closed_for`` closes a gate to all, until its time is over."""

    @each_kind
    async def test_it_is_over_to_the_millisecond(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.tune(gate, closed_for=3_000)
        await bench.add("a", **fields)
        worker = await bench.worker()
        bench.clock.advance(1_000)
        reply = await worker.exchange(want=5)
        assert (reply.claims, reply.next_due) == ([], 2_000)
        bench.clock.advance(1_999)
        assert await worker.ids() == []
        bench.clock.advance(1)
        assert await worker.ids() == ["a"]

    async def test_it_counts_down(self, bench: Bench) -> None:
        await bench.tune("breaker:b", closed_for=3_000)
        bench.clock.advance(1_200)
        info = await bench.gate("breaker:b")
        assert (info.closed_for, info.opens_in) == (1_800, 1_800)
        bench.clock.advance(1_800)
        info = await bench.gate("breaker:b")
        assert (info.closed_for, info.opens_in) == (0, 0)

    @each_kind
    async def test_it_can_be_opened_before_its_time_which_wakes(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.tune(gate, closed_for=60_000)
        await bench.add("a", **fields)
        [idle] = await idle_workers(bench, 1)
        await bench.tune(gate, closed_for=0)
        await idle.mail.woken()
        assert await idle.ids() == ["a"]

    @each_kind
    async def test_it_can_be_made_longer_and_shorter(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.tune(gate, closed_for=1_000)
        await bench.add("a", **fields)
        worker = await bench.worker()
        assert await worker.ids() == []
        await bench.tune(gate, closed_for=5_000)
        bench.clock.advance(1_000)
        assert await worker.ids() == []
        await bench.tune(gate, closed_for=500)
        assert (await worker.exchange(want=1)).next_due == 500
        bench.clock.advance(500)
        assert await worker.ids() == ["a"]

    @each_kind
    async def test_one_made_shorter_wakes_somebody_to_set_its_alarm(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.tune(gate, closed_for=60_000)
        await bench.add("a", **fields)
        [idle] = await idle_workers(bench, 1)
        await bench.tune(gate, closed_for=500)
        await idle.mail.woken()
        assert (await idle.exchange(want=1)).next_due == 500

    @each_kind
    async def test_a_sweep_that_finds_it_over_wakes(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.tune(gate, closed_for=3_000)
        await bench.add("a", **fields)
        [idle] = await idle_workers(bench, 1)
        bench.clock.advance(3_000)
        await bench.store.sweep()
        await idle.mail.woken()
        assert await idle.ids() == ["a"]

    async def test_a_closed_breaker_gate_concerns_all_tasks_that_share_it_and_no_others(self, bench: Bench) -> None:
        await bench.tune("breaker:b", closed_for=1_000)
        await bench.add("t1", terms=OF_A_BREAKER)
        await bench.add("u1", task="u", terms=OF_A_BREAKER)
        await bench.add("t2")
        await bench.add("v1", task="v", terms=Terms(breaker="another"))
        worker = await bench.worker(declares=TASKS)
        assert sorted(await worker.ids()) == ["t2", "v1"]
        bench.clock.advance(1_000)
        assert sorted(await worker.ids()) == ["t1", "u1"]

    async def test_a_pause_outlasts_it(self, bench: Bench) -> None:
        await bench.tune("task:t", closed_for=1_000, tuned=Limits(paused=True))
        await bench.add("a")
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == -1
        assert (await bench.gate("task:t")).opens_in == 1_000
        bench.clock.advance(1_000)
        assert await worker.ids() == []


class LimitRules:
    """At no moment do more units run than a limit allows, over all workers."""

    @each_kind
    async def test_no_more_run_at_once(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=2)
        await bench.add(*"abcde", **fields)
        first, second = await bench.worker("w1"), await bench.worker("w2")
        a, b = await first.claim()
        assert await second.claim() == []
        reply = await first.exchange([move(a, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["c"]
        await first.finish(b)
        assert await second.ids() == ["d"]
        assert await held(bench, gate) == 2

    @each_kind
    async def test_what_is_held_is_what_runs(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=5)
        await bench.add(*"abc", **fields)
        worker = await bench.worker()
        a, b, _c = await worker.claim()
        assert await held(bench, gate) == 3
        await worker.finish(a)
        await worker.settle(b, RETRY_NOW)
        assert await held(bench, gate) == 1

    @each_kind
    async def test_a_free_unit_wakes_an_idle_worker(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=1)
        await bench.add("a", "b", **fields)
        busy = await bench.worker()
        a = await busy.take("a")
        hands = await idle_workers(bench, 3)
        await busy.finish(a)
        assert sorted(await woken(hands)) == [0, 0, 1]
        [told] = [hand for hand in hands if hand.mail.wakes]
        assert await told.ids() == ["b"]

    @each_kind
    async def test_nobody_is_woken_for_what_the_worker_takes_itself(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=1)
        await bench.add("a", "b", **fields)
        busy = await bench.worker()
        a = await busy.take("a")
        hands = await idle_workers(bench, 1)
        reply = await busy.exchange([move(a, DONE)], want=1)
        assert [claim.id for claim in reply.claims] == ["b"]
        assert await woken(hands) == [0]

    @each_kind
    async def test_a_limit_set_while_jobs_run_counts_them(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.add(*"abcde", **fields)
        worker = await bench.worker()
        a, b, c = await worker.claim(3)
        info = await bench.limit(gate, limit=2)
        assert info.held == 3
        await worker.finish(a)
        assert await worker.ids() == []
        await worker.finish(b)
        assert await worker.ids() == ["d"]
        await worker.finish(c)
        assert await worker.ids() == ["e"]

    @each_kind
    async def test_a_limit_taken_away_and_set_again_counts_anew(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=2)
        await bench.add(*"abcdefg", **fields)
        worker = await bench.worker()
        a, b = await worker.claim()
        await bench.tune(gate, tuned=NO_LIMITS)
        c, d = await worker.claim(2)
        await worker.finish(a, c)
        await bench.limit(gate, limit=3)
        assert await held(bench, gate) == 2
        [e] = await worker.claim()
        await worker.finish(b, d, e)
        assert await held(bench, gate) == 0
        assert await worker.ids() == ["f", "g"]

    @each_kind
    async def test_a_lower_limit_stops_nothing_that_runs(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=3)
        await bench.add(*"abcd", **fields)
        worker = await bench.worker()
        a, b, c = await worker.claim()
        await bench.limit(gate, limit=1)
        assert not (await worker.exchange([move(a, DONE), move(b, DONE)], want=5)).claims
        reply = await worker.exchange([move(c, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["d"]

    @each_kind
    async def test_a_higher_limit_lets_more_in_at_once_and_wakes_them(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=1)
        await bench.add(*"abcd", **fields)
        worker = await bench.worker()
        await worker.take("a")
        hands = await idle_workers(bench, 4)
        await bench.limit(gate, limit=3)
        assert sorted(await woken(hands)) == [0, 0, 1, 1]
        assert await hands[0].ids() == ["b", "c"]

    @each_kind
    async def test_a_limit_taken_away_lets_all_in(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=1)
        await bench.add(*"abcd", **fields)
        worker = await bench.worker()
        await worker.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.tune(gate, tuned=NO_LIMITS)
        await idle.mail.woken()
        assert await idle.ids() == ["b", "c", "d"]

    async def test_a_queues_limit_holds_for_lanes_and_plain_jobs_together(self, bench: Bench) -> None:
        await bench.limit("queue:q", limit=3)
        await bench.add("p1", "p2", "p3")
        await bench.add("k1", "k2", "k3", terms=Terms(key="k"))
        worker = await bench.worker()
        first = await worker.claim()
        assert len(first) == 3
        reply = await worker.exchange([move(claim, DONE) for claim in first], want=9)
        assert len(reply.claims) == 3
        assert {claim.id for claim in [*first, *reply.claims]} == {"p1", "p2", "p3", "k1", "k2", "k3"}

    async def test_a_tasks_limit_holds_over_all_queues(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=2)
        for queue in ("x", "y", "z"):
            await bench.add(f"{queue}1", f"{queue}2", queue=queue)
        hands = [await bench.worker(f"w-{queue}", queues=[queue]) for queue in ("x", "y", "z")]
        assert [len(await hand.claim(1)) for hand in hands] == [1, 1, 0]
        assert await held(bench, "task:t") == 2

    async def test_an_expired_job_holds_nothing(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("old", expires_in=1_000)
        await bench.add("a")
        bench.clock.advance(1_001)
        worker = await bench.worker()
        assert await worker.ids() == ["a"]
        assert await held(bench, "task:t") == 1

    @each_kind
    async def test_less_than_wanted_because_of_a_limit_is_idle(self, bench: Bench, kind: str) -> None:
        gate, fields = KINDS[kind]
        await bench.limit(gate, limit=1)
        await bench.add("a", "b", **fields)
        worker = await bench.worker()
        await worker.claim(2)
        assert (await worker.info()).idle

    async def test_a_limit_that_is_full_asks_for_no_alarm(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("a", "b")
        worker = await bench.worker()
        assert (await worker.exchange(want=5)).next_due == -1


class UnitRules:
    """A job weighs its units at every gate, in limits and in rates."""

    @each_kind
    async def test_units_are_held(self, bench: Bench, kind: str) -> None:
        gate, _ = KINDS[kind]
        await bench.limit(gate, limit=5)
        await bench.add("a", "b", "c", terms=Terms(units=2, breaker="b"))
        worker = await bench.worker()
        a, _b = await worker.claim()
        assert await held(bench, gate) == 4
        await worker.finish(a)
        assert await held(bench, gate) == 2
        assert await worker.ids() == ["c"]

    @each_kind
    async def test_what_weighs_more_than_the_limit_runs_when_nothing_else_does(self, bench: Bench, kind: str) -> None:
        gate, _ = KINDS[kind]
        await bench.limit(gate, limit=2)
        await bench.add("a", "b", terms=Terms(units=1, breaker="b"))
        await bench.add("heavy", terms=Terms(units=9, breaker="b"))
        await bench.add("c", terms=Terms(units=1, breaker="b"))
        worker = await bench.worker()
        a, b = await worker.claim()
        assert (await worker.exchange([move(a, DONE)], want=5)).claims == []
        reply = await worker.exchange([move(b, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["heavy"]
        assert await held(bench, gate) == 9
        reply = await worker.exchange([move(reply.claims[0], DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["c"]

    async def test_a_heavy_job_waits_and_lets_no_other_of_its_lane_pass(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=3)
        await bench.add("a", terms=Terms(units=2))
        await bench.add("heavy", terms=Terms(units=2))
        await bench.add("light")
        worker = await bench.worker()
        a = await worker.take("a")
        assert await worker.ids() == []
        reply = await worker.exchange([move(a, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["heavy", "light"]

    async def test_a_limit_set_while_jobs_run_counts_their_units(self, bench: Bench) -> None:
        await bench.add("a", terms=Terms(units=3))
        await bench.add("b")
        worker = await bench.worker()
        assert len(await worker.claim()) == 2
        assert (await bench.limit("queue:q", limit=4)).held == 4
        assert (await bench.limit("task:t", limit=4)).held == 4

    async def test_units_are_charged_to_a_rate(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second(4))
        await bench.add("a", "b", "c", terms=Terms(units=2))
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["a", "b"], 2_000)
        bench.clock.advance(2_000)
        assert await worker.ids() == ["c"]

    async def test_what_weighs_more_than_the_burst_passes_in_its_time(self, bench: Bench) -> None:
        await bench.limit("task:t", rate=a_second(2))
        await bench.add("heavy", terms=Terms(units=5))
        await bench.add("light")
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        assert ([claim.id for claim in reply.claims], reply.next_due) == (["heavy"], 4_000)
        bench.clock.advance(4_000)
        assert await worker.ids() == ["light"]


class ReleaseRules:
    """However a job stops running, what it held is free, once."""

    @pytest.fixture
    async def two(self, bench: Bench) -> Hand:
        """All gates have a limit of one; ``a`` runs on ``w1`` and ``b`` waits."""
        for gate in ("queue:q", "task:t", "breaker:b"):
            await bench.limit(gate, limit=1)
        await bench.add("a", max_crashes=5, terms=OF_A_BREAKER)
        await bench.add("b", terms=OF_A_BREAKER)
        worker = await bench.worker("w1")
        await worker.take("a")
        assert await worker.ids() == []
        await worker.exchange()  # it waits for nothing
        return worker

    async def all_held(self, bench: Bench) -> list[int]:
        return [info.held for info in await bench.store.gates(["queue:q", "task:t", "breaker:b"])]

    @pytest.mark.parametrize("how", [*EVERY, "crash"])
    async def test_a_settle_frees_it(self, bench: Bench, two: Hand, how: str) -> None:
        outcome: Outcome = Crashed(OOPS, max_crashes=5) if how == "crash" else EVERY[how]
        reply = await two.settle(two.held["a"], outcome)
        assert reply.refused == []
        assert await self.all_held(bench) == [0, 0, 0]
        idle = await bench.worker("w2")
        assert len(await idle.claim()) == 1
        assert await self.all_held(bench) == [1, 1, 1]

    async def test_a_settle_that_yields_to_a_cancel_frees_it(self, bench: Bench, two: Hand) -> None:
        await bench.change(Action.CANCEL, "a")
        assert await self.all_held(bench) == [1, 1, 1]
        await two.settle(two.held["a"], RETRY_NOW)
        assert await self.all_held(bench) == [0, 0, 0]
        assert await two.ids() == ["b"]

    @pytest.mark.parametrize("crashed", [False, True])
    async def test_a_worker_that_leaves_frees_it(self, bench: Bench, two: Hand, crashed: bool) -> None:
        [idle] = await idle_workers(bench, 1)
        await bench.store.leave(two.id, crashed=crashed)
        assert await self.all_held(bench) == [0, 0, 0]
        await idle.mail.woken()
        assert len(await idle.ids()) == 1

    async def test_the_end_of_a_dead_worker_frees_it(self, bench: Bench, two: Hand) -> None:
        [idle] = await idle_workers(bench, 1)
        await bench.passes(LEASE + 1, idle)
        assert await self.all_held(bench) == [0, 0, 0]
        await idle.mail.woken()
        assert len(await idle.ids()) == 1

    async def test_a_beat_that_does_not_hold_it_frees_it(self, bench: Bench, two: Hand) -> None:
        [idle] = await idle_workers(bench, 1)
        await two.beat(held=[])
        assert await self.all_held(bench) == [0, 0, 0]
        await idle.mail.woken()
        assert await idle.ids() == ["a"]

    async def test_a_quarantined_job_holds_nothing(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("a", max_crashes=1)
        await bench.add("b")
        await bench.crash("a")
        assert await bench.state("a") == State.FAILED
        worker = await bench.worker()
        assert await worker.ids() == ["b"]

    async def test_a_refused_settle_of_a_zombie_frees_nothing(self, bench: Bench, two: Hand) -> None:
        zombie = two.held["a"]
        await bench.store.leave(two.id)
        heir = await bench.worker("w2")
        await heir.take("a")
        late = await bench.worker("w1-again")
        reply = await late.exchange([move(zombie, DONE)], want=5)
        assert (reply.refused, reply.claims) == (["a"], [])
        assert (await bench.store.exchange(two.id, 99, [move(zombie, DONE)], Want([], 0))).gone
        assert await self.all_held(bench) == [1, 1, 1]

    async def test_a_settle_with_an_old_fence_frees_nothing(self, bench: Bench, two: Hand) -> None:
        old = two.held["a"]
        await two.settle(old, BACK)
        await two.take("a")
        reply = await two.exchange([move(old, DONE)], want=5)
        assert (reply.refused, reply.claims) == (["a"], [])
        assert await self.all_held(bench) == [1, 1, 1]

    async def test_a_settle_sent_again_frees_once(self, bench: Bench, two: Hand) -> None:
        await bench.add("c", terms=OF_A_BREAKER)
        await two.exchange([move(two.held["a"], DONE)], want=5)
        again = await two.resend()
        assert [claim.id for claim in again.claims] == ["b"]
        assert await self.all_held(bench) == [1, 1, 1]
        other = await bench.worker("w2")
        assert await other.ids() == []

    async def test_a_claim_whose_reply_was_lost_is_held_once(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=3, rate=a_second(3))
        await bench.add(*"abcd")
        worker = await bench.worker()
        await worker.lost_reply(want=2)
        again = await worker.resend()
        assert [claim.id for claim in again.claims] == ["a", "b"]
        assert await held(bench, "task:t") == 2
        await worker.beat()
        assert await held(bench, "task:t") == 2
        other = await bench.worker("w2")
        assert await other.ids() == ["c"]

    async def test_a_claim_that_was_never_seen_is_freed_by_the_next_beat(self, bench: Bench) -> None:
        await bench.limit("task:t", limit=1)
        await bench.add("a")
        worker = await bench.worker()
        await worker.lost_reply(want=1)
        await worker.beat(acked=1, held=[])
        assert await held(bench, "task:t") == 0
        assert await worker.ids() == ["a"]

    async def test_a_retry_of_a_dead_letter_is_held_anew(self, bench: Bench, two: Hand) -> None:
        await two.settle(two.held["a"], DEAD)
        await bench.change(Action.RETRY, "a")
        assert await self.all_held(bench) == [0, 0, 0]
        assert len(await two.claim()) == 1
        assert await self.all_held(bench) == [1, 1, 1]

    async def test_many_lives_leave_nothing_held(self, bench: Bench) -> None:
        for gate in ("queue:q", "task:t"):
            await bench.limit(gate, limit=4)
        await bench.add(*[f"j{n}" for n in range(40)], max_crashes=9)
        outcomes: list[Outcome] = [DONE, RETRY_NOW, BACK, DEAD]
        for round in range(12):
            hand = await bench.worker(f"w{round}")
            claims = await hand.claim()
            assert len(claims) <= 4
            if round % 3 == 2:
                await bench.store.leave(hand.id, crashed=round % 2 == 0)
            else:
                moves = [move(claim, outcomes[(n + round) % 4]) for n, claim in enumerate(claims)]
                await hand.exchange(moves)
        infos = await bench.store.gates(["queue:q", "task:t"])
        assert [info.held for info in infos] == [0, 0]


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
