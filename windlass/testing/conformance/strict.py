"""Strict lanes: one job under way at a time, in the order they came or in that of their numbers."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Outcome
from windlass.core.terms import Terms
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import LEASE, Bench, Hand, MakeBench, move
from windlass.testing.conformance.gates import a_second
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.outcomes import (
    BACK,
    DEAD,
    DONE,
    LOSE_TO_CANCEL,
    OOPS,
    RETRY_LATER,
    RETRY_NOW,
    STOPPED,
)
from windlass.testing.conformance.wake import idle_workers, woken

NEW = {"new": Declared()}


def ordered(name: str = "k", **fields: Any) -> dict[str, Any]:
    return {"terms": Terms(key=name, ordered=True, **fields)}


async def runs(hand: Hand, times: int) -> list[str]:
    """Claim and finish jobs one by one; there must never be two at once."""
    ran = []
    for _ in range(times):
        claims = await hand.claim()
        assert len(claims) <= 1, f"{[claim.id for claim in claims]} at once"
        ran += [claim.id for claim in claims]
        await hand.finish(*claims)
    return ran


class OrderedRules:
    """Nothing of an ordered lane starts before the one before it is over or gone."""

    async def test_one_after_the_other(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        first, second = await bench.worker("w1"), await bench.worker("w2")
        a = await first.take("a")
        assert await second.ids() == []
        reply = await first.exchange([move(a, DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["b"]
        await first.finish(reply.claims[0])
        assert await second.ids() == ["c"]

    async def test_lanes_run_side_by_side(self, bench: Bench) -> None:
        for name in "xyz":
            await bench.add(f"{name}0", f"{name}1", **ordered(name))
        worker = await bench.worker()
        assert await worker.ids() == ["x0", "y0", "z0"]
        reply = await worker.exchange([move(worker.held["y0"], DONE)], want=5)
        assert [claim.id for claim in reply.claims] == ["y1"]

    @pytest.mark.parametrize("slots", [1, 2, 4])
    async def test_a_lane_that_gave_a_job_has_its_next_turn_behind_the_others(self, bench: Bench, slots: int) -> None:
        """Also one that is free again at once: no lane starves while another runs all it has."""
        for n in range(3):
            for name in "wxyz":
                await bench.add(f"{name}{n}", **ordered(name))
        worker, ran = await bench.worker(), []
        for _ in range(12 // slots):
            done = [move(claim, DONE) for claim in worker.held.values()]
            ran += [claim.id for claim in (await worker.exchange(done, want=slots)).claims]
        assert ran == [f"{name}{n}" for n in range(3) for name in "wxyz"]

    async def test_priorities_do_not_count_within_it(self, bench: Bench) -> None:
        for id, priority in (("a", 1), ("b", 9), ("c", 5)):
            await bench.add(id, priority=priority, **ordered())
        worker = await bench.worker()
        assert await runs(worker, 4) == ["a", "b", "c"]

    async def test_it_has_the_middle_priority_among_others(self, bench: Bench) -> None:
        await bench.add("o9", priority=9, **ordered("x"))
        await bench.add("o0", priority=0, **ordered("y"))
        await bench.add("k6", priority=6, terms=Terms(key="k"))
        await bench.add("k4", priority=4, terms=Terms(key="l"))
        worker = await bench.worker()
        assert await worker.ids() == ["k6", "o9", "o0", "k4"]

    async def test_reprioritising_changes_no_place(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        await bench.change(Action.REPRIORITISE, "c", priority=9)
        worker = await bench.worker()
        assert await runs(worker, 4) == ["a", "b", "c"]

    @pytest.mark.parametrize("how", [*LOSE_TO_CANCEL, "crash"])
    async def test_the_holder_keeps_the_lane_until_it_is_over(self, bench: Bench, how: str) -> None:
        await bench.add(*"abc", max_crashes=9, **ordered())
        worker = await bench.worker()
        a = await worker.take("a")
        await worker.settle(a, Crashed(OOPS, max_crashes=9) if how == "crash" else LOSE_TO_CANCEL[how])
        if (await bench.job("a")).state is State.SCHEDULED:
            assert await worker.ids() == []
            bench.clock.advance(3_000)
        assert await runs(worker, 4) == ["a", "b", "c"]

    async def test_a_retry_that_is_due_later_lets_nobody_pass(self, bench: Bench) -> None:
        await bench.add(*"ab", **ordered())
        worker = await bench.worker()
        reply = await worker.settle(await worker.take("a"), RETRY_LATER)
        assert reply.next_due == 2_000
        for _ in range(3):
            bench.clock.advance(600)
            assert await worker.ids() == []
        bench.clock.advance(200)
        assert await worker.ids() == ["a"]

    async def test_a_worker_that_left_or_died_lets_nobody_pass(self, bench: Bench) -> None:
        await bench.add(*"ab", max_crashes=9, crash_delay=1_000, **ordered())
        first = await bench.worker("w1")
        await first.take("a")
        await bench.store.leave("w1")
        second = await bench.worker("w2")
        await second.take("a")
        await bench.store.leave("w2", crashed=True)
        third = await bench.worker("w3")
        assert await third.ids() == []
        bench.clock.advance(1_000)
        await third.take("a")
        fourth = await bench.worker("w4")
        await bench.passes(LEASE + 1, fourth)
        await bench.passes(1_000, fourth)
        assert await runs(fourth, 3) == ["a", "b"]

    async def test_a_beat_that_does_not_hold_it_lets_nobody_pass(self, bench: Bench) -> None:
        await bench.add(*"ab", **ordered())
        worker = await bench.worker()
        await worker.take("a")
        await worker.beat(held=[])
        assert await worker.ids() == ["a"]

    @pytest.mark.parametrize("outcome", [DEAD, STOPPED, DONE])
    async def test_any_end_frees_the_lane(self, bench: Bench, outcome: Outcome) -> None:
        await bench.add(*"ab", **ordered())
        worker = await bench.worker()
        reply = await worker.exchange([move(await worker.take("a"), outcome)], want=5)
        assert [claim.id for claim in reply.claims] == ["b"]

    async def test_a_quarantined_holder_frees_the_lane(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1, **ordered())
        await bench.add("b", **ordered())
        dying = await bench.worker("dying")
        await dying.take("a")
        [idle] = await idle_workers(bench, 1)
        await bench.store.leave("dying", crashed=True)
        assert await bench.state("a") == State.FAILED
        await idle.mail.woken()
        assert await idle.ids() == ["b"]

    async def test_the_end_of_the_holder_wakes_one_for_the_next(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        worker = await bench.worker()
        a = await worker.take("a")
        hands = await idle_workers(bench, 3)
        await worker.finish(a)
        assert sorted(await woken(hands)) == [0, 0, 1]

    async def test_a_job_that_joins_a_lane_that_is_held_wakes_nobody(self, bench: Bench) -> None:
        await bench.add("a", **ordered())
        worker = await bench.worker()
        await worker.take("a")
        hands = await idle_workers(bench, 2)
        await bench.add("b", "c", **ordered())
        assert await woken(hands) == [0, 0]

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE, Action.MOVE])
    async def test_a_holder_that_is_taken_away_frees_the_lane(self, bench: Bench, action: Action) -> None:
        await bench.add(*"ab", **ordered())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        [idle] = await idle_workers(bench, 1)
        await bench.change(action, "a", **({"queue": "x"} if action is Action.MOVE else {}))
        await idle.mail.woken()
        assert await idle.ids() == ["b"]

    async def test_a_holder_that_expires_frees_the_lane(self, bench: Bench) -> None:
        await bench.add("a", expires_in=1_000, **ordered())
        await bench.add("b", **ordered())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        bench.clock.advance(1_001)
        await bench.store.sweep()
        assert await bench.state("a") == State.CANCELLED
        assert await worker.ids() == ["b"]

    async def test_a_holder_that_is_promoted_or_rescheduled_keeps_the_lane(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        await bench.change(Action.RESCHEDULE, "a", delay=5_000)
        bench.clock.advance(2_000)
        assert await worker.ids() == []
        await bench.change(Action.PROMOTE, "a")
        assert await runs(worker, 4) == ["a", "b", "c"]

    async def test_a_place_is_got_when_a_job_first_becomes_ready(self, bench: Bench) -> None:
        await bench.add("late", delay=1_000, **ordered())
        await bench.add("a", **ordered())
        bench.clock.advance(1_000)
        await bench.store.sweep()
        await bench.add("b", **ordered())
        worker = await bench.worker()
        assert await runs(worker, 4) == ["a", "late", "b"]

    async def test_a_ready_job_that_is_rescheduled_keeps_its_place(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered())
        await bench.change(Action.RESCHEDULE, "b", delay=1_000)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        worker = await bench.worker()
        assert await runs(worker, 4) == ["a", "b", "c"]

    async def test_a_job_that_moves_gets_the_last_place_of_its_new_lane(self, bench: Bench) -> None:
        await bench.add("a", **ordered())
        await bench.add("x", queue="x", **ordered())
        await bench.change(Action.MOVE, "a", queue="x")
        await bench.add("y", queue="x", **ordered())
        worker = await bench.worker(queues=["x"])
        assert await runs(worker, 4) == ["x", "a", "y"]

    async def test_a_replay_comes_last(self, bench: Bench) -> None:
        await bench.add(*"ab", **ordered())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.change(Action.RETRY, "a")
        assert await runs(worker, 3) == ["b", "a"]

    async def test_one_that_waits_for_its_children_keeps_the_lane(self, bench: Bench) -> None:
        await bench.add("p", "b", **ordered())
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("c0"))
        assert await worker.ids() == []
        assert await bench.play(other) == ["c0"]
        assert await runs(worker, 3) == ["p", "b"]

    async def test_one_replaced_by_its_children_frees_the_lane_at_their_end(self, bench: Bench) -> None:
        await bench.add("p", "b", **ordered())
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("c0"), replaced=True)
        assert await worker.ids() == []
        await bench.play(other)
        assert await bench.state("p") == State.SUCCEEDED
        assert await worker.ids() == ["b"]

    async def test_a_cancel_that_was_only_requested_frees_nothing(self, bench: Bench) -> None:
        await bench.add(*"ab", **ordered())
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        a = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        assert await other.ids() == []
        await worker.settle(a, STOPPED)
        assert await other.ids() == ["b"]

    async def test_a_lost_reply_frees_nothing(self, bench: Bench) -> None:
        await bench.add(*"ab", **ordered())
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        await worker.lost_reply(want=5)
        assert [claim.id for claim in (await worker.resend()).claims] == ["a"]
        assert await other.ids() == []

    async def test_a_zombie_frees_nothing(self, bench: Bench) -> None:
        await bench.add(*"ab", max_crashes=9, **ordered())
        dead = await bench.worker("dead")
        zombie = await dead.take("a")
        heir = await bench.worker("heir")
        await bench.passes(LEASE + 1, heir)
        await heir.take("a")
        again = await bench.worker("again")
        assert (await again.exchange([move(zombie, DONE)], want=5)).refused == ["a"]
        assert await again.ids() == []

    async def test_gates_hold_for_it_too(self, bench: Bench) -> None:
        await bench.add(*"abc", **ordered(key_rate=a_second()))
        worker = await bench.worker()
        reply = await worker.exchange([move(await worker.take("a"), DONE)], want=5)
        assert (reply.claims, reply.next_due) == ([], 1_000)
        bench.clock.advance(1_000)
        await worker.settle(await worker.take("b"), RETRY_NOW)
        assert await worker.ids() == []
        bench.clock.advance(1_000)
        assert await worker.ids() == ["b"]

    async def test_a_holder_set_aside_keeps_the_lane(self, bench: Bench) -> None:
        await bench.add("n", task="new", **ordered())
        await bench.add("b", **ordered())
        old = await bench.worker("old")
        assert await old.ids() == []
        new = await bench.worker("new", declares=NEW)
        n = await new.take("n")
        assert await old.ids() == []
        await new.finish(n)
        assert await old.ids() == ["b"]

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE, Action.MOVE])
    async def test_a_holder_set_aside_that_is_taken_away_frees_the_lane(self, bench: Bench, action: Action) -> None:
        await bench.add("n", task="new", **ordered())
        await bench.add("b", **ordered())
        [old] = await idle_workers(bench, 1)
        await bench.change(action, "n", **({"queue": "x"} if action is Action.MOVE else {}))
        await old.mail.woken()
        assert await old.ids() == ["b"]

    async def test_a_holder_that_is_parked_frees_the_lane(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=10_000)
        await bench.add("n", task="new", **ordered())
        await bench.add("b", **ordered())
        old = await bench.worker("old")
        assert await old.ids() == []
        await bench.passes(15_000, old)
        assert await bench.state("n") == State.FAILED
        assert await old.ids() == ["b"]

    async def test_a_holder_that_must_run_alone_keeps_the_lane(self, bench: Bench) -> None:
        await bench.add("x", queue="x")
        busy = await bench.worker("busy", queues=["x", "q"])
        await busy.take("x")
        await bench.add("solo", max_crashes=2, **ordered())
        await bench.crash("solo")
        await bench.add("b", **ordered())
        reply = await busy.exchange(want=5)
        assert (reply.claims, reply.drain) == ([], True)
        worker = await bench.worker("w1")
        solo = await worker.take("solo")
        assert await busy.ids() == []
        await worker.finish(solo)
        assert await busy.ids() == ["b"]

    async def test_a_hundred_with_all_that_can_happen_run_in_order(self, bench: Bench) -> None:
        names = [f"j{n:03}" for n in range(100)]
        await bench.add(*names, max_crashes=99, **ordered())
        started: list[str] = []
        outcomes: list[Outcome] = [DONE, RETRY_NOW, DEAD, BACK, RETRY_LATER, DONE]
        hand = await bench.worker("w0")
        for step in range(600):
            claims = await hand.claim()
            assert len(claims) <= 1
            if not claims:
                bench.clock.advance(2_000)
                await hand.beat()
                continue
            started += [claim.id for claim in claims]
            if step % 7 == 3:
                await bench.store.leave(hand.id, crashed=False)
                hand = await bench.worker(f"w{step}")
            else:
                await hand.exchange([move(claims[0], outcomes[step % 6])])
            if (await bench.counts()).keys() <= {"succeeded", "failed"}:
                break
        assert list(dict.fromkeys(started)) == names
        assert started == sorted(started)
