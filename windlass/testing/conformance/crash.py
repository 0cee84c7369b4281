"""Leaving, dying and being recovered: recovery follows life, and a job is charged for a crash exactly once."""

from __future__ import annotations

import pytest

from windlass.core.job import Fence, State
from windlass.core.lifecycle import Crashed, crash_error
from windlass.store.jobs import Action, Declared, Note
from windlass.testing.conformance.bench import LEASE, START, Bench, move
from windlass.testing.conformance.outcomes import DONE, OOPS, RETRY_NOW


class LeaveRules:
    """A worker that signs off."""

    async def test_claims_of_a_worker_that_leaves_go_back_uncharged(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.claim()
        await bench.store.leave("w1")
        jobs = [await bench.job(id) for id in ("a", "b")]
        assert [(job.state, job.crashes, job.worker) for job in jobs] == [(State.READY, 0, "")] * 2

    async def test_claims_go_back_in_their_place(self, bench: Bench) -> None:
        await bench.add("a", "b", "c")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        await worker.claim(2)
        await bench.add("d")
        await bench.store.leave("w1")
        assert await other.ids() == ["a", "b", "c", "d"]

    async def test_a_claim_of_which_the_cancel_was_requested_ends_cancelled(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await bench.store.leave("w1")
        assert await bench.state("a") == State.CANCELLED

    async def test_a_worker_that_left_can_write_nothing(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.store.leave("w1")
        assert (await worker.settle(claim, DONE)).gone
        assert not await worker.note(claim, "still here")
        assert await bench.state("a") == State.READY

    async def test_leaving_unknown_or_twice_is_harmless(self, bench: Bench) -> None:
        await bench.store.leave("never came")
        await bench.worker()
        await bench.store.leave("w1")
        await bench.store.leave("w1")
        assert await bench.kinds() == ["worker_up", "worker_down"]

    async def test_every_end_by_leaving_is_an_event(self, bench: Bench) -> None:
        for crashed in (False, True):
            id = f"crashed={crashed}"
            await bench.add(id)
            worker = await bench.worker(f"w-{id}")
            await worker.take(id)
            await bench.change(Action.CANCEL, id)
            await bench.store.leave(worker.id, crashed=crashed)
            assert await bench.state(id) == State.CANCELLED
            assert (await bench.kinds(id))[-1] == "cancelled"

    async def test_the_events_of_leaving(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.store.leave("w1", crashed=True)
        assert (await bench.kinds())[-2:] == ["lost", "worker_down"]
        assert [(e.job, e.worker) for e in await bench.events() if e.kind == "lost"] == [("a", "w1")]


class LeaseRules:
    """A worker lives as long as its lease, however long its jobs take."""

    async def test_a_long_job_on_a_live_worker_is_never_run_twice(self, bench: Bench) -> None:
        await bench.add("a")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        claim = await worker.take("a")
        replies = await bench.passes(20 * LEASE, worker, other)
        assert not any(reply.recovered or reply.dead_workers for reply in replies)
        assert await other.claim() == []
        await worker.finish(claim)

    async def test_nobody_is_judged_before_the_lease_is_over(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        replies = await bench.passes(LEASE - 1)
        assert not any(reply.dead_workers for reply in replies)
        assert not (await worker.beat()).gone
        assert await bench.state("a") == State.RUNNING

    async def test_jobs_of_a_dead_worker_are_ready_when_its_lease_is_over(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.claim()
        *before, reply = await bench.passes(LEASE + 1)
        assert not any(early.recovered for early in before[:-1])
        assert sum(each.recovered for each in [*before, reply]) == 2
        job = await bench.job("a")
        assert (job.state, job.crashes, job.attempt, job.worker) == (State.READY, 1, 0, "")

    async def test_a_sweep_names_the_dead(self, bench: Bench) -> None:
        await bench.worker("w1")
        survivor = await bench.worker("w2")
        replies = await bench.passes(LEASE + 1, survivor)
        assert [name for reply in replies for name in reply.dead_workers] == ["w1"]
        assert [info.presence.id for info in await bench.store.workers()] == ["w2"]
        assert (await bench.kinds())[-1] == "worker_down"

    async def test_a_lease_that_is_over_shows(self, bench: Bench) -> None:
        worker, _ = await bench.worker("w1"), await bench.worker("w2")
        for _ in range(3):
            bench.clock.advance(LEASE // 3)
            await bench.now()
        bench.clock.advance(1)
        assert not (await worker.info()).alive

    async def test_a_dead_worker_can_write_nothing(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.passes(LEASE + 1)
        reply = await worker.exchange([move(claim, DONE)], want=5)
        assert (reply.gone, reply.refused, reply.claims) == (True, ["a"], [])
        assert await bench.store.note("w1", [Note("a", claim.fence, b"{}", [("info", "x")])]) == ["a"]
        job = await bench.job("a")
        assert (job.state, job.progress) == (State.READY, None)
        assert await bench.store.lines("a") == []

    async def test_a_zombie_cannot_write_over_the_worker_that_took_its_job(self, bench: Bench) -> None:
        await bench.add("a")
        zombie = await bench.worker("w1")
        old = await zombie.take("a")
        await bench.passes(LEASE + 1)
        heir = await bench.worker("w2")
        new = await heir.take("a")
        assert (new.epoch, new.crashes) == (2, 1)
        assert (await zombie.settle(old, RETRY_NOW)).refused == ["a"]
        assert (await heir.settle(old, DONE)).refused == ["a"]
        assert (await heir.settle(new, DONE)).refused == []

    async def test_a_zombie_that_beats_learns_that_all_is_lost(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker()
        await worker.claim()
        await bench.passes(LEASE + 1)
        assert sorted((await worker.beat()).lost) == ["a", "b"]
        assert await bench.states("a", "b") == ["ready", "ready"]

    async def test_a_worker_judged_dead_stays_dead_while_its_jobs_are_recovered(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        claims = await worker.claim()
        for _ in range(3):
            bench.clock.advance(LEASE // 3)
            await other.beat()
        bench.clock.advance(1)
        assert (await bench.store.sweep(limit=1)).more
        info = await worker.info()
        assert (info.alive, info.running) == (False, 1)
        assert (await worker.beat()).gone
        reply = await worker.exchange([move(claim, DONE) for claim in claims], want=1)
        assert (reply.gone, sorted(reply.refused), reply.claims) == (True, ["a", "b"], [])
        assert not any([await worker.note(claim, "x") for claim in claims])

    async def test_a_worker_that_beats_too_late_is_gone_though_nobody_has_swept(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        claim = await worker.take("a")
        for _ in range(3):
            bench.clock.advance(LEASE // 3)
            await other.beat()
        bench.clock.advance(1)
        reply = await worker.beat()
        assert (reply.gone, reply.lost) == (True, ["a"])
        again = await worker.exchange([move(claim, DONE)], want=5)
        assert (again.gone, again.claims, again.refused) == (True, [], ["a"])
        await bench.store.sweep()
        assert await other.ids() == ["a", "b"]

    async def test_recovery_goes_in_bounded_steps_until_nothing_is_left(self, bench: Bench) -> None:
        await bench.add(*[f"j{n}" for n in range(5)])
        worker, other = await bench.worker("w1"), await bench.worker("w2")
        await worker.claim()
        for _ in range(3):
            bench.clock.advance(LEASE // 3)
            await other.beat()
        bench.clock.advance(1)
        replies = [await bench.store.sweep(limit=2) for _ in range(4)]
        assert [reply.recovered for reply in replies] == [2, 2, 1, 0]
        assert [reply.more for reply in replies] == [True, True, False, False]
        assert await bench.counts() == {"ready": 5}
        kinds = await bench.kinds()
        assert (kinds.count("lost"), kinds.count("worker_down"), kinds[-1]) == (5, 1, "worker_down")

    async def test_recovered_jobs_keep_their_place(self, bench: Bench) -> None:
        await bench.add("a", "b")
        worker = await bench.worker("w1")
        await worker.take("a")
        await bench.passes(LEASE + 1)
        other = await bench.worker("w2")
        assert await other.ids() == ["a", "b"]


class CrashRules:
    """Where a job goes when its worker died under it."""

    async def test_a_crash_counts_apart_from_attempts(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_NOW)
        await bench.crash("a")
        job = await bench.job("a")
        assert (job.attempt, job.crashes, job.snoozes) == (1, 1, 0)

    async def test_the_next_claim_knows_of_the_crash(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.crash("a")
        worker = await bench.worker()
        assert (await worker.take("a")).crashes == 1

    async def test_a_crash_delay_holds_the_job_back(self, bench: Bench) -> None:
        await bench.add("a", crash_delay=4_000)
        await bench.crash("a")
        job = await bench.job("a")
        assert (job.state, job.due_at, job.worker) == (State.SCHEDULED, START + 4_000, "")
        bench.clock.advance(4_000)
        worker = await bench.worker()
        await worker.take("a")

    @pytest.mark.parametrize("limit", [1, 2, 3, 4])
    async def test_at_the_limit_the_job_is_quarantined(self, bench: Bench, limit: int) -> None:
        await bench.add("a", max_crashes=limit)
        for n in range(limit):
            assert await bench.state("a") == State.READY
            await bench.crash("a", worker=f"victim-{n}")
        job = await bench.job("a")
        assert (job.state, job.reason, job.crashes) == (State.FAILED, "worker crashed", limit)
        assert job.error == crash_error(limit, f"victim-{limit - 1}")
        assert (job.finished_at, job.worker, job.fingerprint) == (START, "", "worker-crashed")

    async def test_a_worker_may_charge_a_crash_itself(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), Crashed(OOPS, max_crashes=3))
        job = await bench.job("a")
        assert (job.state, job.crashes, job.attempt, job.worker) == (State.READY, 1, 0, "")
        assert job.error is not None
        assert (await bench.kinds("a"))[-1] == "lost"

    async def test_a_worker_that_charges_the_last_crash_quarantines(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), Crashed(OOPS, max_crashes=1))
        job = await bench.job("a")
        assert (job.state, job.crashes, job.reason) == (State.FAILED, 1, "worker crashed")

    async def test_crashes_are_kept_over_retry_and_snooze(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=9)
        await bench.crash("a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_NOW)
        assert (await worker.take("a")).crashes == 1

    async def test_a_sweep_quarantines_too(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        await bench.add("b")
        worker = await bench.worker()
        await worker.claim()
        replies = await bench.passes(LEASE + 1)
        assert sum(reply.quarantined for reply in replies) == 1
        assert sum(reply.recovered for reply in replies) == 1
        assert await bench.states("a", "b") == ["failed", "ready"]
        job = await bench.job("a")
        silent = job.finished_at - START
        assert (job.reason, job.fingerprint) == ("lease lost", "lease-lost"), "nobody knows that the worker died"
        assert silent >= LEASE
        assert job.error == crash_error(1, "w1", silent)

    async def test_a_quarantine_is_an_event_with_its_reason(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        await bench.crash("a", worker="w1")
        events = [event for event in await bench.events() if event.kind in ("lost", "failed", "worker_down")]
        assert [(event.kind, event.job) for event in events] == [("lost", "a"), ("failed", "a"), ("worker_down", "")]
        assert events[1].data == {"reason": "worker crashed"}

    async def test_the_limit_a_worker_declares_lowers_the_records(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=3)
        await bench.crash("a", declares={"t": Declared(max_crashes=1)})
        assert await bench.state("a") == State.FAILED

    async def test_a_declared_limit_never_raises_the_records(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        await bench.crash("a", declares={"t": Declared(max_crashes=9)})
        assert await bench.state("a") == State.FAILED

    async def test_no_opinion_leaves_the_limit_alone(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=2)
        await bench.crash("a", declares={"t": Declared(max_crashes=0)})
        assert await bench.state("a") == State.READY

    async def test_a_declared_limit_counts_when_a_sweep_recovers(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker(declares={"t": Declared(max_crashes=1)})
        await worker.take("a")
        await bench.passes(LEASE + 1)
        assert await bench.state("a") == State.FAILED

    async def test_a_queue_handlers_limit_counts_for_every_task_of_the_queue(self, bench: Bench) -> None:
        await bench.add("a", task="anything")
        await bench.crash("a", declares={"*q": Declared(max_crashes=1)})
        assert await bench.state("a") == State.FAILED

    async def test_a_requested_cancel_wins_after_a_crash(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a", reason="enough")
        await bench.store.leave("w1", crashed=True)
        job = await bench.job("a")
        assert (job.state, job.crashes, job.reason) == (State.CANCELLED, 1, "enough")

    async def test_quarantine_wins_over_a_requested_cancel(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        worker = await bench.worker()
        await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await bench.store.leave("w1", crashed=True)
        assert await bench.state("a") == State.FAILED

    async def test_a_replayed_job_has_its_crashes_forgiven(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=1)
        await bench.crash("a")
        await bench.change(Action.RETRY, "a")
        job = await bench.job("a")
        assert (job.state, job.run, job.crashes) == (State.READY, 2, 0)
        worker = await bench.worker()
        claim = await worker.take("a")
        assert claim.fence == Fence(2, 2, 1)
