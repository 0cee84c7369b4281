"""A queue that takes in no more: because enough is ready, or because it is being drained."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.core.job import ErrorInfo, NewJob, State
from windlass.core.lifecycle import DROPPED, dropped_error
from windlass.core.limits import Limits
from windlass.core.terms import DRAINING, Policy, Terms, queue_gate
from windlass.store.answers import Accept, Answer
from windlass.store.flow import Tuning
from windlass.store.items import Commit
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, START, Bench, new_job
from windlass.testing.conformance.graph_drafts import fan_out
from windlass.testing.conformance.outcomes import BACK, DEAD, RETRY_LATER, RETRY_NOW
from windlass.testing.conformance.unique import call, holder


async def tune(bench: Bench, queue: str = "q", **limits: Any) -> None:
    """An operator's word for a queue."""
    [gate] = await bench.store.tune([Tuning(name=queue_gate(queue), tuned=Limits(**limits))])
    assert gate.changed


def bounded(id: str, most: int, *, drop_oldest: bool = False, **fields: Any) -> NewJob:
    """A job that says itself how many may be ready in its queue."""
    return new_job(id, terms=Terms(max_ready=most, drop_oldest=drop_oldest), **fields)


async def press(bench: Bench, *ids: str, most: int, **fields: Any) -> list[Answer]:
    return await bench.store.insert([bounded(id, most, **fields) for id in ids])


def statuses(answers: list[Answer]) -> list[str]:
    return [answer.status for answer in answers]


class FullRules:
    """At most so many ready jobs, by the word of the call or of an operator."""

    async def test_a_full_queue_takes_in_no_more(self, bench: Bench) -> None:
        await press(bench, "a", "b", most=2)
        [answer] = await press(bench, "c", most=2)
        assert answer.status is Accept.FULL
        assert answer.reason
        assert await bench.state("c") is None
        assert await bench.counts() == {"ready": 2}

    async def test_what_was_not_taken_in_is_no_event_and_may_come_again(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        newest = await bench.newest()
        await press(bench, "b", most=1)
        assert await bench.newest() == newest
        worker = await bench.worker()
        await worker.take("a")
        assert statuses(await press(bench, "b", most=1)) == ["accepted"]

    async def test_each_job_of_a_batch_is_answered_for_itself(self, bench: Bench) -> None:
        await bench.add("x")
        answers = await bench.store.insert([
            bounded("a", 3), bounded("b", 3), bounded("c", 3), new_job("plain"), bounded("d", 3), bounded("a", 3),
            bounded("elsewhere", 3, queue="other"), bounded("wider", 5), bounded("e", 5),
        ])  # fmt: skip
        assert statuses(answers) == [
            "accepted", "accepted", "full", "accepted", "full", "duplicate", "accepted", "accepted", "full",
        ]  # fmt: skip
        assert await bench.counts() == {"ready": 5}

    async def test_only_ready_jobs_count(self, bench: Bench) -> None:
        await bench.add("later", delay=HOUR)
        await bench.ended("done")
        await bench.ended("dead", DEAD)
        await bench.add("running")
        worker = await bench.worker()
        await worker.take("running")
        assert statuses(await press(bench, "a", "b", most=1)) == ["accepted", "full"]

    async def test_jobs_set_aside_count(self, bench: Bench) -> None:
        await bench.add("a", task="unheard of")
        worker = await bench.worker()
        assert await worker.claim() == []
        assert statuses(await press(bench, "b", most=1)) == ["full"]

    async def test_jobs_in_lanes_count(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        assert statuses(await press(bench, "c", most=2)) == ["full"]
        worker = await bench.worker()
        await worker.take("a")
        assert statuses(await press(bench, "c", most=2)) == ["accepted"]

    async def test_a_scheduled_job_is_taken_in_by_a_full_queue(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        assert statuses(await press(bench, "b", most=1, delay=1_000)) == ["accepted"]
        assert statuses(await press(bench, "c", most=1, at=START + 1_000)) == ["accepted"]
        assert statuses(await press(bench, "d", most=1, at=START - 1_000)) == ["full"]

    async def test_scheduled_jobs_become_ready_beyond_the_bound(self, bench: Bench) -> None:
        await press(bench, "b", "c", most=1, delay=1_000)
        await press(bench, "a", most=1)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert await bench.counts() == {"ready": 3}

    async def test_an_id_that_is_there_is_a_duplicate_and_not_full(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        assert statuses(await press(bench, "a", most=1)) == ["duplicate"]

    async def test_retries_and_hand_backs_are_not_held_up(self, bench: Bench) -> None:
        await press(bench, "a", "b", most=2)
        worker = await bench.worker()
        a, b = await worker.claim(2)
        await press(bench, "c", "d", most=2)
        await worker.settle(a, RETRY_NOW)
        await worker.settle(b, BACK)
        assert await bench.counts() == {"ready": 4}

    async def test_replay_and_promotion_are_not_held_up(self, bench: Bench) -> None:
        await bench.ended("dead", DEAD)
        await press(bench, "later", most=1, delay=HOUR)
        await press(bench, "a", most=1)
        assert (await bench.change(Action.RETRY, "dead")).changed == ["dead"]
        assert (await bench.change(Action.PROMOTE, "later")).changed == ["later"]
        assert await bench.counts() == {"ready": 3}

    async def test_graphs_are_not_held_up(self, bench: Bench) -> None:
        await bench.add("a")
        await tune(bench, max_ready=1)
        await bench.submit(fan_out(3))
        assert await bench.states("root") == ["ready"]
        worker = await bench.worker()
        assert len(await bench.play(worker)) == 5

    async def test_schedules_are_not_held_up(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        [fired] = await bench.store.commit([Commit(jobs=[bounded("slot", 1)])])
        assert (fired.done, statuses(fired.answers)) == (True, ["accepted"])
        assert await bench.counts() == {"ready": 2}

    async def test_an_operator_says_how_many(self, bench: Bench) -> None:
        await tune(bench, max_ready=2)
        assert statuses(await bench.add(*"abc")) == ["accepted", "accepted", "full"]
        assert statuses(await bench.add("x", queue="other")) == ["accepted"]

    async def test_the_code_says_how_many(self, bench: Bench) -> None:
        await bench.store.tune([Tuning(name=queue_gate("q"), declared=Limits(max_ready=2))])
        assert statuses(await bench.add(*"abc")) == ["accepted", "accepted", "full"]

    async def test_the_word_of_the_gate_goes_before_that_of_the_call(self, bench: Bench) -> None:
        await tune(bench, max_ready=3)
        assert statuses(await press(bench, *"abcd", most=1)) == ["accepted", "accepted", "accepted", "full"]
        await tune(bench, max_ready=1)
        assert statuses(await press(bench, "e", most=100)) == ["full"]

    async def test_no_limit_at_the_gate_lifts_that_of_the_call(self, bench: Bench) -> None:
        await tune(bench, max_ready=0)
        assert statuses(await press(bench, *"abc", most=1)) == ["accepted"] * 3

    async def test_a_gate_that_says_nothing_of_it_leaves_it_to_the_call(self, bench: Bench) -> None:
        await tune(bench, limit=10)
        assert statuses(await press(bench, "a", "b", most=1)) == ["accepted", "full"]

    async def test_what_is_taken_back_no_longer_holds(self, bench: Bench) -> None:
        await tune(bench, max_ready=1)
        await bench.add("a")
        await tune(bench)
        assert statuses(await bench.add("b")) == ["accepted"]

    async def test_as_many_as_fit_are_taken_of_those_that_come_at_once(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 8
        answers = await asyncio.gather(*[store.insert([bounded(f"j{n}", 5)]) for n, store in enumerate(stores)])
        assert Counter(answer.status for [answer] in answers) == {Accept.ACCEPTED: 5, Accept.FULL: 11}
        assert await bench.counts() == {"ready": 5}

    async def test_a_unique_key_is_looked_at_first(self, bench: Bench) -> None:
        await call(bench, "a", Policy.REPLACE)
        await tune(bench, max_ready=1)
        assert (await call(bench, "b")).status is Accept.DUPLICATE
        assert (await call(bench, "c", Policy.REPLACE)).status is Accept.REPLACED
        worker = await bench.worker()
        await worker.take("a")
        await bench.add("x")
        assert (await call(bench, "d", Policy.REPLACE)).status is Accept.ACCEPTED
        assert await bench.state("d") == State.WAITING

    async def test_what_was_not_taken_in_holds_no_key(self, bench: Bench) -> None:
        await bench.add("x")
        await tune(bench, max_ready=1)
        assert (await call(bench, "a")).status is Accept.FULL
        assert await holder(bench) == ("", "")


class DropRules:
    """Instead of being refused, a job may take the place of the oldest."""

    async def test_the_oldest_makes_room(self, bench: Bench) -> None:
        await press(bench, *"abc", most=3)
        assert statuses(await press(bench, "d", most=3, drop_oldest=True)) == ["accepted"]
        assert await bench.counts() == {"ready": 3, "failed": 1}
        worker = await bench.worker()
        assert await worker.ids() == ["b", "c", "d"]

    async def test_what_made_room_is_a_dead_letter(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        bench.clock.advance(5)
        await press(bench, "b", most=1, drop_oldest=True)
        job = await bench.job("a")
        assert (job.state, job.reason, job.finished_at) == (State.FAILED, DROPPED, START + 5)
        assert job.error == dropped_error("q", 1)
        error = msgspec.json.decode(job.error, type=ErrorInfo)
        assert (job.fingerprint, error.fingerprint) == ("queue-full", "queue-full")
        [event] = [event for event in await bench.events() if event.kind == "failed"]
        assert (event.job, event.data) == ("a", {"reason": DROPPED})

    async def test_the_lowest_priority_goes_first(self, bench: Bench) -> None:
        await press(bench, "high", most=9, priority=9)
        await press(bench, "old", most=9, priority=2)
        await press(bench, "young", most=9, priority=2)
        await press(bench, "middle", most=9, priority=5)
        await press(bench, "new", most=4, priority=0, drop_oldest=True)
        assert await bench.states("high", "old", "young", "middle", "new") == [
            "ready", "failed", "ready", "ready", "ready",
        ]  # fmt: skip

    async def test_each_of_a_batch_drops_one(self, bench: Bench) -> None:
        await press(bench, "a", "b", most=2)
        assert statuses(await press(bench, "c", "d", "e", most=2, drop_oldest=True)) == ["accepted"] * 3
        assert await bench.states(*"abcde") == ["failed", "failed", "failed", "ready", "ready"]

    async def test_nothing_is_dropped_while_there_is_room(self, bench: Bench) -> None:
        await press(bench, "a", most=2)
        await press(bench, "b", most=2, drop_oldest=True)
        await press(bench, "later", most=2, drop_oldest=True, delay=HOUR)
        assert await bench.counts() == {"ready": 2, "scheduled": 1}

    async def test_it_holds_for_the_bound_of_the_gate_too(self, bench: Bench) -> None:
        await tune(bench, max_ready=1)
        await bench.add("a")
        await press(bench, "b", most=0, drop_oldest=True)
        assert await bench.states("a", "b") == ["failed", "ready"]

    async def test_who_waits_for_what_was_dropped_is_told(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        client = await bench.client()
        await bench.store.watch(client.name, ["a"])
        await press(bench, "b", most=1, drop_oldest=True)
        [told] = await client.told("a")
        assert (told.state, told.reason) == (State.FAILED, DROPPED)

    async def test_a_dropped_job_may_be_retried(self, bench: Bench) -> None:
        await press(bench, "a", most=1)
        await press(bench, "b", most=1, drop_oldest=True)
        await bench.change(Action.RETRY, "a")
        worker = await bench.worker()
        assert await worker.ids() == ["b", "a"]

    async def test_a_dropped_job_leaves_its_unique_key(self, bench: Bench) -> None:
        await call(bench, "a")
        await press(bench, "b", most=1, drop_oldest=True)
        assert await bench.state("a") == State.FAILED
        assert await holder(bench) == ("", "")

    async def test_a_dropped_job_is_found_in_its_lane(self, bench: Bench) -> None:
        await bench.add("a", "b", terms=Terms(key="k", ordered=True))
        await press(bench, "c", most=2, drop_oldest=True)
        assert await bench.state("a") == State.FAILED
        worker = await bench.worker()
        assert sorted(await worker.ids()) == ["b", "c"]


class DrainingRules:
    """A queue that is drained takes in nothing, and runs what it has."""

    async def test_a_draining_queue_refuses_new_jobs(self, bench: Bench) -> None:
        await bench.add("a")
        await tune(bench, draining=True)
        [answer] = await bench.add("b")
        assert answer.status is Accept.REFUSED
        assert DRAINING in answer.reason
        assert statuses(await bench.add("later", delay=HOUR)) == ["refused"]
        assert statuses(await press(bench, "c", most=9, drop_oldest=True)) == ["refused"]
        assert statuses(await bench.add("x", queue="other")) == ["accepted"]
        assert await bench.states("b", "later", "c") == [None, None, None]

    async def test_what_is_there_runs(self, bench: Bench) -> None:
        await bench.add("a")
        await bench.add("b", delay=1_000)
        await tune(bench, draining=True)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), RETRY_LATER)
        bench.clock.advance(2_000)
        assert sorted(await worker.ids()) == ["a", "b"]

    async def test_a_known_id_is_a_duplicate_all_the_same(self, bench: Bench) -> None:
        await bench.add("a")
        await tune(bench, draining=True)
        assert statuses(await bench.add("a")) == ["duplicate"]
        assert statuses(await bench.add("a", task="u")) == ["conflict"]

    @pytest.mark.parametrize("policy", list(Policy))
    async def test_a_held_key_is_refused_too(self, bench: Bench, policy: Policy) -> None:
        await call(bench, "a", policy)
        await tune(bench, draining=True)
        answer = await call(bench, "b", policy)
        assert (answer.status, answer.holder) == (Accept.REFUSED, "")
        assert (await bench.job("a")).payload == b'"a"'

    async def test_a_queue_that_is_no_longer_drained_takes_in_again(self, bench: Bench) -> None:
        await tune(bench, draining=True)
        await tune(bench, draining=False)
        assert statuses(await bench.add("a")) == ["accepted"]

    async def test_one_bad_queue_of_a_batch_harms_no_other(self, bench: Bench) -> None:
        await tune(bench, "shut", draining=True)
        answers = await bench.store.insert([new_job("a"), new_job("b", queue="shut"), new_job("c")])
        assert statuses(answers) == ["accepted", "refused", "accepted"]

    async def test_queues_say_that_they_are_drained(self, bench: Bench) -> None:
        await bench.add("a")
        await tune(bench, draining=True, max_ready=7)
        limits = (await bench.queue()).limits
        assert (limits.draining, limits.max_ready) == (True, 7)
