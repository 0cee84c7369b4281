"""Retrying and deleting workflows as wholes."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.links import Inject, Shape
from windlass.store.answers import Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import Bench
from windlass.testing.conformance.graph_drafts import (
    GraphDraft,
    chain,
    chord,
    diamond,
    done,
    failure,
    wide_group,
)
from windlass.testing.conformance.graph_stop import aftermath
from windlass.testing.conformance.outcomes import DEAD, DONE, STOPPED


class WorkflowRetryRules:
    """``change(RETRY)`` on the id of a workflow, or in one that was stopped."""

    async def test_the_failed_part_of_a_workflow_is_retried(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("c").job("a2", "a").job("b2", "b")
        await bench.submit(plan.end("a2", "b2", "c", shape=Shape.MANY))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "b": STOPPED})
        reply = await bench.change(Action.RETRY, "g")
        assert (reply.changed, reply.skipped) == (["g"], {})
        await bench.drain()
        assert await bench.states("a", "b", "c", "a2", "b2", "g") == [
            "ready", "ready", "succeeded", "waiting", "waiting", "waiting",
        ]  # fmt: skip
        assert sorted(await bench.play(worker)) == ["a", "a2", "b", "b2"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_cancelled_workflow_is_retried(self, bench: Bench) -> None:
        await bench.submit(diamond())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await bench.change(Action.CANCEL, "g", reason="enough")
        await bench.drain()
        assert await bench.states("a", "b", "c", "d", "g") == ["succeeded", *["cancelled"] * 4]
        await bench.change(Action.RETRY, "g")
        await bench.drain()
        info = await bench.graph()
        assert (info.state, info.stopping, info.reason, info.culprit) == (State.WAITING, "", "", "")
        assert await bench.states("a", "b", "c", "d", "g") == ["succeeded", "ready", "ready", "waiting", "waiting"]
        assert await bench.play(worker) == ["b", "c", "d"]
        info = await bench.graph()
        assert (info.state, {state: n for state, n in info.counts.items() if n}) == (State.SUCCEEDED, {"succeeded": 4})

    async def test_a_workflow_cancelled_from_its_start_is_retried(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await bench.change(Action.RETRY, "g")
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_workflow_stopped_by_its_first_failure_is_retried(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", fail_fast=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.drain()
        assert await bench.states("a", "b", "c", "body", "g") == ["failed", *["cancelled"] * 3, "failed"]
        await bench.change(Action.RETRY, "g")
        assert await bench.play(worker) == ["a", "b", "c", "body"]
        info = await bench.graph()
        assert (info.state, info.stopping) == (State.SUCCEEDED, "")

    async def test_to_retry_a_member_of_a_stopped_workflow_is_to_retry_it_all(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", fail_fast=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.drain()
        assert (await bench.change(Action.RETRY, "a")).changed == ["a"]
        assert await bench.play(worker) == ["a", "b", "c", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_retried_member_of_a_stopped_workflow_waits_for_those_before_it(self, bench: Bench) -> None:
        await bench.submit(diamond())
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await bench.change(Action.RETRY, "d")
        await bench.drain()
        assert await bench.states("a", "b", "c", "d", "g") == ["ready", *["waiting"] * 4]
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c", "d"]

    async def test_a_failed_callback_is_not_retried_with_its_workflow(self, bench: Bench) -> None:
        """It is about an end that is being undone."""
        await bench.submit(aftermath(chain("a", "b")))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "on_error": DEAD})
        await bench.change(Action.RETRY, "g")
        assert await bench.play(worker) == ["a", "b", "then"]
        assert await bench.states("g", "on_error") == ["succeeded", "failed"]

    async def test_a_retried_workflow_can_be_cancelled_again(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await bench.change(Action.RETRY, "g")
        await bench.drain()
        await bench.change(Action.CANCEL, "g", reason="again")
        await bench.drain()
        info = await bench.graph()
        assert (info.state, info.reason) == (State.CANCELLED, "again")
        assert await bench.states("a", "b") == ["cancelled", "cancelled"]

    async def test_a_cancelled_callback_that_can_no_longer_run_is_skipped_in_the_end(self, bench: Bench) -> None:
        """Its edge was broken by a success after it had been cancelled, so nothing will ever reopen it."""
        await bench.submit(GraphDraft().job("a").job("f", failure("a")).job("b", "a").end("b", done("f", Inject.NONE)))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.CANCEL, "g")
        await worker.settle(claim, DONE)
        await bench.drain()
        assert await bench.states("a", "f", "b", "g") == ["succeeded", "cancelled", "cancelled", "cancelled"]
        await bench.change(Action.RETRY, "g")
        assert await bench.play(worker) == ["b"]
        assert await bench.states("a", "f", "b", "g") == ["succeeded", "skipped", "succeeded", "succeeded"]

    @pytest.mark.parametrize("order", ["af", "fa"])
    async def test_a_retried_callback_waits_again_for_its_job(self, bench: Bench, order: str) -> None:
        """Whichever comes first among the nodes. Else it would run while the job does, about a failure being undone."""
        plan = GraphDraft()
        for id in order:
            plan.job(id, *([failure("a")] if id == "f" else []))
        await bench.submit(plan.job("b").end("a", done("f", Inject.NONE), "b"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await bench.change(Action.CANCEL, "g")
        await worker.settle(b, STOPPED)
        await bench.drain()
        assert await bench.states("a", "f", "b", "g") == ["failed", "cancelled", "cancelled", "cancelled"]
        await bench.change(Action.RETRY, "g")
        await bench.drain()
        assert await bench.states("a", "f", "b", "g") == ["ready", "waiting", "ready", "waiting"]
        assert await bench.play(worker) == ["a", "b"]
        assert await bench.states("a", "f", "b", "g") == ["succeeded", "skipped", "succeeded", "succeeded"]

    async def test_a_big_workflow_is_cancelled_and_retried_while_it_is_being_retried(self, bench: Bench) -> None:
        """What the first retry has left to do and what the second has must not wait for each other."""
        await bench.submit(wide_group())
        await bench.change(Action.CANCEL, "g")
        for _ in range(3):
            await bench.drain()
            assert (await bench.graph()).state is State.CANCELLED
            await bench.change(Action.RETRY, "g")
            await bench.change(Action.CANCEL, "g")
            while (await bench.change(Action.RETRY, "g")).skipped:
                await bench.store.sweep()
            await bench.drain()
            assert await bench.counts() == {"ready": 1_200}
            await bench.change(Action.CANCEL, "g")

    async def test_a_workflow_that_succeeded_or_is_under_way_is_not_retried(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        assert (await bench.change(Action.RETRY, "g")).skipped == {"g": "waiting"}
        worker = await bench.worker()
        await bench.play(worker)
        assert (await bench.change(Action.RETRY, "g")).skipped == {"g": "succeeded"}
        assert await worker.claim() == []

    async def test_a_big_workflow_is_retried_step_by_step(self, bench: Bench) -> None:
        await bench.submit(wide_group())
        await bench.drain()
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await bench.change(Action.RETRY, "g")
        assert (await bench.counts()).get("cancelled", 0) > 0, "a change touches only so many"
        await bench.drain()
        assert await bench.counts() == {"ready": 1_200}
        worker = await bench.worker()
        assert len(await bench.play(worker, total=400)) == 1_200
        assert (await bench.graph()).state is State.SUCCEEDED


class DeleteRules:
    """``change(DELETE)`` of a workflow and of its members."""

    async def test_a_workflow_is_deleted_as_a_whole(self, bench: Bench) -> None:
        plan = aftermath(chord("a", "b"))
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker)
        reply = await bench.change(Action.DELETE, "g")
        assert (reply.changed, reply.skipped) == (["g"], {})
        await bench.drain()
        assert await bench.states(*plan.ids) == [None] * len(plan.ids)
        assert await bench.store.graph("g") is None
        assert await bench.store.members("g") == []
        assert (await bench.store.graphs()).graphs == []
        assert await bench.counts() == {}
        assert (await bench.stage(plan, commit=True)).status is Accept.ACCEPTED, "its ids are free again"
        assert sorted(await bench.play(worker)) == ["a", "b", "body", "on_end", "then"]

    async def test_a_workflow_under_way_is_not_deleted(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        assert (await bench.change(Action.DELETE, "g")).skipped == {"g": "waiting"}
        assert await bench.states("a", "b", "g") == ["ready", "waiting", "waiting"]

    async def test_a_member_of_a_workflow_under_way_is_not_deleted(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        reply = await bench.change(Action.DELETE, "a", "b", "c")
        assert (reply.changed, set(reply.skipped)) == ([], {"a", "b", "c"})
        assert await bench.play(worker) == ["b", "c"]

    async def test_a_member_of_a_workflow_that_is_over_is_deleted(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await bench.play(worker)
        assert (await bench.change(Action.DELETE, "a")).changed == ["a"]
        assert await bench.states("a", "b", "g") == [None, "succeeded", "succeeded"]
        assert [job.id for job in await bench.store.members("g")] == ["b", "g"]

    async def test_a_failed_workflow_with_a_deleted_member_still_ends_when_retried(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.change(Action.DELETE, "body")
        await bench.change(Action.RETRY, "b")
        assert await bench.play(worker) == ["b"]
        assert await bench.state("j") == State.SUCCEEDED

    async def test_a_big_workflow_is_deleted_step_by_step(self, bench: Bench) -> None:
        await bench.submit(wide_group())
        await bench.drain()
        await bench.change(Action.CANCEL, "g")
        await bench.drain()
        await bench.change(Action.DELETE, "g")
        assert (await bench.counts()).get("cancelled", 0) > 0, "a change touches only so many"
        await bench.drain()
        assert await bench.counts() == {}
        assert await bench.store.graph("g") is None
