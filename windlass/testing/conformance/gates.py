"""Gates of queues, tasks and breakers: how they are tuned, paused and closed."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits, Rate
from windlass.core.terms import Terms
from windlass.store.flow import Tuning
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import Bench
from windlass.testing.conformance.outcomes import RETRY_NOW
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
    """A rate of one unit per second."""
    return Rate(1_000_000, burst)


async def held(bench: Bench, gate: str) -> int:
    return (await bench.gate(gate)).held


class TuneRules:
    """A gate holds what an operator said, over what the code says; versions guard both."""

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
