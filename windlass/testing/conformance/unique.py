"""Unique keys: of all jobs with the same key one is under way, besides one successor. What becomes of further calls."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.core.job import Claim, NewJob, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Outcome
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.flow import HoldKind, UniqueInfo
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import HOUR, LEASE, START, Bench, Hand, MakeBench, move, new_job
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.outcomes import (
    BACK,
    DEAD,
    DONE,
    EVERY,
    RETRY_LATER,
    RETRY_NOW,
    SNOOZE,
    STOPPED,
)

KEEP, REPLACE, DEBOUNCE = Policy.KEEP, Policy.REPLACE, Policy.DEBOUNCE
REPLACING = [REPLACE, DEBOUNCE]
AGAIN: dict[str, Outcome] = {"retry": RETRY_NOW, "retry later": RETRY_LATER, "snooze": SNOOZE, "hand back": BACK}
OVER: dict[str, Outcome] = {"success": DONE, "failure": DEAD, "stop": STOPPED}


def unique_job(
    id: str, policy: Policy = KEEP, key: str = "k", terms: dict[str, Any] | None = None, **fields: Any
) -> NewJob:
    """A call with the unique key ``k``, whose payload is its own id."""
    fields.setdefault("payload", msgspec.json.encode(id))
    return new_job(id, terms=Terms(unique=key, policy=policy, **terms or {}), **fields)


async def call(bench: Bench, id: str, policy: Policy = KEEP, **fields: Any) -> Answer:
    """One call with a unique key; ``window`` and ``most`` are of its terms."""
    terms: dict[str, Any] = {name: fields.pop(name) for name in ("window", "most") if name in fields}
    [answer] = await bench.store.insert([unique_job(id, policy, terms=terms, **fields)])
    return answer


async def has_key(bench: Bench, key: str = "k") -> UniqueInfo | None:
    [info] = await bench.store.uniques([key])
    return info


async def holder(bench: Bench, key: str = "k") -> tuple[str, str]:
    """The holder of a key and its successor; empty where there is none."""
    info = await has_key(bench, key)
    return (info.holder, info.successor) if info else ("", "")


async def succeeded_by(bench: Bench, policy: Policy = REPLACE, **fields: Any) -> tuple[Hand, Claim]:
    """The holder ``a`` runs, and ``b`` is its successor. The worker and its claim."""
    await call(bench, "a", policy, delay=0)
    worker = await bench.worker()
    claim = await worker.take("a")
    assert (await call(bench, "b", policy, **fields)).status is Accept.ACCEPTED
    return worker, claim


class UniqueRules:
    """Who holds a key, for how long, and what a call is told that finds it held."""

    async def test_an_accepted_job_holds_its_key(self, bench: Bench) -> None:
        answer = await call(bench, "a")
        assert (answer.status, answer.holder) == (Accept.ACCEPTED, "")
        assert await has_key(bench) == UniqueInfo(holder="a")
        assert (await bench.job("a")).terms == Terms(unique="k")

    async def test_a_call_that_finds_the_key_held_is_told_the_holder(self, bench: Bench) -> None:
        await call(bench, "a")
        before = await bench.job("a")
        answer = await call(bench, "b")
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "a")
        assert await bench.job("a") == before
        assert await bench.state("b") is None
        assert await bench.counts() == {"ready": 1}

    async def test_the_event_of_a_duplicate_names_the_holder(self, bench: Bench) -> None:
        await call(bench, "a")
        newest = await bench.newest()
        await call(bench, "b")
        [event] = await bench.events(newest)
        assert (event.kind, event.job, event.data) == ("duplicate", "b", {"holder": "a"})

    async def test_keys_do_not_concern_each_other(self, bench: Bench) -> None:
        await bench.add("plain")
        answers = [await call(bench, "a"), await call(bench, "b", key="other"), *await bench.add("plain too")]
        assert {answer.status for answer in answers} == {Accept.ACCEPTED}
        found = await bench.store.uniques(["other", "never", "k", ""])
        assert found == [UniqueInfo(holder="b"), None, UniqueInfo(holder="a"), None]

    @pytest.mark.parametrize("key", ["ü日本", "it's; --", "a|b:c*d/e{x}", "x" * 200])
    async def test_any_text_is_a_key(self, bench: Bench, key: str) -> None:
        await call(bench, "a", key=key)
        assert (await call(bench, "b", key=key)).holder == "a"
        assert await holder(bench, key) == ("a", "")

    async def test_a_key_is_held_over_all_queues_and_tasks(self, bench: Bench) -> None:
        await call(bench, "a")
        answer = await call(bench, "b", queue="other", task="u")
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "a")

    @pytest.mark.parametrize("policy", list(Policy))
    async def test_the_same_job_again_is_a_plain_duplicate(self, bench: Bench, policy: Policy) -> None:
        await call(bench, "a", policy, delay=1_000)
        before = await bench.job("a")
        bench.clock.advance(10)
        answer = await call(bench, "a", policy, delay=1_000)
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "")
        assert await bench.job("a") == before

    @pytest.mark.parametrize("policy", REPLACING)
    async def test_a_successor_sent_again_is_a_plain_duplicate(self, bench: Bench, policy: Policy) -> None:
        await succeeded_by(bench, policy)
        answer = await call(bench, "b", policy)
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "")
        assert await holder(bench) == ("a", "b")

    async def test_an_id_of_another_job_is_a_conflict_before_its_key_is_looked_at(self, bench: Bench) -> None:
        await call(bench, "a")
        await bench.add("plain")
        assert (await call(bench, "plain")).status is Accept.CONFLICT
        assert (await call(bench, "plain", REPLACE)).status is Accept.CONFLICT
        assert (await call(bench, "plain", key="free")).status is Accept.CONFLICT
        assert await holder(bench, "free") == ("", "")

    async def test_keys_are_compared_within_one_batch(self, bench: Bench) -> None:
        answers = await bench.store.insert([
            unique_job("a"), unique_job("b"), new_job("plain"), unique_job("c", key="other"), unique_job("a"),
        ])  # fmt: skip
        assert [(answer.status, answer.holder) for answer in answers] == [
            ("accepted", ""), ("duplicate", "a"), ("accepted", ""), ("accepted", ""), ("duplicate", ""),
        ]  # fmt: skip
        assert await bench.counts() == {"ready": 3}

    async def test_a_holder_is_replaced_within_one_batch(self, bench: Bench) -> None:
        answers = await bench.store.insert([unique_job(id, REPLACE) for id in "abc"])
        assert [(answer.status, answer.holder) for answer in answers] == [
            ("accepted", ""), ("replaced", "a"), ("replaced", "a"),
        ]  # fmt: skip
        assert (await bench.job("a")).payload == b'"c"'
        assert await bench.counts() == {"ready": 1}

    async def test_a_holder_is_put_off_within_one_batch(self, bench: Bench) -> None:
        delays = {"later": (0, 3_000, 5_000), "now": (5_000, 3_000, 0), "back": (0, 3_000, 0)}
        calls = [
            unique_job(f"{key}{n}", DEBOUNCE, key=key, delay=delay)
            for n in range(3)
            for key, delay in ((key, those[n]) for key, those in delays.items())
        ]
        answers = await bench.store.insert(calls)
        assert [answer.status for answer in answers] == ["accepted"] * 3 + ["replaced"] * 6
        jobs = {key: await bench.job(f"{key}0") for key in delays}
        assert {key: (job.state, job.due_at, job.payload) for key, job in jobs.items()} == {
            "later": ("scheduled", START + 5_000, b'"later2"'),
            "now": ("ready", 0, b'"now2"'),
            "back": ("ready", 0, b'"back2"'),
        }
        assert await bench.counts() == {"ready": 2, "scheduled": 1}
        worker = await bench.worker()
        assert await worker.ids() == ["now0", "back0"]

    async def test_a_successor_is_replaced_within_the_batch_that_brings_it(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        worker = await bench.worker()
        claim = await worker.take("a")
        answers = await bench.store.insert([unique_job(id, REPLACE) for id in "bcd"])
        assert [(answer.status, answer.holder) for answer in answers] == [
            ("accepted", ""), ("replaced", "b"), ("replaced", "b"),
        ]  # fmt: skip
        await worker.finish(claim)
        assert (await worker.take("b")).payload == b'"d"'

    async def test_a_key_that_came_as_the_oldest_made_room_is_held_for_the_rest_of_the_batch(
        self, bench: Bench
    ) -> None:
        await bench.add("x", "y")
        room = {"max_ready": 2, "drop_oldest": True}
        answers = await bench.store.insert([unique_job(id, terms=room) for id in "ab"])
        assert [(answer.status, answer.holder) for answer in answers] == [("accepted", ""), ("duplicate", "a")]
        assert await bench.states("x", "y", "a", "b") == ["failed", "ready", "ready", None]

    async def test_one_of_many_that_come_at_once_is_accepted(self, bench: Bench) -> None:
        stores = [bench.store, await bench.connect()] * 8
        answers = await asyncio.gather(*[store.insert([unique_job(f"j{n}")]) for n, store in enumerate(stores)])
        assert Counter(answer.status for [answer] in answers) == {Accept.ACCEPTED: 1, Accept.DUPLICATE: 15}
        [name] = {answer.holder for [answer] in answers} - {""}
        assert await holder(bench) == (name, "")
        assert await bench.counts() == {"ready": 1}

    @pytest.mark.parametrize("outcome", OVER.values(), ids=OVER)
    async def test_the_key_is_free_when_its_holder_is_over(self, bench: Bench, outcome: Outcome) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        claim = await worker.take("a")
        assert (await call(bench, "b")).holder == "a"
        await worker.settle(claim, outcome)
        assert await has_key(bench) is None
        assert (await call(bench, "b")).status is Accept.ACCEPTED
        assert await holder(bench) == ("b", "")

    @pytest.mark.parametrize("outcome", AGAIN.values(), ids=AGAIN)
    async def test_a_holder_that_will_run_again_is_not_over(self, bench: Bench, outcome: Outcome) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        assert (await call(bench, "b")).holder == "a"
        bench.clock.advance(5_000)
        claim = await worker.take("a")
        assert (await call(bench, "b")).holder == "a"
        await worker.finish(claim)
        assert await has_key(bench) is None

    async def test_a_holder_whose_worker_crashed_is_not_over(self, bench: Bench) -> None:
        await call(bench, "a")
        await bench.crash("a")
        assert (await call(bench, "b")).holder == "a"

    async def test_a_holder_whose_worker_died_is_not_over_until_it_is_given_up(self, bench: Bench) -> None:
        await call(bench, "a", max_crashes=2)
        for held in (True, False):
            worker = await bench.worker(f"w{held}")
            await worker.take("a")
            await bench.passes(LEASE + 1_000)
            assert (await has_key(bench) is not None) is held
        assert await bench.state("a") == State.FAILED
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    async def test_a_holder_handed_back_by_a_worker_that_leaves_is_not_over(self, bench: Bench) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        await worker.take("a")
        await bench.store.leave(worker.id)
        assert (await call(bench, "b")).holder == "a"

    async def test_a_holder_that_waits_for_its_children_is_not_over(self, bench: Bench) -> None:
        await call(bench, "p")
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a"))
        assert (await call(bench, "b")).holder == "p"
        await bench.play(other)
        assert (await call(bench, "b")).holder == "p"
        await worker.finish(await worker.take("p"))
        assert await has_key(bench) is None

    async def test_a_cancelled_holder_is_over(self, bench: Bench) -> None:
        await call(bench, "a")
        await bench.change(Action.CANCEL, "a")
        assert (await call(bench, "b", delay=HOUR)).status is Accept.ACCEPTED
        await bench.change(Action.CANCEL, "b")
        assert (await call(bench, "c")).status is Accept.ACCEPTED

    async def test_a_running_holder_holds_until_its_cancel_is_settled(self, bench: Bench) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        assert (await call(bench, "b")).holder == "a"
        await worker.settle(claim, BACK)
        assert await bench.state("a") == State.CANCELLED
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    @pytest.mark.parametrize("delay", [0, HOUR], ids=["ready", "scheduled"])
    async def test_a_deleted_holder_leaves_its_key(self, bench: Bench, delay: int) -> None:
        await call(bench, "a", delay=delay)
        await bench.change(Action.DELETE, "a")
        assert await has_key(bench) is None
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    async def test_what_was_over_before_frees_nothing_when_it_is_deleted(self, bench: Bench) -> None:
        await call(bench, "a")
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        await call(bench, "b")
        await bench.change(Action.DELETE, "a")
        assert await holder(bench) == ("b", "")

    async def test_an_expired_holder_is_over(self, bench: Bench) -> None:
        await call(bench, "a", expires_in=1_000)
        bench.clock.advance(1_001)
        await bench.store.sweep()
        assert await bench.state("a") == State.CANCELLED
        assert (await call(bench, "b", expires_in=1_000)).status is Accept.ACCEPTED
        bench.clock.advance(1_001)
        worker = await bench.worker()
        assert await worker.claim() == []
        assert await has_key(bench) is None

    async def test_a_holder_that_nobody_declares_is_over_when_it_is_parked(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=9_000)
        await call(bench, "a", task="unheard of")
        worker = await bench.worker()
        assert await worker.claim() == []
        assert (await call(bench, "b")).holder == "a"
        await bench.passes(20_000, worker)
        assert await bench.state("a") == State.FAILED
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    @pytest.mark.parametrize(
        "action", [Action.PROMOTE, Action.MOVE, Action.REPRIORITISE, Action.RESCHEDULE, Action.EDIT]
    )
    async def test_a_holder_keeps_its_key_whatever_is_changed(self, bench: Bench, action: Action) -> None:
        await call(bench, "a", delay=HOUR)
        reply = await bench.change(action, "a", queue="other", priority=8, payload=b"[2]", delay=5)
        assert reply.changed == ["a"]
        assert (await call(bench, "b")).holder == "a"

    async def test_a_pruned_holder_leaves_its_key(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await call(bench, "a")
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        assert await bench.state("a") is None
        assert (await call(bench, "a")).status is Accept.ACCEPTED

    async def test_another_connection_sees_who_has_a_key(self, bench: Bench) -> None:
        other = await bench.connect()
        await call(bench, "a")
        assert await other.uniques(["k"]) == [UniqueInfo(holder="a")]
        assert await other.uniques([]) == []


class UniqueWindowRules:
    """A key may be held longer than its job lives."""

    async def test_a_key_is_held_as_long_as_its_window_also_when_the_holder_is_over(self, bench: Bench) -> None:
        await call(bench, "a", window=10_000)
        bench.clock.advance(3_000)
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        assert await has_key(bench) == UniqueInfo(holder="a", window=7_000)
        answer = await call(bench, "b")
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "a")
        bench.clock.advance(6_999)
        assert (await call(bench, "b")).holder == "a"
        bench.clock.advance(1)
        assert await has_key(bench) is None
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    @pytest.mark.parametrize("policy", REPLACING)
    async def test_nothing_replaces_a_holder_that_is_over(self, bench: Bench, policy: Policy) -> None:
        await call(bench, "a", policy, window=10_000)
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        before = await bench.job("a")
        answer = await call(bench, "b", policy)
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "a")
        assert await bench.job("a") == before

    async def test_a_window_that_is_over_frees_no_key_of_a_job_under_way(self, bench: Bench) -> None:
        await call(bench, "a", window=1_000)
        bench.clock.advance(2_000)
        assert (await call(bench, "b")).holder == "a"
        await bench.store.sweep()
        assert await has_key(bench) == UniqueInfo(holder="a")

    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_cancel_and_delete_do_not_shorten_a_window(self, bench: Bench, action: Action) -> None:
        await call(bench, "a", window=5_000)
        await bench.change(action, "a")
        assert (await call(bench, "b")).holder == "a"
        bench.clock.advance(5_000)
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    async def test_a_window_outlives_the_record(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await call(bench, "a", window=5_000)
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        assert await bench.state("a") is None
        answer = await call(bench, "b")
        assert (answer.status, answer.holder) == (Accept.DUPLICATE, "a")
        bench.clock.advance(5_000)
        assert (await call(bench, "b")).status is Accept.ACCEPTED

    async def test_a_window_that_ended_is_not_taken_for_the_next_holders(self, bench: Bench) -> None:
        await call(bench, "a", window=1_000)
        worker = await bench.worker()
        await worker.finish(await worker.take("a"))
        bench.clock.advance(1_000)
        await call(bench, "b")
        await worker.finish(await worker.take("b"))
        assert await has_key(bench) is None
        await bench.store.sweep()
        assert (await call(bench, "c")).status is Accept.ACCEPTED


class UniqueReplaceRules:
    """A holder that has not started takes over the arguments of the last call."""

    @pytest.mark.parametrize("fields", [{}, {"delay": HOUR}], ids=["ready", "scheduled"])
    async def test_the_holder_gets_the_arguments_of_the_call(self, bench: Bench, fields: dict[str, int]) -> None:
        await call(bench, "a", REPLACE, **fields)
        before = await bench.job("a")
        bench.clock.advance(10)
        answer = await call(bench, "b", REPLACE, payload=b"[2]", meta=b'{"source":"s"}', version=2, priority=7, delay=9)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        after = await bench.job("a")
        assert (after.payload, after.meta, after.version, after.priority) == (b"[2]", b'{"source":"s"}', 2, 7)
        assert (after.state, after.due_at, after.enqueued_at) == (before.state, before.due_at, before.enqueued_at)
        assert (after.run, after.attempt, after.queue, after.task) == (1, 0, "q", "t")
        assert await bench.state("b") is None
        assert await holder(bench) == ("a", "")

    async def test_a_replaced_holder_is_an_event_of_its_own(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        await call(bench, "b", REPLACE)
        assert await bench.kinds() == ["enqueued", "replaced"]
        assert await bench.kinds("a") == ["enqueued", "replaced"]

    @pytest.mark.parametrize("priority", [1, 5, 9])
    async def test_a_replaced_holder_keeps_its_place(self, bench: Bench, priority: int) -> None:
        await bench.add("first")
        await call(bench, "a", REPLACE)
        await bench.add("last")
        await call(bench, "b", REPLACE, priority=priority)
        worker = await bench.worker()
        claims = await worker.claim()
        assert [claim.id for claim in claims] == ["first", "a", "last"]
        assert (claims[1].payload, claims[1].priority) == (b'"b"', priority)

    async def test_a_scheduled_holder_has_its_new_priority_when_due(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, delay=1_000)
        await bench.add("other")
        await call(bench, "b", REPLACE, priority=9)
        bench.clock.advance(1_000)
        worker = await bench.worker()
        assert await worker.ids() == ["a", "other"]

    async def test_the_last_call_counts(self, bench: Bench) -> None:
        for id in "abcde":
            await call(bench, id, REPLACE)
        worker = await bench.worker()
        [claim] = await worker.claim()
        assert (claim.id, claim.payload) == ("a", b'"e"')

    async def test_a_call_that_keeps_changes_no_holder_and_one_that_replaces_changes_any(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        assert (await call(bench, "b", KEEP)).status is Accept.DUPLICATE
        assert (await bench.job("a")).payload == b'"a"'
        await call(bench, "x", KEEP, key="other")
        assert (await call(bench, "y", REPLACE, key="other")).status is Accept.REPLACED
        assert (await bench.job("x")).payload == b'"y"'

    @pytest.mark.parametrize("policy", REPLACING)
    async def test_another_task_replaces_nothing(self, bench: Bench, policy: Policy) -> None:
        await call(bench, "a", policy, delay=1_000)
        before = await bench.job("a")
        answer = await call(bench, "b", policy, task="u")
        assert answer.status is Accept.REFUSED
        assert answer.reason
        assert await bench.job("a") == before

    @pytest.mark.parametrize("outcome", AGAIN.values(), ids=AGAIN)
    async def test_a_holder_that_will_run_again_is_replaced_too(self, bench: Bench, outcome: Outcome) -> None:
        await call(bench, "a", REPLACE)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        before = await bench.job("a")
        answer = await call(bench, "b", REPLACE)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        after = await bench.job("a")
        assert (after.attempt, after.snoozes, after.due_at) == (before.attempt, before.snoozes, before.due_at)
        bench.clock.advance(5_000)
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_holder_that_waits_for_its_children_is_replaced_too(self, bench: Bench) -> None:
        await call(bench, "p", REPLACE)
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("x"))
        assert (await call(bench, "b", REPLACE)).holder == "p"
        assert await bench.state("p") == State.WAITING
        await bench.play(other)
        claim = await worker.take("p")
        assert (claim.payload, claim.awaits) == (b'"b"', "c")

    async def test_a_holder_that_was_set_aside_is_found_under_its_new_version(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, version=2)
        worker, newer = await bench.worker("w1"), await bench.worker("w2", declares={"t": Declared((2,))})
        assert await worker.claim() == []
        assert (await call(bench, "b", REPLACE, version=1)).status is Accept.REPLACED
        assert await newer.claim() == []
        claim = await worker.take("a")
        assert (claim.version, claim.payload) == (1, b'"b"')

    async def test_a_replaced_holder_is_known_by_its_new_arguments(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        await call(bench, "b", REPLACE)
        assert (await call(bench, "a", REPLACE, payload=b'"b"')).status is Accept.DUPLICATE

    async def test_a_call_sent_again_replaces_once_more_and_makes_no_second(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE)
        for _ in range(2):
            assert (await call(bench, "b", REPLACE)).status is Accept.REPLACED
        assert await bench.counts() == {"ready": 1}

    async def test_replacing_wakes_nobody(self, bench: Bench) -> None:
        await call(bench, "a", REPLACE, delay=HOUR)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", REPLACE)
        await worker.mail.flush()
        assert worker.mail.wakes == 0


class DebounceRules:
    """A holder that has not started is put off by every call."""

    async def test_every_call_begins_the_delay_anew(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        for id in "bcd":
            bench.clock.advance(900)
            answer = await call(bench, id, DEBOUNCE, delay=1_000)
            assert (answer.status, answer.holder) == (Accept.REPLACED, "a")
        worker = await bench.worker()
        bench.clock.advance(999)
        assert await worker.claim() == []
        bench.clock.advance(1)
        assert (await worker.take("a")).payload == b'"d"'

    async def test_it_is_put_off_no_longer_than_the_most(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000, most=2_500)
        for id in "bc":
            bench.clock.advance(900)
            await call(bench, id, DEBOUNCE, delay=1_000, most=2_500)
        job = await bench.job("a")
        assert (job.state, job.due_at, job.payload) == (State.SCHEDULED, START + 2_500, b'"c"')

    async def test_a_ready_holder_is_put_off_too(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        bench.clock.advance(1_000)
        await bench.store.sweep()
        assert await bench.state("a") == State.READY
        await call(bench, "b", DEBOUNCE, delay=1_000)
        job = await bench.job("a")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 2_000)
        assert await bench.counts() == {"scheduled": 1}
        worker = await bench.worker()
        assert await worker.claim() == []
        bench.clock.advance(1_000)
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_ready_holder_that_was_put_off_the_most_stays_ready(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000, most=1_500)
        bench.clock.advance(2_000)
        await bench.store.sweep()
        answer = await call(bench, "b", DEBOUNCE, delay=1_000, most=1_500)
        assert answer.status is Accept.REPLACED
        worker = await bench.worker()
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_holder_put_off_is_found_by_the_alarm_of_its_new_time(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=1_000)
        await call(bench, "b", DEBOUNCE, delay=4_000)
        worker = await bench.worker()
        assert (await worker.exchange(want=1)).next_due == 4_000

    async def test_a_holder_hurried_by_a_shorter_delay_wakes_somebody_to_set_the_alarm_anew(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=5_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", DEBOUNCE, delay=1_000)
        await worker.mail.woken()
        assert (await worker.exchange(want=1)).next_due == 1_000

    async def test_a_call_without_a_delay_makes_it_ready(self, bench: Bench) -> None:
        await call(bench, "a", DEBOUNCE, delay=5_000)
        worker = await bench.worker()
        assert await worker.claim() == []
        await call(bench, "b", DEBOUNCE)
        await worker.mail.woken()
        assert (await worker.take("a")).payload == b'"b"'

    async def test_a_successor_is_put_off_while_it_waits(self, bench: Bench) -> None:
        worker, claim = await succeeded_by(bench, DEBOUNCE, delay=1_000)
        bench.clock.advance(900)
        answer = await call(bench, "c", DEBOUNCE, delay=1_000)
        assert (answer.status, answer.holder) == (Accept.REPLACED, "b")
        assert await bench.state("b") == State.WAITING
        await worker.finish(claim)
        job = await bench.job("b")
        assert (job.state, job.due_at, job.payload) == (State.SCHEDULED, START + 1_900, b'"c"')


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
        """All that is under way ends, and the keys are free."""
        for _ in range(20):
            hand = await self.hand()
            for one in self.hands:
                await one.exchange([move(claim, DONE) for claim in one.held.values()])
            await self.bench.passes(5_000, *self.hands)
            await hand.claim()
        left = [job.id for job in await self.bench.everything(queue="q") if not job.state.terminal]
        assert (left, await self.bench.store.uniques(["k", "l"])) == ([], [None, None])
