"""What a lane waits for: its head decides for all, gates open it, and graphs put jobs into it."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import Terms
from windlass.store.flow import Tuning
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench, move, new_job
from windlass.testing.conformance.gates import TASKS
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.graph_drafts import GraphDraft, chain
from windlass.testing.conformance.lanes import MANY, add_lanes, key
from windlass.testing.conformance.outcomes import DONE
from windlass.testing.conformance.wake import idle_workers


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
