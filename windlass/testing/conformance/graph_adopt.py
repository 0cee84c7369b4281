"""A job that starts a graph of its own and waits for it: to run again behind it, or to be replaced by its value."""

from __future__ import annotations

import pytest

from windlass.core.job import Claim, Finished, State
from windlass.core.lifecycle import Adopted, Succeeded
from windlass.core.links import On, Shape
from windlass.store.answers import Accept
from windlass.store.jobs import INLINE_MAX, Action
from windlass.testing.conformance.bench import LEASE, START, Bench, Hand, MakeBench, move, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, done, failure
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_NOW, STOPPED


def inner(*ids: str, id: str = "c", parent: str = "p", on: On = On.SUCCESS) -> GraphDraft:
    """The graph ``c`` of the job ``p``: a chain of jobs in a queue of its own, so that only who wants to runs them."""
    plan = GraphDraft(id, parent=parent, parent_on=on)
    before: list[str] = []
    for one in ids:
        plan.job(one, *before, queue="inner")
        before = [one]
    return plan.end(*before)


async def adopt(bench: Bench, hand: Hand, claim: Claim, plan: GraphDraft, replaced: bool = False) -> None:
    """Stage the graph and settle the job with it; both must be taken."""
    assert (await bench.stage(plan)).status is Accept.ACCEPTED
    reply = await hand.settle(claim, Adopted(plan.id, replaced))
    assert reply.refused == [], f"{claim.id} could not adopt {plan.id}"


async def waiting(bench: Bench, plan: GraphDraft, replaced: bool = False) -> tuple[Hand, Hand]:
    """A job ``p`` that waits for the plan; the worker that ran it, and one for the inner jobs."""
    await bench.add("p")
    worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
    await adopt(bench, worker, await worker.take("p"), plan, replaced)
    return worker, other


class AdoptRules:
    """A job that waits and runs again."""

    async def test_a_job_waits_for_the_graph_it_adopts(self, bench: Bench) -> None:
        await waiting(bench, inner("a", "b"))
        job = await bench.job("p")
        assert (job.state, job.awaits, job.replaced, job.worker, job.run) == (State.WAITING, "c", False, "", 1)
        assert (await bench.kinds("p")) == ["enqueued", "started", "waiting"]
        assert await bench.states("a", "b", "c") == ["ready", "waiting", "waiting"]
        info = await bench.graph("c")
        assert (info.parent, info.state, info.size) == ("p", State.WAITING, 2)
        assert await bench.counts() == {"waiting": 1}

    async def test_the_graph_is_real_in_the_step_that_settles(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker(queues=["q", "inner"])
        claim = await worker.take("p")
        await bench.stage(inner("a"))
        assert await bench.states("a", "c") == [None, None]
        reply = await worker.exchange([move(claim, Adopted("c"))], want=5)
        assert [claim.id for claim in reply.claims] == ["a"]
        assert (await bench.kinds("c")) == ["workflow_started"]

    async def test_it_runs_again_in_the_same_run(self, bench: Bench) -> None:
        await bench.add("p")
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await worker.settle(await worker.take("p"), RETRY_NOW)
        first = await worker.take("p")
        await adopt(bench, worker, first, inner("a", "b"))
        assert await bench.play(other) == ["a", "b"]
        assert await bench.state("p") == State.READY
        claim = await worker.take("p")
        assert (claim.awaits, claim.run, claim.epoch, claim.attempt) == ("c", 1, 3, 1)
        assert (claim.graph, claim.awaited, claim.payload) == ("", None, first.payload)
        end = await bench.job("c")
        assert (end.state, end.result) == (State.SUCCEEDED, b'"b"')
        await worker.finish(claim)
        assert await bench.state("p") == State.SUCCEEDED

    async def test_a_released_job_wakes_an_idle_worker(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a"))
        assert await worker.claim() == []
        await bench.play(other)
        await worker.mail.woken()
        assert await worker.ids() == ["p"]

    async def test_it_fails_with_its_graph(self, bench: Bench) -> None:
        _, other = await waiting(bench, inner("a", "b"))
        client = await bench.client()
        await bench.store.watch("client", ["p"])
        await bench.play(other, {"a": DEAD})
        job, culprit = await bench.job("p"), await bench.job("a")
        assert (job.state, job.reason, job.error) == (State.FAILED, "t a failed", culprit.error)
        assert (await bench.kinds("p"))[-1] == "failed"
        assert [one.id for one in await bench.everything(states=(State.FAILED,), queue="q")] == ["p"], "a dead letter"
        [news] = await client.told("p")
        assert (news.state, news.error, news.reason) == (State.FAILED, culprit.error, "t a failed")

    async def test_it_runs_again_whatever_came_of_its_graph_if_it_asked_for_that(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a", on=On.DONE))
        await bench.play(other, {"a": DEAD})
        claim = await worker.take("p")
        assert (claim.awaits, claim.run) == ("c", 1)
        assert (await bench.graph("c")).state is State.FAILED

    async def test_it_may_adopt_again(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a"))
        await bench.play(other)
        await adopt(bench, worker, await worker.take("p"), inner("b", id="c2"))
        assert (await bench.job("p")).awaits == "c2"
        await bench.play(other)
        claim = await worker.take("p")
        assert (claim.awaits, claim.run, claim.epoch) == ("c2", 1, 3)

    async def test_an_empty_graph_that_is_adopted_is_over_at_once(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker()
        claim = await worker.take("p")
        await bench.stage(GraphDraft("c", parent="p").end(shape=Shape.MANY))
        reply = await worker.exchange([move(claim, Adopted("c"))], want=1)
        await bench.drain()
        claims = reply.claims or await worker.claim(1)
        assert [(claim.id, claim.awaits) for claim in claims] == [("p", "c")]

    async def test_a_member_of_a_workflow_may_adopt(self, bench: Bench) -> None:
        await bench.submit(chain("p", "next"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a"))
        await bench.drain()
        assert await bench.states("p", "next", "g") == ["waiting", "waiting", "waiting"]
        assert (await bench.graph("g")).state is State.WAITING
        await bench.play(other)
        claim = await worker.take("p")
        assert (claim.graph, claim.awaits) == ("g", "c")
        await worker.settle(claim, value("p"))
        assert (await worker.take("next")).given == b'"p"'

    async def test_a_job_with_a_source_keeps_it_over_the_wait(self, bench: Bench) -> None:
        await bench.submit(chain("a", "p"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await worker.settle(await worker.take("a"), value("a"))
        await adopt(bench, worker, await worker.take("p"), inner("x"))
        await bench.play(other)
        claim = await worker.take("p")
        assert (claim.source, claim.given, claim.awaits) == ("a", b'"a"', "c")


class ReplaceRules:
    """A job whose value is that of its graph."""

    async def test_it_takes_over_the_value(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a", "b"), replaced=True)
        assert (await bench.job("p")).replaced
        client = await bench.client()
        await bench.store.watch("client", ["p"])
        await bench.play(other)
        job = await bench.job("p")
        assert (job.state, job.result, job.finished_at, job.epoch) == (State.SUCCEEDED, b'"b"', START, 1)
        assert await client.told("p") == [Finished("p", State.SUCCEEDED, b'"b"')]
        assert (await bench.kinds("p")) == ["enqueued", "started", "waiting", "succeeded"]
        assert await worker.claim() == []

    async def test_a_value_that_is_not_at_hand_is_announced_and_fetched(self, bench: Bench) -> None:
        plan = GraphDraft("c", parent="p").job("a", queue="inner").end("a", shape=Shape.MANY)
        _, other = await waiting(bench, plan, replaced=True)
        client = await bench.client()
        await bench.store.watch("client", ["p"])
        await bench.play(other)
        assert await client.told("p") == [Finished("p", State.SUCCEEDED, inline=False)]
        assert (await bench.store.watch("client", ["p"])).finished == [Finished("p", State.SUCCEEDED, inline=False)]
        job = await bench.job("p")
        assert (job.result, job.awaits, job.replaced) == (None, "c", True), "who wants the value asks for its graph's"
        [[source]] = await bench.store.inputs(["c"])
        assert source.result == b'"a"'

    async def test_a_large_value_is_left_where_it_is(self, bench: Bench) -> None:
        _, other = await waiting(bench, inner("a"), replaced=True)
        await bench.play(other, {"a": Succeeded(b'"' + b"x" * INLINE_MAX + b'"')})
        job = await bench.job("p")
        assert (job.state, job.result) == (State.SUCCEEDED, None)

    async def test_it_takes_over_the_failure(self, bench: Bench) -> None:
        worker, other = await waiting(bench, inner("a", "b"), replaced=True)
        await bench.play(other, {"b": DEAD})
        job = await bench.job("p")
        assert (job.state, job.reason, job.error) == (State.FAILED, "t b failed", (await bench.job("b")).error)
        assert (await bench.kinds("p"))[-1] == "failed"
        assert await worker.claim() == []

    async def test_the_value_goes_on_in_the_outer_workflow(self, bench: Bench) -> None:
        await bench.submit(chain("p", "next"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a"), replaced=True)
        await bench.play(other)
        claim = await worker.take("next")
        assert (claim.source, claim.given) == ("p", b'"a"')
        await worker.finish(claim)
        info = await bench.graph("g")
        assert (info.state, {state: n for state, n in info.counts.items() if n}) == (State.SUCCEEDED, {"succeeded": 2})

    async def test_the_failure_goes_on_in_the_outer_workflow(self, bench: Bench) -> None:
        await bench.submit(chain("p", "next"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a"), replaced=True)
        await bench.play(other, {"a": DEAD})
        assert await bench.states("p", "next", "g") == ["failed", "skipped", "failed"]
        assert (await bench.job("g")).error == (await bench.job("a")).error

    async def test_graphs_replace_jobs_of_graphs_that_replace_jobs(self, bench: Bench) -> None:
        await bench.add("p")
        worker = await bench.worker("w1", queues=["q", "inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a"), replaced=True)
        deeper = GraphDraft("d", parent="a").job("z", queue="inner").end("z")
        await adopt(bench, worker, await worker.take("a"), deeper, replaced=True)
        assert await bench.states("p", "a", "z") == ["waiting", "waiting", "ready"]
        await worker.settle(await worker.take("z"), value("z"))
        assert await bench.states("z", "d", "a", "c", "p") == ["succeeded"] * 5
        assert (await bench.job("p")).result == b'"z"'

    async def test_a_retried_member_of_its_graph_reopens_it(self, bench: Bench) -> None:
        await bench.submit(chain("p", "next"))
        worker, other = await bench.worker("w1"), await bench.worker("w2", queues=["inner"])
        await adopt(bench, worker, await worker.take("p"), inner("a", "b"), replaced=True)
        await bench.play(other, {"a": DEAD})
        assert await bench.states("p", "next", "g", "c") == ["failed", "skipped", "failed", "failed"]
        await bench.change(Action.RETRY, "a")
        await bench.drain()
        assert await bench.states("a", "b", "c", "p", "next", "g") == ["ready", *["waiting"] * 5]
        assert await bench.play(other) == ["a", "b"]
        assert (await bench.job("p")).result == b'"b"'
        assert await bench.play(worker) == ["next"]
        assert (await bench.graph("g")).state is State.SUCCEEDED


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
