"""What operators do to jobs: each action acts on some states and skips the others with a reason."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.job import ErrorInfo, State
from windlass.core.terms import Terms
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.jobs import Action, Change, Declared, Query
from windlass.testing.conformance.bench import HOUR, START, Bench
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER, RETRY_NOW, SNOOZE, STOPPED

STATES = ["scheduled", "ready", "running", "succeeded", "failed", "cancelled"]

ACTS_ON = {
    Action.CANCEL: {"scheduled", "ready", "running"},
    Action.RETRY: {"failed", "cancelled", "succeeded"},
    Action.PROMOTE: {"scheduled"},
    Action.MOVE: {"scheduled", "ready", "failed"},
    Action.REPRIORITISE: {"scheduled", "ready"},
    Action.RESCHEDULE: {"scheduled", "ready"},
    Action.EDIT: {"scheduled", "ready", "failed", "cancelled"},
    Action.DELETE: {"scheduled", "ready", "succeeded", "failed", "cancelled"},
}


async def one_of_each(bench: Bench) -> None:
    """One job in each state, with the state as its id."""
    await bench.ended("succeeded", DONE)
    await bench.ended("failed", DEAD)
    await bench.ended("cancelled", STOPPED)
    await bench.add("running")
    worker = await bench.worker()
    await worker.take("running")
    await bench.add("ready")
    await bench.add("scheduled", delay=HOUR)


class ChangeRules:
    """The table of actions and states, and what is common to all."""

    @pytest.mark.parametrize("action", list(Action))
    async def test_each_action_acts_on_its_states_and_skips_the_others_with_the_reason(
        self, bench: Bench, action: Action
    ) -> None:
        await one_of_each(bench)
        before = {id: await bench.job(id) for id in STATES}
        reply = await bench.change(action, *STATES, queue="other", priority=8, payload=b"[2]")
        assert set(reply.changed) == ACTS_ON[action]
        assert reply.skipped == {id: id for id in STATES if id not in ACTS_ON[action]}
        assert reply.cursor == ""
        for id in reply.skipped:
            assert await bench.job(id) == before[id]

    @pytest.mark.parametrize("action", list(Action))
    async def test_an_unknown_id_is_skipped(self, bench: Bench, action: Action) -> None:
        reply = await bench.change(action, "never", queue="x", priority=1, payload=b"[]")
        assert (reply.changed, reply.skipped) == ([], {"never": "no such job"})

    @pytest.mark.parametrize("action", list(Action))
    async def test_repeating_a_change_is_harmless(self, bench: Bench, action: Action) -> None:
        await one_of_each(bench)
        await bench.change(action, *STATES, queue="other", priority=8, payload=b"[2]")
        once = await bench.store.get(STATES)
        await bench.change(action, *STATES, queue="other", priority=8, payload=b"[2]")
        assert await bench.store.get(STATES) == once

    async def test_more_ids_than_a_batch_are_refused(self, bench: Bench) -> None:
        with pytest.raises(StoreError):
            await bench.change(Action.CANCEL, *[f"j{n}" for n in range(MAX_BATCH + 1)])

    async def test_a_query_is_changed_page_by_page(self, bench: Bench) -> None:
        await bench.add(*"abcde")
        await bench.add("x", queue="other")
        query = Query(queue="q", states=(State.READY,), oldest_first=True)
        for expected, more in (("ab", True), ("cd", True), ("e", False)):
            reply = await bench.store.change(Change(action=Action.CANCEL), query=query, limit=2)
            assert (reply.changed, bool(reply.cursor)) == (list(expected), more)
            query = Query(queue="q", states=(State.READY,), oldest_first=True, after=reply.cursor)
        assert await bench.counts() == {"cancelled": 5}
        assert await bench.state("x") == State.READY

    async def test_a_query_of_failed_jobs_by_fingerprint_is_replayed(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.ended("b", DEAD)
        await bench.ended("c", DONE)
        query = Query(states=(State.FAILED,), fingerprint="value-error")
        reply = await bench.store.change(Change(action=Action.RETRY), query=query)
        assert (sorted(reply.changed), reply.cursor) == (["a", "b"], "")
        assert await bench.states("a", "b", "c") == ["ready", "ready", "succeeded"]

    async def test_one_call_changes_at_most_a_batch(self, bench: Bench) -> None:
        await bench.add(*[f"j{n}" for n in range(MAX_BATCH)])
        await bench.add("one more")
        query = Query(queue="q", limit=5 * MAX_BATCH)
        reply = await bench.store.change(Change(action=Action.DELETE), query=query, limit=5 * MAX_BATCH)
        assert len(reply.changed) == MAX_BATCH
        assert reply.cursor
        assert await bench.counts() == {"ready": 1}


class NewTermRules:
    """Other arguments, and the terms that follow from them."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (Terms(key="old", ordered=True, unique="t:old"), Terms(key="new", ordered=True, unique="t:new")),
            (Terms(key="old", units=2), Terms(key="new", units=3)),
            (Terms(units=2), None),
            (None, Terms(key="new", ordered=True, units=3)),
        ],
        ids=["ordered and unique", "key and units", "to none", "from none"],
    )
    async def test_an_ended_job_has_its_new_terms_when_it_runs_again(
        self, bench: Bench, before: Terms | None, after: Terms | None
    ) -> None:
        await bench.add("a", terms=before)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        reply = await bench.store.change(Change(action=Action.EDIT, payload=b'{"x":2}', terms=after), ["a"])
        assert reply.changed == ["a"]
        job = await bench.job("a")
        assert (job.terms, job.payload) == (after, b'{"x":2}')
        if after is not None and after.ordered:
            await bench.add("first", terms=msgspec.structs.replace(after, unique=""))
            held = await worker.take("first")
            await bench.change(Action.RETRY, "a")
            assert await worker.claim() == [], "it waits in its new lane"
            await worker.settle(held, DONE)
        else:
            await bench.change(Action.RETRY, "a")
        if after is not None and after.unique:
            assert [info and info.holder for info in await bench.store.uniques(["t:old", "t:new"])] == [None, "a"]
        claim = await worker.take("a")
        assert claim.payload == b'{"x":2}'
        await worker.settle(claim, DONE)
        assert (await bench.job("a")).terms == after

    async def test_a_replay_finds_its_new_unique_key_taken(self, bench: Bench) -> None:
        await bench.add("a", terms=Terms(unique="t:old"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.add("b", terms=Terms(unique="t:new"))
        await bench.store.change(Change(action=Action.EDIT, payload=b"{}", terms=Terms(unique="t:new")), ["a"])
        assert (await bench.change(Action.RETRY, "a")).skipped == {"a": "unique key held by b"}

    async def test_new_terms_are_for_jobs_that_have_ended(self, bench: Bench) -> None:
        await bench.add("a", terms=Terms(key="old"))
        reply = await bench.store.change(Change(action=Action.EDIT, payload=b"{}", terms=Terms(key="new")), ["a"])
        assert reply.skipped == {"a": "ready"}
        assert (await bench.job("a")).terms == Terms(key="old")


class RetryRules:
    """Replay: a new run."""

    @pytest.mark.parametrize("id", ["succeeded", "failed", "cancelled"])
    async def test_a_replay_starts_a_new_run_with_a_clean_record(self, bench: Bench, id: str) -> None:
        await one_of_each(bench)
        bench.clock.advance(10)
        await bench.change(Action.RETRY, id)
        job = await bench.job(id)
        assert (job.state, job.run, job.attempt, job.crashes, job.snoozes) == (State.READY, 2, 0, 0, 0)
        assert (job.result, job.reason, job.fingerprint, job.finished_at) == (None, "", "", 0)

    async def test_a_replay_keeps_the_errors_of_the_runs_before_it(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        for outcome in (RETRY_NOW, DEAD):
            await worker.settle(await worker.take("a"), outcome)
        for _ in range(2):
            before = await bench.job("a")
            await bench.change(Action.RETRY, "a")
            assert (await bench.job("a")).error == before.error, "it is what is known of it until there is more to say"
            await worker.settle(await worker.take("a"), DEAD)
        error = msgspec.json.decode((await bench.job("a")).error or b"", type=ErrorInfo)
        assert [(one.run, one.attempt, one.message) for one in error.attempts] == [
            (1, 1, "oops"),
            (1, 2, "oops"),
            (2, 1, "oops"),
        ]
        assert (error.run, error.attempt) == (3, 1)

    @pytest.mark.parametrize("terms", [None, Terms(key="k", ordered=True)], ids=["plain", "of an ordered key"])
    async def test_jobs_replayed_together_run_in_the_order_they_came(self, bench: Bench, terms: Terms | None) -> None:
        worker = await bench.worker()
        for id in "cab":
            await bench.add(id, terms=terms)
            await worker.settle(await worker.take(id), DEAD)
        assert (await bench.change(Action.RETRY, "a", "b", "c")).changed == ["c", "a", "b"]
        for id in "cab":
            await worker.settle(await worker.take(id), DEAD)
        await bench.store.change(Change(action=Action.RETRY), query=Query(states=(State.FAILED,)))
        for id in "cab":
            await worker.settle(await worker.take(id), DONE)

    async def test_a_replay_forgets_snoozes_and_attempts(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        for outcome in (RETRY_LATER, SNOOZE, DEAD):
            await worker.settle(await worker.take("a"), outcome)
            bench.clock.advance(3_000)
        job = await bench.job("a")
        assert (job.attempt, job.snoozes) == (2, 1)
        await bench.change(Action.RETRY, "a")
        claim = await worker.take("a")
        assert (claim.run, claim.attempt, claim.snoozes) == (2, 0, 0)

    async def test_a_replayed_job_goes_behind_what_is_ready(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.add("b")
        await bench.change(Action.RETRY, "a")
        worker = await bench.worker()
        assert await worker.ids() == ["b", "a"]

    async def test_each_replay_is_one_more_run(self, bench: Bench) -> None:
        await bench.add("a")
        worker = await bench.worker()
        for run in (1, 2, 3):
            claim = await worker.take("a")
            assert claim.run == run
            await worker.settle(claim, DEAD)
            await bench.change(Action.RETRY, "a")


class EditRules:
    """Promote, move, reprioritise, edit and delete."""

    async def test_promote_makes_a_scheduled_job_ready_now(self, bench: Bench) -> None:
        await bench.add("a", delay=HOUR)
        await bench.ended("b", RETRY_LATER)
        await bench.change(Action.PROMOTE, "a", "b")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_a_promoted_job_is_not_promoted_again_when_its_time_comes(self, bench: Bench) -> None:
        await bench.add("a", delay=1_000)
        await bench.change(Action.PROMOTE, "a")
        worker = await bench.worker()
        await worker.take("a")
        bench.clock.advance(1_000)
        reply = await bench.store.sweep()
        assert (reply.promoted, await worker.claim()) == (0, [])

    async def test_move_takes_a_ready_job_to_the_end_of_another_queue(self, bench: Bench) -> None:
        await bench.add("a", "b")
        await bench.add("x", queue="other")
        await bench.change(Action.MOVE, "a", queue="other")
        here, there = await bench.worker("w1"), await bench.worker("w2", queues=["other"])
        assert (await here.ids(), await there.ids()) == (["b"], ["x", "a"])
        assert (await bench.job("a")).queue == "other"

    async def test_a_scheduled_job_is_due_in_its_new_queue(self, bench: Bench) -> None:
        await bench.add("a", delay=1_000)
        await bench.change(Action.MOVE, "a", queue="other")
        job = await bench.job("a")
        assert (job.state, job.due_at, job.queue) == (State.SCHEDULED, START + 1_000, "other")
        bench.clock.advance(1_000)
        worker = await bench.worker(queues=["other"])
        assert await worker.ids() == ["a"]

    async def test_a_failed_job_moves_as_it_is_and_is_replayed_there(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        await bench.change(Action.MOVE, "a", queue="other")
        assert await bench.state("a") == State.FAILED
        await bench.change(Action.RETRY, "a")
        worker = await bench.worker(queues=["other"])
        assert await worker.ids() == ["a"]

    async def test_counts_follow_a_move(self, bench: Bench) -> None:
        await one_of_each(bench)
        await bench.change(Action.MOVE, *STATES, queue="other")
        assert await bench.counts("other") == {"ready": 1, "scheduled": 1, "failed": 1}
        assert await bench.counts("q") == {"running": 1, "succeeded": 1, "cancelled": 1}

    async def test_reprioritise_changes_the_order(self, bench: Bench) -> None:
        await bench.add("a", "b", "c", "d")
        await bench.change(Action.REPRIORITISE, "c", priority=9)
        await bench.change(Action.REPRIORITISE, "a", priority=0)
        worker = await bench.worker()
        assert await worker.ids() == ["c", "b", "d", "a"]

    async def test_a_reprioritised_job_comes_last_in_its_new_priority(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.add("b", "c", priority=7)
        await bench.change(Action.REPRIORITISE, "a", priority=7)
        worker = await bench.worker()
        assert await worker.ids() == ["b", "c", "a"]

    async def test_a_scheduled_job_has_its_new_priority_when_due(self, bench: Bench) -> None:
        await bench.add("later", delay=10)
        await bench.add("a")
        await bench.change(Action.REPRIORITISE, "later", priority=9)
        bench.clock.advance(10)
        worker = await bench.worker()
        claim, _ = await worker.claim()
        assert (claim.id, claim.priority) == ("later", 9)

    async def test_edit_changes_what_the_next_claim_carries(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.ended("b", DEAD, task="u")
        await bench.change(Action.EDIT, "a", "b", payload=b'{"x":2}')
        assert (await bench.job("b")).payload == b'{"x":2}'
        worker = await bench.worker()
        assert (await worker.take("a")).payload == b'{"x":2}'

    async def test_an_edited_job_keeps_its_place_and_state(self, bench: Bench) -> None:
        await bench.add("a", "b")
        await bench.change(Action.EDIT, "a", payload=b"[]")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]

    async def test_an_edited_job_is_known_by_its_new_payload(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.change(Action.EDIT, "a", payload=b"[]")
        [new] = await bench.add("a", payload=b"[]")
        [old] = await bench.add("a")
        assert (new.status, old.status) == (Accept.DUPLICATE, Accept.CONFLICT)

    async def test_a_deleted_job_is_nowhere(self, bench: Bench) -> None:
        await bench.add("a", "b")
        await bench.add("c", delay=10)
        await bench.change(Action.DELETE, "a", "c")
        bench.clock.advance(10)
        worker = await bench.worker()
        assert await worker.ids() == ["b"]
        assert await bench.states("a", "c") == [None, None]
        assert await bench.counts() == {"running": 1}


class RescheduleRules:
    """Another due time, for what has not started."""

    @pytest.mark.parametrize("delay", [0, HOUR], ids=["ready", "scheduled"])
    async def test_a_job_is_due_at_its_new_time(self, bench: Bench, delay: int) -> None:
        await bench.add("a", delay=delay)
        bench.clock.advance(10)
        await bench.change(Action.RESCHEDULE, "a", delay=1_000)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 1_010)
        assert await bench.counts() == {"scheduled": 1}
        worker = await bench.worker()
        reply = await worker.exchange(want=1)
        assert (reply.claims, reply.next_due) == ([], 1_000)
        bench.clock.advance(1_000)
        await worker.take("a")
        assert await worker.claim() == []

    async def test_an_instant_may_be_given(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.change(Action.RESCHEDULE, "a", at=START + 7_000)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 7_000)

    async def test_a_time_that_has_passed_makes_it_ready(self, bench: Bench) -> None:
        await bench.add("a", "b", delay=HOUR)
        await bench.change(Action.RESCHEDULE, "a", at=START - 1)
        await bench.change(Action.RESCHEDULE, "b")
        worker = await bench.worker()
        assert await worker.ids() == ["a", "b"]
        bench.clock.advance(2 * HOUR)
        assert (await bench.store.sweep()).promoted == 0

    async def test_its_old_time_means_nothing(self, bench: Bench) -> None:
        await bench.add("a", delay=1_000)
        await bench.change(Action.RESCHEDULE, "a", delay=5_000)
        bench.clock.advance(1_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        bench.clock.advance(4_000)
        await worker.take("a")

    async def test_a_retry_keeps_its_counters(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_LATER)
        await bench.change(Action.RESCHEDULE, "a", delay=9_000)
        job = await bench.job("a")
        assert (job.state, job.attempt, job.run, job.due_at) == (State.SCHEDULED, 1, 1, START + 9_000)

    async def test_an_idle_worker_is_woken_for_what_became_ready(self, bench: Bench) -> None:
        await bench.add("a", delay=HOUR)
        worker = await bench.worker()
        assert await worker.claim() == []
        await bench.change(Action.RESCHEDULE, "a")
        await worker.mail.woken()
        await worker.take("a")

    async def test_an_idle_worker_is_woken_when_the_next_due_time_came_nearer(self, bench: Bench) -> None:
        await bench.add("a", delay=HOUR)
        worker = await bench.worker()
        assert await worker.claim() == []
        await bench.change(Action.RESCHEDULE, "a", delay=1_000)
        await worker.mail.woken()
        assert (await worker.exchange(want=1)).next_due == 1_000

    async def test_a_job_set_aside_is_set_aside_again_when_due(self, bench: Bench) -> None:
        await bench.add("a", task="u")
        worker = await bench.worker()
        assert await worker.claim() == []
        await bench.change(Action.RESCHEDULE, "a", delay=1_000)
        other = await bench.worker("w2", declares={"u": Declared()})
        assert await other.claim() == []
        bench.clock.advance(1_000)
        assert await worker.claim() == []
        assert await other.ids() == ["a"]

    async def test_a_job_that_must_run_alone_still_does(self, bench: Bench) -> None:
        await bench.add("a", max_crashes=2)
        await bench.crash("a")
        await bench.change(Action.RESCHEDULE, "a", delay=1_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        bench.clock.advance(1_000)
        await bench.add("b")
        assert await worker.ids() == ["a"]
