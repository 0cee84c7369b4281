"""Unique keys: of all jobs with one key a single one is under way, besides one successor. What becomes of further
calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from windlass.core.job import Claim, NewJob, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Outcome
from windlass.core.terms import Policy, Terms
from windlass.store.answers import Accept, Answer
from windlass.store.flow import UniqueInfo
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import HOUR, LEASE, START, Bench, Hand, MakeBench, new_job
from windlass.testing.conformance.graph_adopt import adopt, inner
from windlass.testing.conformance.outcomes import (
    BACK,
    DEAD,
    DONE,
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
    """Which job holds a key, for how long, and what a call is told that finds it held."""

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
