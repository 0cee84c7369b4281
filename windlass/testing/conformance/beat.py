"""The beat: presence, and bringing what a worker holds and what the store believes together."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import HOUR, LEASE, Bench, presence
from windlass.testing.conformance.outcomes import DONE


class PresenceRules:
    """What others see of a worker."""

    async def test_a_first_beat_registers_the_worker(self, bench: Bench) -> None:
        worker = await bench.worker("w1", host="h", pid=7, concurrency=3, load={"cpu": 0.5})
        bench.clock.advance(2_000)
        info = await worker.info()
        assert info.presence == worker.presence
        assert (info.beat_age, info.alive, info.running, info.idle) == (2_000, True, 0, False)

    async def test_a_worker_comes_up_once(self, bench: Bench) -> None:
        worker = await bench.worker()
        await worker.beat()
        ups = [event for event in await bench.events() if event.kind == "worker_up"]
        assert [event.worker for event in ups] == ["w1"]

    async def test_a_beat_renews_the_lease_and_the_age(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.passes(2 * LEASE, worker)
        info = await worker.info()
        assert (info.alive, info.beat_age) == (True, 0)

    async def test_a_beat_brings_news_of_the_worker(self, bench: Bench) -> None:
        worker = await bench.worker()
        worker.presence = presence("w1", queues=["x", "q"], declares={"u": Declared((2, 3), 1)}, load={"n": 1})
        await worker.beat()
        assert (await worker.info()).presence == worker.presence

    async def test_the_number_of_running_jobs_is_shown(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        a, _ = await worker.claim()
        assert (await worker.info()).running == 2
        await worker.finish(a)
        assert (await worker.info()).running == 1

    async def test_a_worker_that_left_is_not_listed(self, bench: Bench) -> None:
        await bench.worker("w1")
        await bench.worker("w2")
        await bench.store.leave("w1")
        assert [info.presence.id for info in await bench.store.workers()] == ["w2"]

    async def test_a_buried_worker_does_not_come_back_under_its_id(self, bench: Bench) -> None:
        worker = await bench.worker("w1")
        await worker.exchange(want=1)
        await bench.store.leave("w1")
        reply = await worker.beat(acked=1, held=["a"])
        assert (reply.gone, reply.lost) == (True, ["a"])
        assert not await bench.store.workers()


class ReconcileRules:
    """Claims the worker does not know go back; ids the store does not know as its own are lost."""

    async def test_an_answered_claim_that_is_not_held_goes_back_uncharged(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        reply = await worker.beat(acked=1, held=[])
        job = await bench.job("a")
        assert (reply.gone, reply.lost) == (False, [])
        assert (job.state, job.crashes, job.attempt, job.worker) == (State.READY, 0, 0, "")

    async def test_what_went_back_can_be_claimed_by_anyone_and_settled_only_under_the_new_fence(
        self, bench: Bench
    ) -> None:
        await bench.add("a")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        old = await worker.take("a")
        await worker.beat(acked=1, held=[])
        new = await other.take("a")
        assert (await worker.settle(old, DONE)).refused == ["a"]
        assert (await other.settle(new, DONE)).refused == []

    async def test_a_claim_stamped_above_the_acked_seq_is_not_touched(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        await worker.lost_reply(want=1)
        reply = await worker.beat(acked=1, held=["a"])
        assert reply.lost == []
        assert await bench.states("a", "b") == ["running", "running"]
        assert [claim.id for claim in (await worker.resend()).claims] == ["b"]

    async def test_only_what_was_answered_goes_back(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        await worker.lost_reply(want=1)
        await worker.beat(acked=1, held=[])
        assert await bench.states("a", "b") == ["ready", "running"]

    async def test_a_claim_answered_later_goes_back_once_it_is_acked(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.lost_reply(want=1)
        await worker.beat(acked=0, held=[])
        assert await bench.state("a") == State.RUNNING
        await worker.beat(acked=1, held=[])
        assert await bench.state("a") == State.READY

    async def test_what_is_held_stays(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker = await bench.worker()
        await worker.claim()
        await worker.beat(held=["a", "c"])
        assert await bench.states("a", "b", "c") == ["running", "ready", "running"]

    async def test_a_claim_that_goes_back_ends_cancelled_if_that_was_requested(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a", reason="no longer wanted")
        await worker.beat(acked=1, held=[])
        job = await bench.job("a")
        assert (job.state, job.reason, job.worker) == (State.CANCELLED, "no longer wanted", "")

    async def test_what_a_beat_gives_back_is_an_event(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.claim()
        await bench.change(Action.CANCEL, "b")
        await worker.beat(held=[])
        assert (await bench.kinds("a"))[-1] == "released"
        assert (await bench.kinds("b"))[-1] == "cancelled"

    async def test_what_goes_back_keeps_its_place(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.take("a")
        await worker.beat(held=[])
        assert await worker.ids() == ["a", "b"]

    async def test_held_ids_that_are_not_this_workers_are_lost(self, bench: Bench) -> None:
        await bench.ended("done")
        await bench.add("mine", "theirs", "ready")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        await worker.take("mine")
        await other.take("theirs")
        reply = await worker.beat(held=["mine", "theirs", "ready", "done", "never"])
        assert sorted(reply.lost) == ["done", "never", "ready", "theirs"]
        assert await bench.states("mine", "theirs", "ready", "done") == ["running", "running", "ready", "succeeded"]

    async def test_cancels_are_told_by_the_beat(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        _, b = await worker.claim()
        await bench.change(Action.CANCEL, "b")
        assert (await worker.beat()).cancels == ["b"]
        assert (await worker.beat()).cancels == ["b"]
        await worker.finish(b)
        assert (await worker.beat()).cancels == []


class BeatAnswerRules:
    """``ready``, ``next_due`` and ``next_check``: the only backstop for wake-ups."""

    async def test_ready_tells_of_work_in_the_workers_queues(self, bench: Bench) -> None:
        worker = await bench.worker()
        assert not (await worker.beat()).ready
        await bench.add("x", queue="other")
        await bench.add("later", delay=HOUR)
        assert not (await worker.beat()).ready
        await bench.add("a")
        assert (await worker.beat()).ready
        await worker.take("a")
        assert not (await worker.beat()).ready

    async def test_ready_looks_at_every_queue_of_the_worker(self, bench: Bench) -> None:
        worker = await bench.worker(queues=["x", "y"])
        await bench.add("a", queue="y")
        assert (await worker.beat()).ready

    async def test_ready_tells_of_an_aside_only_to_those_who_declare_it(self, bench: Bench) -> None:
        await bench.add("a", task="new")
        old, new = await bench.worker("old"), await bench.worker("new", declares={"new": Declared()})
        assert await old.claim() == []
        assert not (await old.beat()).ready
        assert (await new.beat()).ready

    async def test_a_lost_wake_up_is_caught_by_the_next_beat(self, bench: Bench) -> None:
        worker = await bench.worker()
        await worker.claim()
        await bench.store.unlisten(worker.id)
        await bench.add("a")
        assert (await worker.beat()).ready
        assert await worker.ids() == ["a"]

    async def test_next_due_is_told_by_the_beat(self, bench: Bench) -> None:
        worker = await bench.worker()
        assert (await worker.beat()).next_due == -1
        await bench.add("a", delay=700)
        bench.clock.advance(200)
        assert (await worker.beat()).next_due == 500
        bench.clock.advance(600)
        reply = await worker.beat()
        assert reply.ready or reply.next_due == 0

    async def test_next_check_is_the_end_of_the_earliest_lease(self, bench: Bench) -> None:
        worker = await bench.worker("w1", lease=30_000)
        assert (await worker.beat()).next_check == 30_000
        await bench.worker("w2", lease=20_000)
        bench.clock.advance(3_000)
        assert (await worker.beat()).next_check == 17_000

    async def test_next_check_is_the_next_expiry_if_that_is_earlier(self, bench: Bench) -> None:
        worker = await bench.worker()
        await bench.add("a", expires_in=4_000)
        assert (await worker.beat()).next_check == 4_000
        await worker.take("a")
        assert (await worker.beat()).next_check == LEASE

    @pytest.mark.parametrize("lease", [LEASE, 20_000])
    async def test_after_next_check_a_sweep_finds_what_it_is_for(self, bench: Bench, lease: int) -> None:
        await bench.add("a")
        worker = await bench.worker(lease=lease)
        await worker.take("a")
        wait = (await worker.beat()).next_check
        replies = await bench.passes(wait)
        assert [reply.recovered for reply in replies][-1] == 1
