"""Unique keys with a successor: the one job that waits for the holder to end; and retries of jobs with a key."""

from __future__ import annotations

import random

import pytest

from windlass.core.job import NewJob, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Outcome
from windlass.core.terms import Policy
from windlass.store.answers import Accept
from windlass.store.flow import HoldKind, UniqueInfo
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, START, Bench, Hand, MakeBench, move
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.outcomes import (
    DEAD,
    DONE,
    EVERY,
    RETRY_LATER,
)
from windlass.testing.conformance.unique import (
    AGAIN,
    KEEP,
    OVER,
    REPLACE,
    REPLACING,
    call,
    has_key,
    holder,
    succeeded_by,
    unique_job,
)


class SuccessorRules:
    """While the holder runs, one more may wait for its end."""

    @pytest.mark.parametrize("policy", REPLACING)
    async def test_a_call_while_the_holder_runs_waits_for_its_end(self, bench: Bench, policy: Policy) -> None:
        worker, claim = await succeeded_by(bench, policy)
        job = await bench.job("b")
        assert (job.state, job.payload, job.enqueued_at) == (State.WAITING, b'"b"', START)
        assert await holder(bench) == ("a", "b")
        assert await bench.counts() == {"running": 1, "waiting": 1}
        assert await bench.kinds("b") == ["enqueued"]
        assert await worker.claim() == []
        await worker.finish(claim)
        assert await bench.state("b") == State.READY
        assert await holder(bench) == ("b", "")

    async def test_what_keeps_a_successor_is_said(self, bench: Bench) -> None:
        await succeeded_by(bench)
        [hold] = await bench.store.holds(["b"])
        assert hold is not None
        assert (hold.kind, hold.holder) == (HoldKind.SUCCESSOR, "a")

    async def test_a_successor_comes_in_the_step_that_ends_its_holder(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        reply = await worker.exchange([move(claim, DONE)], want=1)
        assert [claim.id for claim in reply.claims] == ["b"]

    @pytest.mark.parametrize("outcome", OVER.values(), ids=OVER)
    async def test_a_successor_comes_however_its_holder_ends(self, bench: Bench, outcome: Outcome) -> None:
        worker, claim = await succeeded_by(bench)
        await worker.settle(claim, outcome)
        assert await bench.state("b") == State.READY

    async def test_there_is_one_successor(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        for id in "cd":
            answer = await call(bench, id, REPLACE)
            assert (answer.status, answer.holder) == (Accept.REPLACED, "b")
        assert await bench.states("b", "c", "d") == ["waiting", None, None]
        assert (await bench.kinds("b")) == ["enqueued", "replaced", "replaced"]
        await worker.finish(claim)
        assert (await worker.take("b")).payload == b'"d"'
        assert await worker.claim() == []

    async def test_successors_come_one_after_the_other(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        for n in range(5):
            await worker.finish(claim)
            claim = await worker.take()
            assert (await call(bench, f"next {n}", REPLACE)).status is Accept.ACCEPTED
        assert await bench.counts() == {"succeeded": 5, "running": 1, "waiting": 1}

    async def test_a_call_that_keeps_is_told_the_one_that_runs(self, bench: Bench) -> None:
        await succeeded_by(bench)
        assert (await call(bench, "c", KEEP)).holder == "a"

    async def test_a_successor_whose_time_has_not_come_is_scheduled(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, delay=5_000)
        bench.clock.advance(1_000)
        await worker.finish(claim)
        job = await bench.job("b")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 5_000)
        bench.clock.advance(4_000)
        await worker.take("b")

    async def test_a_successor_whose_time_has_passed_is_ready(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, delay=500)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert await bench.state("b") == State.WAITING
        await worker.finish(claim)
        await worker.take("b")

    @pytest.mark.parametrize("outcome", AGAIN.values(), ids=AGAIN)
    async def test_a_holder_that_will_run_again_keeps_its_successor_waiting(
        self, bench: Bench, outcome: Outcome
    ) -> None:
        worker, claim = await succeeded_by(bench)
        await worker.settle(claim, outcome)
        assert await holder(bench) == ("a", "b")
        bench.clock.advance(5_000)
        claim = await worker.take("a")
        assert await bench.state("b") == State.WAITING
        await worker.finish(claim)
        await worker.take("b")

    @pytest.mark.parametrize("outcome", AGAIN.values(), ids=AGAIN)
    async def test_a_call_changes_the_successor_also_while_the_holder_does_not_run(
        self, bench: Bench, outcome: Outcome
    ) -> None:
        """What was called last runs last."""
        worker, claim = await succeeded_by(bench)
        await worker.settle(claim, outcome)
        answer = await call(bench, "c", REPLACE)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "b")
        assert [(await bench.job(id)).payload for id in "ab"] == [b'"a"', b'"c"']

    async def test_a_holder_that_crashed_keeps_its_successor_waiting(self, bench: Bench) -> None:
        worker, _ = await succeeded_by(bench)
        await bench.store.leave(worker.id, crashed=True)
        assert await holder(bench) == ("a", "b")
        other = await bench.worker("w2")
        claim = await other.take("a")
        assert await bench.state("b") == State.WAITING
        await other.finish(claim)
        await other.take("b")

    async def test_a_successor_comes_when_its_holder_is_quarantined(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, max_crashes=1)
        worker = await bench.worker()
        await worker.take("a")
        await call(bench, "b", REPLACE)
        await bench.passes(LEASE + 1_000)
        assert await bench.states("a", "b") == ["failed", "ready"]

    async def test_a_holder_that_waits_for_its_children_keeps_its_successor_waiting(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        other = await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, claim, inner("x", parent="a"))
        assert await bench.states("a", "b") == ["waiting", "waiting"]
        await bench.play(other)
        claim = await worker.take("a")
        assert await bench.state("b") == State.WAITING
        await worker.finish(claim)
        await worker.take("b")

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_a_successor_comes_when_its_holder_is_cancelled_or_deleted(
        self, bench: Bench, action: Action
    ) -> None:
        worker, claim = await succeeded_by(bench)
        await worker.settle(claim, RETRY_LATER)
        reply = await bench.change(action, "a")
        assert reply.changed == ["a"]
        assert await bench.state("b") == State.READY
        assert await holder(bench) == ("b", "")

    async def test_a_successor_comes_when_its_holder_expires(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, expires_in=1_000)
        worker = await bench.worker()
        claim = await worker.take("a")
        await call(bench, "b", REPLACE)
        await worker.settle(claim, RETRY_LATER)
        bench.clock.advance(1_001)
        await bench.store.sweep()
        assert await bench.states("a", "b") == ["cancelled", "ready"]

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_a_successor_that_goes_leaves_the_key_as_it_was(self, bench: Bench, action: Action) -> None:
        worker, claim = await succeeded_by(bench)
        reply = await bench.change(action, "b")
        assert reply.changed == ["b"]
        assert await holder(bench) == ("a", "")
        assert (await call(bench, "c", REPLACE)).status is Accept.ACCEPTED
        assert await holder(bench) == ("a", "c")
        await worker.finish(claim)
        assert await worker.ids() == ["c"]

    async def test_a_successor_that_expires_leaves_the_key_as_it_was(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, expires_in=1_000)
        bench.clock.advance(1_001)
        await bench.store.sweep()
        assert await bench.state("b") == State.CANCELLED
        assert await holder(bench) == ("a", "")
        await worker.finish(claim)
        assert await has_key(bench) is None
        assert await worker.claim() == []

    async def test_a_successor_that_expired_unseen_is_not_run(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, expires_in=1_000)
        bench.clock.advance(1_001)
        await worker.finish(claim)
        assert await worker.claim() == []
        assert await bench.state("b") == State.CANCELLED
        assert await has_key(bench) is None

    async def test_a_successor_may_be_moved_and_reprioritised(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        await bench.change(Action.MOVE, "b", queue="other")
        await bench.change(Action.REPRIORITISE, "b", priority=9)
        assert await bench.state("b") == State.WAITING
        await bench.add("ahead", queue="other")
        await worker.finish(claim)
        there = await bench.worker("w2", queues=["other"])
        assert (await worker.ids(), await there.ids()) == ([], ["b", "ahead"])

    async def test_a_successor_that_comes_wakes_an_idle_worker(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        other = await bench.worker("w2")
        assert await other.claim() == []
        await worker.finish(claim)
        await other.mail.woken()
        await other.take("b")

    async def test_a_successor_goes_behind_what_was_ready_before(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        await bench.add("x")
        await worker.finish(claim)
        assert await worker.ids() == ["x", "b"]

    async def test_a_successor_holds_the_key_for_its_own_window(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, window=10_000)
        bench.clock.advance(1_000)
        await worker.finish(claim)
        await worker.finish(await worker.take("b"))
        assert await has_key(bench) == UniqueInfo(holder="b", window=9_000)

    async def test_a_successor_does_not_wait_for_the_window_of_its_holder(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, window=60_000)
        worker = await bench.worker()
        claim = await worker.take("a")
        await call(bench, "b", REPLACE)
        await worker.finish(claim)
        assert await holder(bench) == ("b", "")
        await worker.take("b")

    async def test_a_successor_comes_when_nothing_is_kept_of_its_holder(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        worker, claim = await succeeded_by(bench)
        await worker.finish(claim)
        assert await bench.state("a") is None
        await worker.take("b")

    async def test_a_watched_successor_is_told_when_it_ends(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        client = await bench.client()
        reply = await bench.store.watch(client.name, ["b"])
        assert (reply.finished, reply.missing) == ([], [])
        await worker.finish(claim)
        await worker.finish(await worker.take("b"))
        [told] = await client.told("b")
        assert told.state == State.SUCCEEDED


class UniqueRetryRules:
    """Replay asks for the key again, and nothing ever makes two of one."""

    async def test_a_retried_job_takes_its_key_again(self, bench: Bench) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.change(Action.RETRY, "a")
        assert (await call(bench, "b")).holder == "a"
        await worker.finish(await worker.take("a"))
        assert await has_key(bench) is None

    async def test_a_job_whose_key_is_held_is_not_retried(self, bench: Bench) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await call(bench, "b")
        before = await bench.job("a")
        reply = await bench.change(Action.RETRY, "a")
        assert (reply.changed, reply.skipped) == ([], {"a": "unique key held by b"})
        assert await bench.job("a") == before
        await worker.finish(await worker.take("b"))
        assert (await bench.change(Action.RETRY, "a")).changed == ["a"]

    async def test_of_two_retried_at_once_one_gets_the_key(self, bench: Bench) -> None:
        worker = await bench.worker()
        for id in "ab":
            await call(bench, id)
            await worker.settle(await worker.take(id), DEAD)
        reply = await bench.change(Action.RETRY, "a", "b")
        assert (reply.changed, reply.skipped) == (["a"], {"b": "unique key held by a"})
        assert await worker.ids() == ["a"]

    async def test_a_job_is_not_retried_in_the_window_of_another(self, bench: Bench) -> None:
        worker = await bench.worker()
        await call(bench, "a")
        await worker.settle(await worker.take("a"), DEAD)
        await call(bench, "b", window=5_000)
        await worker.finish(await worker.take("b"))
        assert (await bench.change(Action.RETRY, "a")).skipped == {"a": "unique key held by b"}
        bench.clock.advance(5_000)
        assert (await bench.change(Action.RETRY, "a")).changed == ["a"]

    async def test_a_job_is_retried_in_its_own_window(self, bench: Bench) -> None:
        worker = await bench.worker()
        await call(bench, "a", window=5_000)
        await worker.settle(await worker.take("a"), DEAD)
        assert (await bench.change(Action.RETRY, "a")).changed == ["a"]
        assert await holder(bench) == ("a", "")
        await worker.take("a")

    async def test_a_cancelled_successor_is_not_retried_while_the_key_is_held(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench)
        await bench.change(Action.CANCEL, "b")
        assert (await bench.change(Action.RETRY, "b")).skipped == {"b": "unique key held by a"}
        await worker.finish(claim)
        assert (await bench.change(Action.RETRY, "b")).changed == ["b"]
        await worker.take("b")

    @pytest.mark.parametrize("seed", range(6))
    async def test_a_unique_job_is_never_two(self, bench: Bench, seed: int) -> None:
        """A random life: calls, ends, crashes and changes. One is under way, besides a successor; all of them end."""
        life = _Life(bench, seed)
        for _ in range(150):
            await life.step()
            await life.check()
        await life.run_out()


class _Life:
    """Random steps over two keys. ``calls`` counts the ids that were given out."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.chance = random.Random(seed)
        self.calls = 0
        self.hands: list[Hand] = []

    async def step(self) -> None:
        steps = (self.call, self.call, self.claim, self.settle, self.settle, self.change, self.wait, self.die)
        await self.chance.choice(steps)()

    async def call(self) -> None:
        jobs = [self._job() for _ in range(self.chance.choice((1, 1, 1, 3)))]
        await self.bench.store.insert(jobs)

    def _job(self) -> NewJob:
        self.calls += 1
        terms = {"window": self.chance.choice((0, 0, 3_000)), "most": self.chance.choice((0, 4_000))}
        return unique_job(
            f"j{self.calls}", self.chance.choice(list(Policy)), key=self.chance.choice("kl"), terms=terms,
            delay=self.chance.choice((0, 0, 1_500)), expires_in=self.chance.choice((0, 0, 6_000)), max_crashes=2,
        )  # fmt: skip

    async def hand(self) -> Hand:
        if len(self.hands) < 2:
            self.hands.append(await self.bench.worker(f"w{self.calls}-{self.chance.random()}"))
        return self.chance.choice(self.hands)

    async def claim(self) -> None:
        await (await self.hand()).claim(2)

    async def settle(self) -> None:
        hand = await self.hand()
        claims = list(hand.held.values())[:1]
        await hand.exchange([move(claim, self.chance.choice(list(EVERY.values()))) for claim in claims], want=1)

    async def change(self) -> None:
        ids = [f"j{self.chance.randint(1, self.calls + 1)}" for _ in range(4)]
        actions = (Action.CANCEL, Action.RETRY, Action.RETRY, Action.PROMOTE, Action.RESCHEDULE, Action.DELETE)
        await self.bench.change(self.chance.choice(actions), *ids, delay=self.chance.choice((0, 2_000)))

    async def wait(self) -> None:
        await self.bench.passes(self.chance.choice((500, 2_000, 5_000)), *self.hands)

    async def die(self) -> None:
        if self.hands and self.chance.random() < 0.3:
            await self.bench.store.leave(self.hands.pop().id, crashed=self.chance.random() < 0.5)

    async def check(self) -> None:
        under_way = [job for job in await self.bench.everything(queue="q") if not job.state.terminal]
        for key in "kl":
            mine = [job for job in under_way if job.terms is not None and job.terms.unique == key]
            first = [job.id for job in mine if job.state is not State.WAITING]
            behind = [job.id for job in mine if job.state is State.WAITING]
            assert len(first) <= 1, f"{first} are under way with one key"
            assert len(behind) <= len(first), f"{behind} wait behind {first}"
            if first:
                assert await holder(self.bench, key) == (first[0], "".join(behind))

    async def run_out(self) -> None:
        """Let everything under way end, so that the keys are free."""
        for _ in range(20):
            hand = await self.hand()
            for one in self.hands:
                await one.exchange([move(claim, DONE) for claim in one.held.values()])
            await self.bench.passes(5_000, *self.hands)
            await hand.claim()
        left = [job.id for job in await self.bench.everything(queue="q") if not job.state.terminal]
        assert (left, await self.bench.store.uniques(["k", "l"])) == ([], [None, None])
