"""Cancel reaches a job in any state; a running job decides the race by what it settles as."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Outcome, Stopped
from windlass.errors import UNSAID
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, START, Bench
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, LOSE_TO_CANCEL, RETRY_LATER, STOPPED


class CancelRules:
    """Cancelling, state by state and outcome by outcome."""

    @pytest.mark.parametrize("delay", [0, HOUR], ids=["ready", "scheduled"])
    async def test_a_job_that_has_not_started_ends_at_once(self, bench: Bench, delay: int) -> None:
        await bench.add("a", delay=delay)
        bench.clock.advance(5)
        reply = await bench.change(Action.CANCEL, "a", reason="not needed")
        assert (reply.changed, reply.skipped) == (["a"], {})
        job = await bench.job("a")
        assert (job.state, job.reason, job.finished_at) == (State.CANCELLED, "not needed", START + 5)

    async def test_a_cancelled_job_is_never_granted(self, bench: Bench) -> None:
        await bench.add("a", "b")
        await bench.add("first", delay=5)
        await bench.add("later", delay=10)
        await bench.change(Action.CANCEL, "a", "later")
        bench.clock.advance(10)
        worker = await bench.worker()
        assert await worker.ids() == ["b", "first"]

    async def test_a_job_waiting_for_its_retry_can_be_cancelled(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_LATER)
        await bench.change(Action.CANCEL, "a")
        assert await bench.state("a") == State.CANCELLED

    async def test_a_running_job_is_only_asked_to_stop(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        reply = await bench.change(Action.CANCEL, "a")
        job = await bench.job("a")
        assert reply.changed == ["a"]
        assert (job.state, job.cancel_requested, job.worker) == (State.RUNNING, True, "w1")

    async def test_the_worker_of_a_running_job_is_woken(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await worker.mail.woken()

    async def test_a_cancel_is_told_until_the_job_settles(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        assert [(await worker.exchange()).cancels for _ in range(2)] == [["a"], ["a"]]
        assert (await worker.settle(claim, STOPPED)).cancels == []
        job = await bench.job("a")
        assert (job.state, job.reason, job.cancel_requested) == (State.CANCELLED, "as asked", False)

    async def test_a_cancel_is_told_to_the_worker_that_runs_the_job_only(self, bench: Bench) -> None:
        await bench.add("a", "b")
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        await second.take("b")
        await bench.change(Action.CANCEL, "a")
        assert ((await first.exchange()).cancels, (await second.exchange()).cancels) == (["a"], [])

    @pytest.mark.parametrize("outcome", [Stopped(), Stopped(UNSAID)], ids=["stopped", "raised Cancel"])
    async def test_a_job_that_stops_as_asked_has_the_reason_it_was_asked_for(
        self, bench: Bench, outcome: Outcome
    ) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a", reason="wrong \u2026 customer")
        await worker.settle(claim, outcome)
        job = await bench.job("a")
        assert (job.state, job.reason) == (State.CANCELLED, "wrong \u2026 customer")
        assert (await bench.events())[-1].data == {"reason": "wrong \u2026 customer"}

    @pytest.mark.parametrize("outcome", [Stopped(), Stopped(UNSAID)], ids=["stopped", "raised Cancel"])
    async def test_a_job_that_stops_by_itself_says_so(self, bench: Bench, outcome: Stopped) -> None:
        await bench.ended("a", outcome)
        reason = outcome.reason or "cancelled"
        assert (await bench.job("a")).reason == reason
        assert [event.data for event in await bench.events() if event.kind == "cancelled"] == [{"reason": reason}]

    @pytest.mark.parametrize("outcome", [DONE, DEAD], ids=["success", "failure"])
    async def test_success_and_failure_win_over_a_cancel(self, bench: Bench, outcome: Outcome) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a", reason="too late")
        await worker.settle(claim, outcome)
        job = await bench.job("a")
        assert job.state == (State.SUCCEEDED if outcome is DONE else State.FAILED)
        assert (job.cancel_requested, job.reason == "too late") == (False, False)

    @pytest.mark.parametrize("outcome", LOSE_TO_CANCEL.values(), ids=LOSE_TO_CANCEL.keys())
    async def test_retry_snooze_and_hand_back_lose_to_a_cancel(self, bench: Bench, outcome: Outcome) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a", reason="enough")
        bench.clock.advance(9)
        assert (await worker.settle(claim, outcome)).refused == []
        job = await bench.job("a")
        assert (job.state, job.reason, job.finished_at, job.worker) == (State.CANCELLED, "enough", START + 9, "")
        assert (await bench.kinds("a"))[-1] == "cancelled"

    async def test_a_move_that_does_not_yield_is_applied_as_it_is(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await worker.settle(claim, BACK, yields_to_cancel=False)
        assert await bench.state("a") == State.READY

    @pytest.mark.parametrize("outcome", [DONE, DEAD, STOPPED], ids=["succeeded", "failed", "cancelled"])
    async def test_a_job_that_has_ended_is_skipped(self, bench: Bench, outcome: Outcome) -> None:
        before = await bench.ended("a", outcome)
        reply = await bench.change(Action.CANCEL, "a", reason="too late")
        assert (reply.changed, reply.skipped) == ([], {"a": str(before.state)})
        assert await bench.job("a") == before

    async def test_cancelling_twice_is_harmless(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await bench.change(Action.CANCEL, "a")
        assert (await worker.exchange()).cancels == ["a"]
        await worker.settle(claim, STOPPED)

    async def test_a_cancel_does_not_outlive_its_run(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await worker.settle(claim, BACK)
        await bench.change(Action.RETRY, "a")
        claim = await worker.take("a")
        assert (await worker.exchange()).cancels == []
        await worker.settle(claim, BACK)
        assert await bench.state("a") == State.READY

    async def test_cancelling_what_has_not_started_is_an_event(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.change(Action.CANCEL, "a", reason="why not")
        assert await bench.kinds("a") == ["enqueued", "cancelled"]
        assert (await bench.events())[-1].data == {"reason": "why not"}
