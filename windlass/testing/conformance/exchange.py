"""Claiming and settling: what a grant writes, what each outcome makes of it, and the fence every write must show."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.job import Claim, ErrorInfo, Fence, State
from windlass.core.lifecycle import Failed, Outcome, Snoozed, Succeeded
from windlass.core.terms import Terms
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import START, Bench, move, new_job
from windlass.testing.conformance.graph_drafts import GraphDraft
from windlass.testing.conformance.outcomes import (
    BACK,
    DEAD,
    DONE,
    EVERY,
    OOPS,
    RETRY_LATER,
    RETRY_NOW,
    SNOOZE,
    STOPPED,
)

WRONG_FENCES = {
    "an earlier run": Fence(-1, 0, 0),
    "a later run": Fence(1, 0, 0),
    "an earlier epoch": Fence(0, -1, 0),
    "a later epoch": Fence(0, 1, 0),
    "an earlier exchange": Fence(0, 0, -1),
    "a later exchange": Fence(0, 0, 1),
}


def shifted(fence: Fence, by: Fence) -> Fence:
    return Fence(*(a + b for a, b in zip(fence, by, strict=True)))


def times(claim: Claim) -> tuple[int, int]:
    """When it was due, and when it was granted."""
    return claim.due_at, claim.claimed_at


def by_id(claim: Claim) -> str:
    return claim.id


class ClaimRules:
    """What a grant says and writes."""

    async def test_a_claim_carries_the_job(self, bench: Bench) -> None:
        await bench.store.insert([new_job("a", priority=7, payload=b"[1]", meta=b'{"source":"s"}')])
        bench.clock.advance(40)
        worker = await bench.worker()
        assert await worker.take() == Claim(
            id="a", task="t", version=1, queue="q", priority=7, payload=b"[1]", meta=b'{"source":"s"}', run=1, epoch=1,
            seq=1, attempt=0, crashes=0, snoozes=0, enqueued_at=START, error=None, due_at=0, claimed_at=START + 40,
        )  # fmt: skip

    async def test_a_granted_job_is_running_on_its_worker_since_now(self, bench: Bench) -> None:
        await bench.add("a")
        bench.clock.advance(40)
        worker = await bench.worker()
        await worker.take("a")
        job = await bench.job("a")
        assert (job.state, job.worker, job.started_at, job.epoch) == (State.RUNNING, "w1", START + 40, 1)

    async def test_every_claim_of_a_job_has_the_next_epoch(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        for epoch in (1, 2, 3):
            claim = await worker.take("a")
            assert (claim.epoch, claim.seq) == (epoch, worker.seq)
            await worker.settle(claim, BACK)

    async def test_a_running_job_is_granted_to_nobody_else(self, bench: Bench) -> None:
        await bench.add("a")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        assert await second.claim() == await first.claim() == []

    async def test_an_unknown_worker_is_gone_and_gets_nothing(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        claim = await worker.take("a")
        stranger = await bench.worker("w2")
        await bench.store.leave("w2")
        reply = await stranger.exchange([move(claim, DONE)], want=5)
        assert (reply.gone, reply.refused, reply.claims) == (True, ["a"], [])
        assert await bench.states("a", "b") == ["running", "ready"]

    async def test_next_due_counts_the_milliseconds_to_the_next_scheduled_job(self, bench: Bench) -> None:
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == -1
        await bench.add("a", delay=900)
        await bench.add("b", delay=400)
        bench.clock.advance(100)
        assert (await worker.exchange(want=1)).next_due == 300
        await bench.change(Action.CANCEL, "b")
        assert (await worker.exchange(want=1)).next_due == 800

    async def test_next_due_is_about_what_is_still_scheduled_after_the_exchange(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.add("a", delay=10)
        bench.clock.advance(10)
        assert (await worker.exchange(want=5)).next_due == -1
        await bench.add("b")
        reply = await worker.exchange([move(worker.held["a"], RETRY_LATER)])
        assert reply.next_due == 2_000


class ClaimTimeRules:
    """What a claim says of when its job was due and when it was granted."""

    async def test_a_job_that_never_waited_for_its_time_was_never_due(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.add("b", at=START - 5_000)
        bench.clock.advance(40)
        worker = await bench.worker()
        assert [times(claim) for claim in await worker.claim()] == [(0, START + 40), (0, START + 40)]
        assert (await bench.job("b")).due_at == 0

    @pytest.mark.parametrize("swept", [False, True], ids=["by the exchange", "by a sweep"])
    async def test_a_job_whose_time_came_says_when_that_was(self, bench: Bench, swept: bool) -> None:
        worker = await bench.worker()
        await bench.add("a", delay=900)
        await bench.add("b", at=START + 950)
        await bench.add("c", delay=960, terms=Terms(key="k"))
        bench.clock.advance(1_000)
        if swept:
            await bench.store.sweep()
            assert [(await bench.job(id)).due_at for id in "abc"] == [START + 900, START + 950, START + 960]
        bench.clock.advance(30)
        found = {claim.id: times(claim) for claim in await worker.claim()}
        now = START + 1_030
        assert found == {"a": (START + 900, now), "b": (START + 950, now), "c": (START + 960, now)}
        assert [(await bench.job(id)).due_at for id in "abc"] == [START + 900, START + 950, START + 960]

    @pytest.mark.parametrize(("outcome", "delay"), [(RETRY_LATER, 2_000), (SNOOZE, 3_000)], ids=["retry", "snooze"])
    async def test_a_job_that_was_put_off_says_until_when(self, bench: Bench, outcome: Outcome, delay: int) -> None:
        await bench.add("a", delay=500)
        worker = await bench.worker()
        bench.clock.advance(600)
        await worker.settle(await worker.take("a"), outcome)
        bench.clock.advance(delay + 10)
        assert times(await worker.take("a")) == (START + 600 + delay, START + 610 + delay)

    async def test_a_retry_without_delay_was_not_due(self, bench: Bench) -> None:
        await bench.add("a", delay=500)
        worker = await bench.worker()
        bench.clock.advance(600)
        await worker.settle(await worker.take("a"), RETRY_NOW)
        assert times(await worker.take("a")) == (0, START + 600)

    async def test_a_promoted_job_was_not_due(self, bench: Bench) -> None:
        await bench.add("a", delay=5_000)
        await bench.change(Action.PROMOTE, "a")
        assert (await bench.job("a")).due_at == 0
        worker = await bench.worker()
        bench.clock.advance(10)
        assert times(await worker.take("a")) == (0, START + 10)

    async def test_a_rescheduled_job_was_due_at_its_new_time(self, bench: Bench) -> None:
        await bench.add("a", delay=5_000)
        await bench.change(Action.RESCHEDULE, "a", delay=700)
        worker = await bench.worker()
        bench.clock.advance(800)
        assert times(await worker.take("a")) == (START + 700, START + 800)

    async def test_a_ready_job_that_moves_was_not_due(self, bench: Bench) -> None:
        await bench.add("a", delay=500)
        bench.clock.advance(600)
        await bench.store.sweep()
        assert (await bench.job("a")).due_at == START + 500
        await bench.change(Action.MOVE, "a", queue="y")
        assert (await bench.job("a")).due_at == 0

    async def test_a_replayed_job_was_not_due(self, bench: Bench) -> None:
        await bench.add("a", delay=500)
        worker = await bench.worker()
        bench.clock.advance(500)
        await worker.settle(await worker.take("a"), DEAD)
        assert (await bench.job("a")).due_at == START + 500
        await bench.change(Action.RETRY, "a")
        assert times(await worker.take("a")) == (0, START + 500)

    @pytest.mark.parametrize("how", ["handed back", "never received", "left", "crashed"])
    async def test_a_job_that_goes_back_to_its_place_was_due_when_it_was(self, bench: Bench, how: str) -> None:
        await bench.add("a", delay=500)
        worker, other = await bench.worker(), await bench.worker("w2")
        bench.clock.advance(600)
        claim = await worker.take("a")
        if how == "handed back":
            await worker.settle(claim, BACK)
        elif how == "never received":
            await worker.beat(held=[])
        else:
            await bench.store.leave("w1", crashed=how == "crashed")
        assert await bench.state("a") == State.READY
        bench.clock.advance(50)
        assert times(await other.take("a")) == (START + 500, START + 650)

    async def test_a_job_put_off_by_a_crash_was_due_behind_it(self, bench: Bench) -> None:
        await bench.add("a", delay=500, crash_delay=1_000, max_crashes=9)
        bench.clock.advance(600)
        await bench.crash("a")
        bench.clock.advance(1_100)
        worker = await bench.worker()
        assert times(await worker.take("a")) == (START + 1_600, START + 1_700)

    @pytest.mark.parametrize("terms", [None, Terms(key="k")], ids=["plain", "in a lane"])
    async def test_a_claim_granted_again_says_the_same(self, bench: Bench, terms: Terms | None) -> None:
        await bench.add("a", delay=500, terms=terms)
        await bench.add("b", terms=terms)
        worker = await bench.worker()
        bench.clock.advance(600)
        first = await worker.lost_reply(want=5)
        bench.clock.advance(70)
        again = await worker.resend()
        assert {claim.id: times(claim) for claim in again.claims} == {
            "a": (START + 500, START + 600),
            "b": (0, START + 600),
        }
        assert sorted(again.claims, key=by_id) == sorted(first.claims, key=by_id)

    async def test_a_job_set_aside_was_due_when_it_was(self, bench: Bench) -> None:
        await bench.add("a", task="new", delay=500)
        worker = await bench.worker()
        bench.clock.advance(600)
        assert await worker.claim() == []
        other = await bench.worker("w2", declares={"new": Declared()})
        assert times(await other.take("a")) == (START + 500, START + 600)

    async def test_a_job_that_runs_alone_was_due_when_it_was(self, bench: Bench) -> None:
        await bench.add("a", delay=500, max_crashes=2)
        bench.clock.advance(600)
        await bench.crash("a")
        worker = await bench.worker()
        assert times(await worker.take("a")) == (START + 500, START + 600)

    async def test_a_job_of_a_graph_is_due_only_by_its_own_time(self, bench: Bench) -> None:
        await bench.submit(GraphDraft("g").job("a").job("b", "a", delay=400).job("c", "b").end("c"))
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        bench.clock.advance(450)
        claim = await worker.take("b")
        assert (claim.source, times(claim)) == ("a", (START + 400, START + 450))
        await worker.finish(claim)
        assert times(await worker.take("c")) == (0, START + 450)


class SettleRules:
    """What each outcome makes of a running job."""

    async def test_success_ends_the_job_with_its_result(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        bench.clock.advance(70)
        await worker.settle(claim, Succeeded(b'{"n":1}'))
        job = await bench.job("a")
        assert (job.state, job.result, job.finished_at, job.worker) == ("succeeded", b'{"n":1}', START + 70, "")

    async def test_a_result_that_is_not_kept_is_none(self, bench: Bench) -> None:
        job = await bench.ended("a", Succeeded(None))
        assert (job.state, job.result) == (State.SUCCEEDED, None)

    async def test_failure_ends_the_job_as_a_dead_letter(self, bench: Bench) -> None:
        job = await bench.ended("a", DEAD)
        assert (job.state, job.reason, job.fingerprint) == (State.FAILED, "no retries left", "value-error")
        assert (job.attempt, job.finished_at, job.worker) == (1, START, "")
        assert job.error is not None
        assert msgspec.json.decode(job.error, type=ErrorInfo) == msgspec.structs.replace(OOPS, run=1, attempt=1)

    async def test_a_retry_is_scheduled_and_costs_an_attempt(self, bench: Bench) -> None:
        job = await bench.ended("a", RETRY_LATER)
        assert (job.state, job.due_at, job.attempt, job.worker) == (State.SCHEDULED, START + 2_000, 1, "")
        assert job.finished_at == 0
        assert job.error is not None

    async def test_a_retry_without_delay_is_ready_at_once(self, bench: Bench) -> None:
        job = await bench.ended("a", RETRY_NOW)
        assert (job.state, job.attempt, job.worker) == (State.READY, 1, "")

    async def test_the_next_claim_knows_the_attempt_and_the_last_error(self, bench: Bench) -> None:
        job = await bench.ended("a", RETRY_NOW)
        worker = await bench.worker()
        claim = await worker.take("a")
        assert (claim.attempt, claim.error) == (1, job.error)

    async def test_a_snooze_costs_no_attempt_and_keeps_the_last_error(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_NOW)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), SNOOZE)
        job = await bench.job("a")
        assert (job.state, job.due_at, job.attempt, job.snoozes) == (State.SCHEDULED, START + 3_000, 1, 1)
        assert job.error is not None

    async def test_a_job_handed_back_is_as_it_was(self, bench: Bench) -> None:
        job = await bench.ended("a", BACK)
        assert (job.state, job.attempt, job.crashes, job.snoozes, job.worker) == (State.READY, 0, 0, 0, "")

    async def test_a_task_may_end_itself_as_cancelled(self, bench: Bench) -> None:
        job = await bench.ended("a", STOPPED)
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, "as asked", START)

    async def test_attempt_and_snoozes_are_written_as_given(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), Snoozed(5), attempt=7, snoozes=9)
        job = await bench.job("a")
        assert (job.attempt, job.snoozes) == (7, 9)

    async def test_one_exchange_settles_many_and_claims_many(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", "d", "e")
        worker = await bench.worker()
        a, b, c = await worker.claim(3)
        reply = await worker.exchange([move(a, DONE), move(b, DEAD), move(c, RETRY_LATER)], want=3)
        assert ([claim.id for claim in reply.claims], reply.refused) == (["d", "e"], [])
        states = await bench.states("a", "b", "c", "d", "e")
        assert states == ["succeeded", "failed", "scheduled", "running", "running"]

    async def test_moves_come_before_claims(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        reply = await worker.exchange([move(claim, RETRY_NOW)], want=1)
        assert [(again.id, again.epoch, again.attempt) for again in reply.claims] == [("a", 2, 1)]

    async def test_more_moves_than_a_batch_are_refused_as_a_whole(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        with pytest.raises(StoreError):
            await bench.store.exchange("w1", 2, [move(claim, DONE)] * (MAX_BATCH + 1), worker.last[1])
        assert await bench.state("a") == State.RUNNING


class FenceRules:
    """A move is applied only if the job is running, held by this worker, and run, epoch and seq match."""

    @pytest.mark.parametrize("wrong", WRONG_FENCES.values(), ids=WRONG_FENCES.keys())
    @pytest.mark.parametrize("outcome", [DONE, RETRY_NOW], ids=["success", "retry"])
    async def test_a_write_under_another_fence_is_refused(self, bench: Bench, outcome: Outcome, wrong: Fence) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        before = await bench.job("a")
        reply = await worker.settle(claim, outcome, fence=shifted(claim.fence, wrong))
        assert reply.refused == ["a"]
        assert await bench.job("a") == before

    async def test_another_worker_cannot_settle_a_claim(self, bench: Bench) -> None:
        await bench.add("a")
        owner, thief = await bench.worker("w1"), await bench.worker("w2")
        claim = await owner.take("a")
        reply = await thief.settle(claim, DONE)
        assert reply.refused == ["a"]
        assert (await bench.job("a")).worker == "w1"

    async def test_a_claim_that_was_handed_back_and_granted_again_cannot_be_settled(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        old = await worker.take("a")
        await worker.settle(old, BACK)
        new = await worker.take("a")
        assert (await worker.settle(old, DONE)).refused == ["a"]
        assert (await worker.settle(new, DONE)).refused == []

    @pytest.mark.parametrize("outcome", EVERY.values(), ids=EVERY.keys())
    async def test_a_claim_settles_once(self, bench: Bench, outcome: Outcome) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await worker.settle(claim, outcome)
        before = await bench.job("a")
        assert (await worker.settle(claim, DONE)).refused == ["a"]
        assert await bench.job("a") == before

    async def test_the_second_of_two_moves_for_one_claim_is_refused(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        reply = await worker.exchange([move(claim, Succeeded(b"1")), move(claim, Failed(OOPS))])
        assert reply.refused == ["a"]
        assert (await bench.job("a")).result == b"1"

    async def test_a_refused_move_does_not_harm_its_neighbours(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        a, b, c = await worker.claim()
        moves = [move(a, DONE), move(b, DONE, fence=shifted(b.fence, Fence(0, 1, 0))), move(c, DONE)]
        reply = await worker.exchange([*moves, move(a, DONE, id="never existed")])
        assert reply.refused == ["b", "never existed"]
        assert await bench.states("a", "b", "c") == ["succeeded", "running", "succeeded"]

    async def test_a_replay_refuses_the_previous_run(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        old = await worker.take("a")
        await worker.settle(old, DEAD)
        await bench.change(Action.RETRY, "a")
        assert (await worker.settle(old, DONE)).refused == ["a"]
        new = await worker.take("a")
        assert (new.run, new.attempt) == (2, 0)
        assert (await worker.settle(old, DONE)).refused == ["a"]
        assert await bench.state("a") == State.RUNNING

    async def test_a_deleted_job_cannot_be_settled_under_its_old_id(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        old = await worker.take("a")
        await worker.settle(old, DONE)
        await bench.change(Action.DELETE, "a")
        await bench.add("a")
        assert (await worker.settle(old, DONE)).refused == ["a"]
        assert await bench.state("a") == State.READY
