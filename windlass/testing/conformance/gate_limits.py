"""How much runs at once: limits, what jobs weigh at them, and that whatever stops running holds nothing."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Outcome
from windlass.core.limits import NO_LIMITS
from windlass.core.terms import Terms
from windlass.store.jobs import Action, Want
from windlass.testing.conformance.bench import LEASE, Bench, Hand, move
from windlass.testing.conformance.gates import KINDS, OF_A_BREAKER, a_second, each_kind, held
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, EVERY, OOPS, RETRY_NOW
from windlass.testing.conformance.wake import idle_workers, woken


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

    @each_kind
    @pytest.mark.parametrize("burst", [4, 5])
    async def test_units_are_charged_to_a_rate(self, bench: Bench, kind: str, burst: int) -> None:
        """An odd unit that is left opens nothing for a job that weighs two."""
        gate, _ = KINDS[kind]
        await bench.limit(gate, rate=a_second(burst))
        await bench.add("a", "b", "c", terms=Terms(units=2, breaker="b"))
        worker = await bench.worker()
        reply = await worker.exchange(want=5)
        due = 2_000 if burst == 4 else 1_000
        assert [claim.id for claim in reply.claims] == ["a", "b"]
        assert 0 < reply.next_due <= due
        bench.clock.advance(due)
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
