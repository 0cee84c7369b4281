"""A job that waits for a graph of its own, when something goes wrong: crashes, cancels, deletions, lost graphs."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Adopted
from windlass.core.links import Shape
from windlass.store.answers import Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, Bench, MakeBench, move
from windlass.testing.conformance.graph_adopt import adopt, inner, waiting
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, done, failure
from windlass.testing.conformance.outcomes import DEAD, DONE, STOPPED


class AdoptFaultRules:
    """Lost replies, zombies, cancels and retries around an adoption."""

    async def test_a_graph_that_is_not_there_is_refused(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker()
        claim = await worker.take("p")
        assert (await worker.settle(claim, Adopted("c"))).refused == ["p"]
        job = await bench.job("p")
        assert (job.state, job.worker, job.awaits) == (State.RUNNING, "w1", "")
        assert (await worker.settle(claim, DONE)).refused == []

    async def test_a_graph_that_is_not_complete_is_refused(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker()
        claim, plan = await worker.take("p"), inner("a", "b")
        await bench.stage(plan, 0, 2)
        assert (await worker.settle(claim, Adopted("c"))).refused == ["p"]
        assert await bench.state("p") == State.RUNNING
        assert await bench.states("a", "b", "c") == [None] * 3
        await bench.stage(plan, 2)
        assert (await worker.settle(claim, Adopted("c"))).refused == []
        assert await bench.states("p", "a") == ["waiting", "ready"]

    async def test_a_zombies_graph_is_never_seen_and_vanishes(self, make_bench: MakeBench) -> None:
        bench = await make_bench(staged_for=10_000)
        await bench.add("p")
        zombie = await bench.worker("w1")
        old = await zombie.take("p")
        await bench.passes(LEASE + 1)
        heir = await bench.worker("w2")
        new = await heir.take("p")
        plan = inner("a")
        await bench.stage(plan)
        assert (await zombie.exchange([move(old, Adopted("c"))])).gone
        assert (await heir.settle(old, Adopted("c"))).refused == ["p"]
        heir.held["p"] = new
        assert await bench.states("p", "a", "c") == ["running", None, None]
        await bench.passes(10_001, heir)
        await bench.drain()
        assert (await bench.stage(plan, 1)).status is Accept.REFUSED
        await heir.finish(new)
        assert (await bench.kinds("c")) == []

    async def test_a_lost_reply_adopts_nothing_twice(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker(queues=["q", "inner"])
        claim = await worker.take("p")
        await bench.stage(inner("a"))
        first = await worker.exchange([move(claim, Adopted("c"))], want=1)
        for _ in range(3):
            again = await worker.resend()
            assert (again.claims, again.refused) == (first.claims, [])
        assert (await bench.kinds("c")) == ["workflow_started"]
        assert (await bench.kinds("p")).count("waiting") == 1
        await worker.finish(first.claims[0])
        assert [claim.id for claim in await worker.claim()] == ["p"]
        assert (await bench.job("p")).epoch == 2

    async def test_staging_again_after_a_lost_reply_is_harmless(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a"))
        assert (await bench.stage(inner("a"))).status is Accept.DUPLICATE
        assert await bench.play(other) == ["a"]
        assert await worker.ids() == ["p"]

    @pytest.mark.parametrize("replaced", [False, True])
    async def test_a_requested_cancel_goes_before_the_wait(self, bench: Bench, replaced: bool) -> None:
        await bench.add("p")
        worker = await bench.worker()
        claim = await worker.take("p")
        await bench.change(Action.CANCEL, "p", reason="enough")
        await bench.stage(inner("a"))
        await worker.settle(claim, Adopted("c", replaced))
        assert await bench.states("p", "a", "c") == ["cancelled", None, None]
        assert await bench.store.graph("c") is None

    @pytest.mark.parametrize("replaced", [False, True])
    async def test_a_cancel_of_the_waiting_job_stops_its_graph(self, bench: Bench, replaced: bool) -> None:
        worker, other = await waiting(bench, inner("a", "b"), replaced)
        claim = await other.take("a")
        assert (await bench.change(Action.CANCEL, "p", reason="enough")).changed == ["p"]
        await bench.drain()
        job = await bench.job("p")
        assert (job.state, job.reason) == (State.CANCELLED, "enough")
        assert await bench.states("a", "b") == ["running", "cancelled"]
        assert (await bench.graph("c")).stopping == "cancel"
        await other.settle(claim, STOPPED)
        assert (await bench.graph("c")).state is State.CANCELLED
        await bench.drain()
        assert await bench.state("p") == State.CANCELLED
        assert await worker.claim() == []

    async def test_a_cancel_of_the_workflow_reaches_what_its_jobs_wait_for(self, bench: Bench) -> None:
        await bench.submit(chain("p", "next"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a", "b"))
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        assert await bench.states("p", "next", "g", "a", "b", "c") == ["cancelled"] * 6
        assert await other.claim() == []

    async def test_a_cancel_of_the_inner_graph_fails_the_job(self, bench: Bench) -> None:
        await waiting(bench, inner("a", "b"))
        await bench.change(Action.CANCEL, "c", reason="enough")
        await bench.drain()
        assert (await bench.graph("c")).state is State.CANCELLED
        assert await bench.state("p") == State.FAILED

    @pytest.mark.parametrize("replaced", [False, True])
    async def test_it_fails_with_what_stopped_its_graph(self, bench: Bench, replaced: bool) -> None:
        """Of those that were stopped, some come to the end of the graph before who failed does, and have no error."""
        plan = GraphDraft("c", parent="p", fail_fast=True).job("a", queue="inner").job("s", queue="inner")
        plan.join("j", "a").join("k", "j").end("k", "s", shape=Shape.MANY)
        await bench.submit(chain("p", "next").job("then", "g", aftermath=True))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), plan, replaced)
        await bench.play(other, {"a": DEAD})
        job, culprit = await bench.job("p"), await bench.job("a")
        assert (job.state, job.reason, job.error) == (State.FAILED, "t a failed", culprit.error)
        for id in ("next", "then"):
            assert (await bench.job(id)).reason == "t a failed", f"the reason of {id}"
        assert (await bench.graph()).culprit == "a"

    async def test_what_is_given_up_because_of_it_names_who_failed_also_if_that_runs_again(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("p").job("s").job("t", "p", "s").end("t"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        p, s = await worker.claim()
        await adopt(bench, worker, p, inner("a"))
        await bench.play(other, {"a": DEAD})
        await bench.change(Action.RETRY, "c")
        await bench.drain()
        assert await bench.states("a", "p", "t") == ["ready", "failed", "waiting"]
        await worker.settle(s, DONE)
        await bench.drain()
        job = await bench.job("t")
        assert (job.state, job.reason) == (State.SKIPPED, "t a failed")

    async def test_a_retry_starts_from_the_beginning(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a"))
        await bench.play(other, {"a": DEAD})
        assert (await bench.change(Action.RETRY, "p")).changed == ["p"]
        job = await bench.job("p")
        assert (job.state, job.awaits, job.replaced, job.run) == (State.READY, "", False, 2)
        claim = await worker.take("p")
        assert (claim.awaits, claim.run) == ("", 2)
        await adopt(bench, worker, claim, inner("b", id="c2"), replaced=True)
        await bench.play(other)
        assert (await bench.job("p")).result == b'"b"'

    async def test_a_graph_of_an_earlier_run_decides_nothing(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a"))
        late = await other.take("a")
        await bench.change(Action.CANCEL, "p")
        await bench.change(Action.RETRY, "p")
        await bench.drain()
        assert await bench.state("p") == State.READY
        await adopt(bench, worker, await worker.take("p"), inner("b", id="c2"))
        await other.settle(late, DONE)
        await bench.drain()
        assert (await bench.graph("c")).state.terminal
        assert await bench.states("p", "b") == ["waiting", "ready"], "p waits for c2, not for c"
        assert await bench.play(other) == ["b"]
        assert await worker.ids() == ["p"]

    async def test_the_end_of_a_graph_whose_job_is_gone_harms_nobody(self, bench: Bench) -> None:
        _, other = await waiting(bench, inner("a"))
        late = await other.take("a")
        await bench.change(Action.CANCEL, "p")
        await bench.change(Action.DELETE, "p")
        await other.settle(late, DONE)
        await bench.drain()
        assert (await bench.graph("c")).state.terminal
        assert await bench.state("p") is None

    async def test_a_waiting_job_expires_with_its_graph(self, bench: Bench) -> None:
        await bench.add("p", expires_in=60_000)
        worker = await bench.worker("w1")
        await adopt(bench, worker, await worker.take("p"), inner("a"))
        await bench.passes(60_001)
        await bench.drain()
        job = await bench.job("p")
        assert (job.state, job.reason) == (State.CANCELLED, "expired")
        assert (await bench.graph("c")).state.terminal or (await bench.graph("c")).stopping == "cancel"

    async def test_what_is_stopped_because_its_job_expired_has_not_expired_itself(self, bench: Bench) -> None:
        await bench.add("p", expires_in=60_000)
        worker = await bench.worker("w1")
        plan = GraphDraft("c", parent="p").job("a", queue="inner").join("j", failure("a")).end("a", done("j"))
        await adopt(bench, worker, await worker.take("p"), plan)
        await bench.passes(60_001)
        await bench.drain()
        assert await bench.states("p", "a", "j", "c") == ["cancelled"] * 4, "a did not fail"
        assert (await bench.job("a")).reason == "t p expired"

    async def test_the_worker_that_adopted_may_die(self, bench: Bench) -> None:
        worker, other = await waiting(bench, chord_of_p(), replaced=False)
        await bench.store.leave(worker.id, crashed=True)
        await bench.drain()
        job = await bench.job("p")
        assert (job.state, job.crashes) == (State.WAITING, 0)
        await bench.play(other)
        heir = await bench.worker("w3")
        assert await heir.ids() == ["p"]

    async def test_an_adopted_graph_is_retried_and_the_job_waits_again_only_if_replaced(self, bench: Bench) -> None:
        _, other = await waiting(bench, inner("a"))
        await bench.play(other, {"a": DEAD})
        await bench.change(Action.RETRY, "c")
        assert await bench.play(other) == ["a"]
        assert (await bench.graph("c")).state is State.SUCCEEDED
        assert await bench.state("p") == State.FAILED, "it ran, and is retried by its own name"


def chord_of_p() -> GraphDraft:
    plan = GraphDraft("c", parent="p").job("a", queue="inner").job("b", queue="inner").join("j", "a", "b")
    return plan.job("body", "j", queue="inner").end("body")
