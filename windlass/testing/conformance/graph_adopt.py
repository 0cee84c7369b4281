"""A job that starts a graph of its own and waits for it: it runs again after the graph, or takes the graph's value."""

from __future__ import annotations

from windlass.core.job import Claim, Finished, State
from windlass.core.lifecycle import Adopted, Succeeded
from windlass.core.links import On, Shape
from windlass.store.answers import Accept
from windlass.store.jobs import INLINE_MAX, Action
from windlass.testing.conformance.bench import START, Bench, Hand, move, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain
from windlass.testing.conformance.outcomes import DEAD, RETRY_NOW


def inner(*ids: str, id: str = "c", parent: str = "p", on: On = On.SUCCESS) -> GraphDraft:
    """The graph ``c`` of the job ``p``: a chain of jobs in a queue of its own, which only a worker of that
    queue runs.
    """
    plan = GraphDraft(id, parent=parent, parent_on=on)
    before: list[str] = []
    for one in ids:
        plan.job(one, *before, queue="inner")
        before = [one]
    return plan.end(*before)


async def adopt(bench: Bench, hand: Hand, claim: Claim, plan: GraphDraft, replaced: bool = False) -> None:
    """Stage the graph and settle the job with it; the store must accept both."""
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
