"""Faults: the dead letters by fingerprint, as they are now."""

from __future__ import annotations

import pytest

from windlass.core.job import Claim, ErrorInfo, State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Failed, Outcome
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action
from windlass.store.reads import Fault
from windlass.testing.conformance.aside import set_aside
from windlass.testing.conformance.backpressure import press
from windlass.testing.conformance.bench import LEASE, Bench, Hand, MakeBench, move
from windlass.testing.conformance.graph_adopt import inner, waiting
from windlass.testing.conformance.graph_drafts import chain, group
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_LATER, RETRY_NOW, STOPPED
from windlass.testing.conformance.sums import faults_of


def dead(mark: str, retry_in: int | None = None) -> Failed:
    """A failure with this fingerprint."""
    return Failed(ErrorInfo("builtins.ValueError", "oops", fingerprint=mark), retry_in=retry_in)


async def fail(bench: Bench, mark: str, *ids: str, **fields: str) -> None:
    """Jobs that fail one after the other, in the order given."""
    for id in ids:
        await bench.ended(id, dead(mark), **fields)


async def all_running(bench: Bench, *ids: str) -> tuple[Hand, dict[str, Claim]]:
    await bench.add(*ids)
    worker = await bench.worker()
    return worker, {claim.id: claim for claim in await worker.claim(len(ids))}


class FaultRules:
    """What is counted, and when it is not any more."""

    async def test_there_are_no_faults_without_dead_letters(self, bench: Bench) -> None:
        await bench.ended("a", DONE)
        await bench.ended("b", STOPPED)
        await bench.add("c")
        assert await faults_of(bench) == []

    async def test_a_dead_letter_is_a_fault(self, bench: Bench) -> None:
        await bench.ended("a", DEAD)
        assert await faults_of(bench) == [Fault("value-error", 1, "a")]

    async def test_dead_letters_of_one_fingerprint_are_one_fault(self, bench: Bench) -> None:
        await fail(bench, "one", "a", "b")
        await fail(bench, "one", "c", queue="other")
        await fail(bench, "one", "d", task="other")
        await fail(bench, "two", "e")
        assert await faults_of(bench) == [Fault("one", 4, "d"), Fault("two", 1, "e")]

    async def test_the_newest_is_the_one_accepted_last(self, bench: Bench) -> None:
        worker, claims = await all_running(bench, "a", "b", "c")
        for id, newest in (("b", "b"), ("c", "c"), ("a", "c")):
            await worker.settle(claims[id], DEAD)
            [fault] = await faults_of(bench)
            assert fault.newest == newest

    async def test_the_most_frequent_comes_first_then_the_one_with_the_newest_job(self, bench: Bench) -> None:
        marks = {"a": "x", "b": "y", "c": "z", "d": "x", "e": "w", "f": "y", "g": "y", "h": "w"}
        worker, claims = await all_running(bench, *marks)
        await worker.exchange([move(claims[id], dead(marks[id])) for id in reversed(marks)])
        expected = [Fault("y", 3, "g"), Fault("w", 2, "h"), Fault("x", 2, "d"), Fault("z", 1, "c")]
        assert await faults_of(bench) == expected
        for limit in (1, 2, 3, 4, 9):
            assert await bench.store.faults(limit) == expected[:limit]

    async def test_without_a_fingerprint_they_are_one_fault_too(self, bench: Bench) -> None:
        await fail(bench, "", "a", "b")
        await fail(bench, "one", "c")
        assert await faults_of(bench) == [Fault("", 2, "b"), Fault("one", 1, "c")]
        await bench.change(Action.DELETE, "a", "b")
        assert await faults_of(bench) == [Fault("one", 1, "c")]

    async def test_any_fingerprint_is_told_as_it_is(self, bench: Bench) -> None:
        marks = ["\u00fc\u65e5\U0001f600", "it's; --", "a|b:c*d/e{x}", " ", "a\nb", "x" * 500, "0"]
        for n, mark in enumerate(marks):
            await fail(bench, mark, f"j{n}")
        assert [fault.fingerprint for fault in await faults_of(bench)] == marks[::-1]

    async def test_an_error_that_is_retried_is_no_fault(self, bench: Bench) -> None:
        await bench.ended("a", RETRY_LATER)
        assert (await bench.job("a")).fingerprint == "value-error"
        assert await faults_of(bench) == []

    @pytest.mark.parametrize("outcome", [DONE, STOPPED], ids=["succeeded", "cancelled"])
    async def test_an_earlier_error_of_a_job_that_ended_otherwise_is_no_fault(
        self, bench: Bench, outcome: Outcome
    ) -> None:
        worker, claims = await all_running(bench, "a")
        await worker.settle(claims["a"], RETRY_NOW)
        await worker.settle(await worker.take("a"), outcome)
        assert await faults_of(bench) == []

    async def test_a_job_fails_with_its_last_fingerprint(self, bench: Bench) -> None:
        worker, claims = await all_running(bench, "a")
        await worker.settle(claims["a"], dead("first", retry_in=0))
        await worker.settle(await worker.take("a"), dead("second"))
        assert await faults_of(bench) == [Fault("second", 1, "a")]

    async def test_a_replayed_job_is_a_fault_again_only_when_it_fails_again(self, bench: Bench) -> None:
        await fail(bench, "one", "a", "b")
        await bench.change(Action.RETRY, "b")
        assert await faults_of(bench) == [Fault("one", 1, "a")]
        await bench.change(Action.RETRY, "a")
        assert await faults_of(bench) == []
        worker = await bench.worker()
        await worker.settle(await worker.take("b"), dead("two"))
        await worker.settle(await worker.take("a"), dead("one"))
        assert await faults_of(bench) == [Fault("two", 1, "b"), Fault("one", 1, "a")]
        await bench.change(Action.RETRY, "b")
        await worker.settle(await worker.take("b"), dead("one"))
        assert await faults_of(bench) == [Fault("one", 2, "b")]

    async def test_a_deleted_job_is_no_fault(self, bench: Bench) -> None:
        await fail(bench, "one", "a", "b", "c")
        await bench.change(Action.DELETE, "c")
        assert await faults_of(bench) == [Fault("one", 2, "b")]
        await bench.change(Action.DELETE, "a", "b")
        assert await faults_of(bench) == []
        await fail(bench, "one", "a")
        assert await faults_of(bench) == [Fault("one", 1, "a")]

    async def test_what_is_beyond_the_count_that_is_kept_is_no_fault(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=9, failed=Keep(count=2)))
        worker, claims = await all_running(bench, "a", "b", "c", "d")
        for id in "dcba":
            await worker.settle(claims[id], dead("odd" if id in "bd" else "even"))
        assert await bench.states(*"abcd") == ["failed", "failed", None, None]
        assert await faults_of(bench) == [Fault("odd", 1, "b"), Fault("even", 1, "a")]

    async def test_what_is_past_its_age_is_no_fault(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=10))
        await fail(bench, "one", "a")
        await bench.passes(5_000)
        await fail(bench, "one", "b")
        await bench.passes(5_000)
        assert await faults_of(bench) == [Fault("one", 1, "b")]
        await bench.passes(5_000)
        assert await faults_of(bench) == []

    async def test_what_is_not_kept_at_all_is_no_fault(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await fail(bench, "one", "a", "b")
        assert await faults_of(bench) == []

    async def test_an_edited_or_moved_dead_letter_is_the_fault_it_was(self, bench: Bench) -> None:
        await fail(bench, "one", "a", "b")
        await bench.change(Action.EDIT, "b", payload=b"[9]")
        await bench.change(Action.MOVE, "a", "b", queue="other")
        await bench.change(Action.EDIT, "a", payload=b"[9]")
        assert await faults_of(bench) == [Fault("one", 2, "b")]
        await bench.change(Action.DELETE, "b")
        await bench.change(Action.RETRY, "a")
        assert await faults_of(bench) == []

    async def test_whatever_makes_a_dead_letter_makes_a_fault(self, make_bench: MakeBench) -> None:
        bench = await make_bench(unknown_after=9_000)
        await bench.add("crashed", max_crashes=1)
        await bench.crash("crashed")
        await bench.add("late", expires_in=1, expire_to=State.FAILED)
        await bench.passes(5_000)
        await press(bench, "x", "y", most=1, drop_oldest=True, queue="full")
        await set_aside(bench, "undeclared")
        await bench.passes(LEASE + 15_000)
        found = {fault.fingerprint: (fault.count, fault.newest) for fault in await faults_of(bench)}
        assert found == {
            "worker-crashed": (1, "crashed"), "expired": (1, "late"), "queue-full": (1, "x"),
            "unknown-task": (1, "undeclared"),
        }  # fmt: skip

    async def test_many_dead_letters_are_counted_exactly(self, bench: Bench) -> None:
        ids = [f"j{n:04}" for n in range(MAX_BATCH + 200)]
        await bench.add(*ids[:MAX_BATCH])
        await bench.add(*ids[MAX_BATCH:])
        worker = await bench.worker()
        for _ in range(2):
            claims = await worker.claim(MAX_BATCH)
            await worker.exchange([move(one, dead("odd" if int(one.id[1:]) % 2 else "even")) for one in claims])
        half = len(ids) // 2
        assert await bench.store.faults() == [Fault("odd", half, ids[-1]), Fault("even", half, ids[-2])]
        await bench.change(Action.DELETE, *ids[200:])
        assert await faults_of(bench) == [Fault("odd", 100, "j0199"), Fault("even", 100, "j0198")]

    async def test_there_are_at_most_as_many_as_the_largest_batch(self, bench: Bench) -> None:
        ids = [f"j{n:04}" for n in range(MAX_BATCH + 20)]
        await bench.add(*ids[:MAX_BATCH])
        await bench.add(*ids[MAX_BATCH:])
        worker = await bench.worker()
        for _ in range(2):
            await worker.exchange([move(one, dead(one.id)) for one in await worker.claim(MAX_BATCH)])
        found = await bench.store.faults(10 * MAX_BATCH)
        assert [fault.newest for fault in found] == ids[::-1][:MAX_BATCH]

    async def test_another_connection_sees_the_same_faults(self, bench: Bench) -> None:
        await fail(bench, "one", "a", "b")
        other = await bench.connect()
        assert await other.faults() == await bench.store.faults()


class GraphFaultRules:
    """Of a workflow only its jobs can be dead letters."""

    async def test_a_failed_member_is_a_fault_and_what_it_takes_along_is_none(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        await bench.play(await bench.worker(), {"a": DEAD})
        assert await bench.states("b", "g") == ["skipped", "failed"]
        assert await faults_of(bench) == [Fault("value-error", 1, "a")]

    async def test_a_retried_workflow_has_no_faults(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "c": dead("other")})
        assert len(await faults_of(bench)) == 2
        await bench.change(Action.RETRY, "g")
        await bench.drain()
        assert await faults_of(bench) == []
        await bench.play(worker, {"c": DEAD})
        assert await faults_of(bench) == [Fault("value-error", 1, "c")]

    async def test_a_deleted_workflow_has_no_faults(self, bench: Bench) -> None:
        await bench.submit(group("a", "b"))
        await bench.play(await bench.worker(), {"a": DEAD, "b": DEAD})
        assert await faults_of(bench) == [Fault("value-error", 2, "b")]
        await bench.change(Action.DELETE, "g")
        await bench.drain()
        assert await faults_of(bench) == []

    async def test_a_workflow_that_is_not_kept_any_more_has_no_faults(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=10))
        await bench.submit(group("a", "b"))
        await bench.play(await bench.worker(), {"a": DEAD, "b": DEAD})
        await bench.passes(10_000)
        await bench.drain()
        assert await bench.states("a", "b", "g") == [None, None, None]
        assert await faults_of(bench) == []

    @pytest.mark.parametrize("replaced", [False, True], ids=["awaits", "replaced"])
    async def test_a_job_that_fails_with_its_graph_is_of_the_same_fault(self, bench: Bench, replaced: bool) -> None:
        _, other = await waiting(bench, inner("x"), replaced)
        await bench.play(other, {"x": DEAD})
        assert await bench.states("p", "x") == ["failed", "failed"]
        assert await faults_of(bench) == [Fault("value-error", 2, "x")]

    async def test_a_replaced_job_that_waits_again_is_no_fault(self, bench: Bench) -> None:
        _, other = await waiting(bench, inner("x"), replaced=True)
        await bench.play(other, {"x": DEAD})
        await bench.change(Action.RETRY, "x")
        await bench.drain()
        assert await bench.states("p", "x") == ["waiting", "ready"]
        assert await faults_of(bench) == []
        await bench.play(other)
        assert await faults_of(bench) == []
