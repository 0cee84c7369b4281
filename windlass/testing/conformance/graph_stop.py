"""Stopping a workflow as a whole, by hand or by its first failure, and ending one of its members."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.links import Inject, On, Shape
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, START, Bench, move, value
from windlass.testing.conformance.graph_drafts import (
    After,
    GraphDraft,
    callbacks,
    chain,
    chord,
    done,
    failure,
    group,
    wide_group,
)
from windlass.testing.conformance.outcomes import DEAD, DONE, LOSE_TO_CANCEL, STOPPED


def mixed() -> GraphDraft:
    """One job of each kind: ``s`` scheduled, ``r`` ready, ``x`` to be running, ``w`` waiting behind it."""
    plan = GraphDraft(name="nightly").job("x", priority=9).job("s", delay=60_000).job("r").job("w", "x")
    return plan.end("s", "r", "w", "x", shape=Shape.MANY)


def aftermath(plan: GraphDraft) -> GraphDraft:
    """With a callback of the workflow for each way it may end."""
    plan.job("then", After(plan.id), aftermath=True).job("on_error", failure(plan.id), aftermath=True)
    return plan.job("on_end", done(plan.id, Inject.NONE), aftermath=True)


class StopRules:
    """``change(CANCEL)`` on the id of a workflow."""

    async def test_a_cancel_ends_what_has_not_started_and_asks_what_runs(self, bench: Bench) -> None:
        await bench.submit(mixed())
        worker = await bench.worker()
        claim = await worker.take("x")
        reply = await bench.change(Action.CANCEL, "g", reason="enough")
        assert (reply.changed, reply.skipped) == (["g"], {})
        await bench.drain()
        assert await bench.states("s", "r", "w", "x") == ["cancelled", "cancelled", "cancelled", "running"]
        assert [(await bench.job(id)).reason for id in "srw"] == ["enough"] * 3
        info = await bench.graph()
        assert (info.state, info.stopping, info.reason) == (State.WAITING, "cancel", "enough"), "one of its jobs runs"
        assert (await worker.exchange()).cancels == ["x"]
        await worker.settle(claim, STOPPED)
        info = await bench.graph()
        assert (info.state, info.reason, info.finished_at) == (State.CANCELLED, "enough", START)
        assert {state: n for state, n in info.counts.items() if n} == {"cancelled": 4}
        assert await bench.counts() == {"cancelled": 4}

    async def test_a_cancel_of_a_workflow_is_an_event(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", name="nightly"))
        await bench.change(Action.CANCEL, "g", reason="enough")
        await bench.drain()
        [event] = [event for event in await bench.events() if event.kind.startswith("workflow_c")]
        assert (event.kind, event.job, event.task, event.data) == (
            "workflow_cancelled",
            "g",
            "nightly",
            {"reason": "enough"},
        )
        assert (await bench.kinds("a"), await bench.kinds("b")) == (["enqueued", "cancelled"],) * 2

    async def test_who_watches_is_told_of_the_cancel(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        client = await bench.client()
        await bench.store.watch("client", ["g", "b"])
        await bench.change(Action.CANCEL, "g", reason="enough")
        await bench.drain()
        news = {one.id: one for one in await client.told("g", "b")}
        assert [(news[id].state, news[id].reason) for id in ("g", "b")] == [(State.CANCELLED, "enough")] * 2

    async def test_a_running_job_may_still_succeed(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "g", reason="enough")
        await worker.settle(claim, DONE)
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["succeeded", "cancelled", "cancelled"]
        assert await worker.claim() == []

    async def test_a_running_job_may_still_fail(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "g", reason="enough")
        await worker.settle(claim, DEAD)
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["failed", "cancelled", "cancelled"]
        assert (await bench.graph()).reason == "enough"

    @pytest.mark.parametrize("how", LOSE_TO_CANCEL)
    async def test_a_running_job_does_not_try_again(self, bench: Bench, how: str) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "g")
        await worker.settle(claim, LOSE_TO_CANCEL[how])
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["cancelled"] * 3

    async def test_the_job_of_a_worker_that_died_is_not_run_again(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker("w1")
        await worker.take("a")
        await bench.change(Action.CANCEL, "g")
        await bench.passes(LEASE + 1)
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["cancelled"] * 3

    async def test_no_job_of_a_workflow_being_cancelled_is_claimed(self, bench: Bench) -> None:
        """The todo takes several steps; the word is given at once."""
        await bench.submit(wide_group())
        await bench.drain()
        assert await bench.counts() == {"ready": 1_200}
        worker = await bench.worker()
        await bench.change(Action.CANCEL, "g")
        assert (await bench.counts()).get("ready", 0) > 0, "a change touches only so many"
        assert await worker.ids(50) == []
        await bench.drain()
        assert await bench.counts() == {"cancelled": 1_200}
        assert (await bench.graph()).state is State.CANCELLED
        assert "started" not in await bench.kinds()

    async def test_a_job_that_comes_back_while_the_workflow_is_cancelled_is_not_claimed(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        first, second = await bench.worker("w1"), await bench.worker("w2")
        await first.take("a")
        await bench.change(Action.CANCEL, "g")
        await bench.store.leave("w1")
        assert await second.ids() == []
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["cancelled"] * 3

    async def test_what_is_over_stays_as_it_is(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await worker.settle(await worker.take("b"), DEAD)
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        assert await bench.states("a", "b", "c", "g") == ["succeeded", "failed", "cancelled", "cancelled"]

    async def test_cancelling_a_workflow_twice_is_harmless(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "g", reason="first")
        await bench.change(Action.CANCEL, "g", reason="second")
        await worker.settle(claim, STOPPED)
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["cancelled"] * 3
        assert (await bench.kinds("g")) == ["workflow_started", "workflow_cancelled"]
        assert (await bench.kinds("b")) == ["enqueued", "cancelled"]

    async def test_a_workflow_that_is_over_cannot_be_cancelled(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        worker = await bench.worker()
        await bench.play(worker)
        reply = await bench.change(Action.CANCEL, "g")
        assert (reply.changed, reply.skipped) == ([], {"g": "succeeded"})
        assert (await bench.graph()).stopping == ""

    async def test_callbacks_of_the_workflow_are_left_alone(self, bench: Bench) -> None:
        await bench.submit(aftermath(chain("a", "b")))
        worker = await bench.worker()
        await bench.change(Action.CANCEL, "g")
        assert await bench.play(worker) == ["on_end"], "it is over, and did not fail"
        assert await bench.states("then", "on_error", "on_end") == ["skipped", "skipped", "succeeded"]

    async def test_callbacks_for_success(self, bench: Bench) -> None:
        await bench.submit(aftermath(chain("a", "b")))
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "then", "on_end"]
        assert await bench.states("then", "on_error", "on_end") == ["succeeded", "skipped", "succeeded"]

    async def test_callbacks_for_failure(self, bench: Bench) -> None:
        await bench.submit(aftermath(chain("a", "b")))
        worker = await bench.worker()
        ran = await bench.play(worker, {"a": DEAD, "on_error": DEAD})
        assert sorted(ran) == ["a", "on_end", "on_error"]
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "a")
        assert {state: n for state, n in info.counts.items() if n} == {"failed": 1, "skipped": 1}

    async def test_a_workflow_whose_end_asks_for_nothing_is_cancelled_all_the_same(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c", on=On.DONE))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await bench.change(Action.CANCEL, "g", reason="enough")
        await bench.drain()
        assert await bench.states("a", "b", "c") == ["succeeded", "cancelled", "cancelled"]
        info = await bench.graph()
        assert (info.state, info.reason) == (State.CANCELLED, "enough")

    async def test_other_workflows_are_left_alone(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", id="g1"))
        await bench.submit(chain("x", "y", id="g2"))
        await bench.change(Action.CANCEL, "g1")
        worker = await bench.worker()
        assert await bench.play(worker) == ["x", "y"]


class MemberCancelRules:
    """``change(CANCEL)`` on one job of a workflow."""

    async def test_a_cancelled_member_breaks_its_edges_at_once(self, bench: Bench) -> None:
        await bench.submit(callbacks())
        reply = await bench.change(Action.CANCEL, "a", reason="enough")
        assert reply.changed == ["a"]
        assert await bench.states("a", "s", "f", "d") == ["cancelled", "skipped", "skipped", "ready"]

    async def test_a_waiting_member_can_be_cancelled(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        assert (await bench.change(Action.CANCEL, "b", reason="enough")).changed == ["b"]
        job = await bench.job("b")
        assert (job.state, job.reason) == (State.CANCELLED, "enough")
        assert await bench.states("c", "g") == ["skipped", "failed"]
        worker = await bench.worker()
        assert await bench.play(worker) == ["a"]
        assert await bench.state("b") == State.CANCELLED, "an edge that is decided later finds it ended"

    async def test_a_running_member_is_asked(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "a")
        await bench.drain()
        assert await bench.states("a", "b") == ["running", "waiting"]
        await worker.settle(claim, STOPPED)
        assert await bench.states("a", "b", "g") == ["cancelled", "skipped", "failed"]
        assert (await bench.graph()).stopping == ""

    async def test_one_of_many_is_a_failure_like_any(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", spare=1))
        await bench.change(Action.CANCEL, "b")
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "c", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED


class FailFastRules:
    """The first failure stops the rest."""

    async def test_the_first_failure_cancels_everything_else(self, bench: Bench) -> None:
        plan = GraphDraft(fail_fast=True).job("a").job("b").job("c").job("s", delay=60_000).job("w", "c")
        await bench.submit(plan.end("a", "b", "s", "w", shape=Shape.MANY))
        worker = await bench.worker()
        a, b = await worker.claim(2)
        await worker.settle(a, DEAD)
        await bench.drain()
        assert await bench.states("a", "b", "c", "s", "w") == ["failed", "running", *["cancelled"] * 3]
        info = await bench.graph()
        assert (info.state, info.stopping, info.culprit) == (State.WAITING, "fail", "a")
        assert (await bench.job("c")).reason == info.reason == "t a failed"
        assert (await worker.exchange()).cancels == ["b"]
        await worker.settle(b, STOPPED)
        end = await bench.job("g")
        assert (end.state, end.reason, end.error) == (State.FAILED, "t a failed", (await bench.job("a")).error)
        assert (await bench.graph()).culprit == "a"
        assert (await bench.kinds("g")) == ["workflow_started", "workflow_failed"]

    async def test_it_is_in_force_in_the_exchange_that_settled(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c", fail_fast=True))
        worker = await bench.worker()
        claim = await worker.take("a")
        reply = await worker.exchange([move(claim, DEAD)], want=5)
        assert reply.claims == []
        assert await bench.states("a", "b", "c", "g") == ["failed", "cancelled", "cancelled", "failed"]

    @pytest.mark.parametrize("order", ["a c x", "x a c", "a x c"])
    async def test_a_failure_and_a_success_in_one_exchange(self, bench: Bench, order: str) -> None:
        """What the success has released, or set out to, the failure stops; it ends once."""
        plan = GraphDraft(fail_fast=True).job("a").job("c").job("x").job("b", "a").job("d", "c").job("other")
        await bench.submit(plan.end("b", "d", "x", "other", shape=Shape.MANY))
        worker = await bench.worker()
        claims = {claim.id: claim for claim in await worker.claim(3)}
        moves = [move(claims[id], DEAD if id == "x" else DONE) for id in order.split()]
        assert (await worker.exchange(moves, want=5)).claims == []
        await bench.drain()
        assert await bench.states(*"acxbd", "other", "g") == [
            "succeeded", "succeeded", "failed", "cancelled", "cancelled", "cancelled", "failed",
        ]  # fmt: skip
        assert [(await bench.kinds(id)).count("cancelled") for id in ("b", "d", "other")] == [1, 1, 1]
        info = await bench.graph()
        ended = {"succeeded": 2, "failed": 1, "cancelled": 3}
        assert {state: n for state, n in info.counts.items() if n} == await bench.counts() == ended

    async def test_a_failure_that_leaves_nothing_to_stop_stops_as_well(self, bench: Bench) -> None:
        await bench.submit(chain("a", fail_fast=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        info = await bench.graph()
        assert (info.state, info.stopping) == (State.FAILED, "fail")

    async def test_a_crash_counts_as_a_failure(self, bench: Bench) -> None:
        plan = GraphDraft(fail_fast=True).job("a", max_crashes=1).job("b").end("a", "b", shape=Shape.MANY)
        await bench.submit(plan)
        await bench.crash("a")
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["failed", "cancelled", "failed"]

    async def test_a_failure_that_breaks_nothing_stops_nothing(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", on=On.DONE, fail_fast=True))
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD}) == ["a", "b"]
        assert (await bench.graph()).state is State.SUCCEEDED

    @pytest.mark.parametrize("first", ["a", "b"])
    async def test_a_first_failure_that_could_be_spared_stops_it_all_the_same(self, bench: Bench, first: str) -> None:
        """Also if it comes last, and nothing is left to be stopped but the end."""
        await bench.submit(group("a", "b", spare=1, fail_fast=True))
        worker = await bench.worker()
        claims = {claim.id: claim for claim in await worker.claim()}
        for id in sorted(claims, key=lambda id: id != first):
            await worker.settle(claims[id], DEAD if id == "a" else DONE)
        await bench.drain()
        info = await bench.graph()
        assert (info.state, info.stopping, info.culprit, info.reason) == (State.FAILED, "fail", "a", "t a failed")

    async def test_a_cancelled_job_stops_nothing(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", fail_fast=True))
        await bench.change(Action.CANCEL, "a")
        worker = await bench.worker()
        assert await bench.play(worker) == ["b"]
        info = await bench.graph()
        assert (info.state, info.stopping) == (State.FAILED, "")

    async def test_a_retry_stops_nothing(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", fail_fast=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), LOSE_TO_CANCEL["retry at once"])
        assert sorted(await bench.play(worker)) == ["a", "b"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_callback_of_the_workflow_stops_nothing(self, bench: Bench) -> None:
        plan = aftermath(group("a", "b", fail_fast=True)).job("next", "on_error", aftermath=True)
        await bench.submit(plan)
        worker = await bench.worker()
        ran = await bench.play(worker, {"a": DEAD, "b": DEAD, "on_error": DEAD})
        assert {"on_error", "on_end"} <= set(ran)
        assert await bench.state("next") == State.SKIPPED
        assert (await bench.graph()).culprit == "a"

    async def test_a_workflow_that_was_stopped_fails_though_its_end_asks_for_nothing(self, bench: Bench) -> None:
        plan = GraphDraft(fail_fast=True).job("a").job("a2", "a").job("b").end(done("a2"), done("b"))
        await bench.submit(plan)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.drain()
        assert await bench.state("b") == State.CANCELLED
        end = await bench.job("g")
        assert (end.state, end.reason, end.error) == (State.FAILED, "t a failed", (await bench.job("a")).error)

    async def test_callbacks_of_the_workflow_run_after_it_was_stopped(self, bench: Bench) -> None:
        await bench.submit(aftermath(group("a", "b", "c", fail_fast=True)))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        assert sorted(await bench.play(worker)) == ["on_end", "on_error"]

    async def test_a_neighbour_that_runs_may_still_succeed(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", fail_fast=True))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await worker.settle(b, value("b"))
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["failed", "succeeded", "failed"]
