"""Whom a node blames that did not come to run: its culprit and its reason."""

from __future__ import annotations

import pytest

from windlass.core.graph import because
from windlass.core.job import State
from windlass.core.lifecycle import Outcome, crash_error
from windlass.core.links import Inject
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import START, Bench
from windlass.testing.conformance.graph_drafts import (
    GraphDraft,
    callbacks,
    chain,
    chord,
    failure,
    group,
)
from windlass.testing.conformance.graph_spread import succeed
from windlass.testing.conformance.outcomes import DEAD, DONE


class BlameRules:
    """Whatever did not happen says because of whom."""

    async def test_a_skipped_job_names_the_job_that_failed(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a", task="shop.charge").job("b", "a").job("c", "b").end("c"))
        worker = await bench.worker(declares={"shop.charge": Declared()})
        await worker.settle(await worker.take("a"), DEAD)
        for id in "bc":
            job = await bench.job(id)
            reason = because("shop.charge", "a", State.FAILED)
            assert (job.state, job.reason, job.finished_at) == (State.SKIPPED, reason, START)
            assert (job.error, job.result, job.epoch, job.started_at) == (None, None, 0, 0)

    async def test_a_cancelled_job_is_named_as_such(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        await bench.change(Action.CANCEL, "a", reason="enough")
        assert (await bench.job("b")).reason == because("t", "a", State.CANCELLED) == "t a was cancelled"
        info = await bench.graph()
        assert (info.state, info.culprit, info.reason) == (State.FAILED, "a", "t a was cancelled")

    async def test_a_callback_for_failures_says_that_its_job_succeeded(self, bench: Bench) -> None:
        await bench.submit(callbacks())
        await succeed(bench)
        assert (await bench.job("f")).reason == because("t", "a", State.SUCCEEDED) == "t a succeeded"

    async def test_a_failed_join_takes_over_the_reason_and_the_error_of_the_culprit(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        error = (await bench.job("b")).error
        assert error is not None
        for id in ("j", "g"):
            join = await bench.job(id)
            assert (join.state, join.reason, join.error) == (State.FAILED, "t b failed", error)
            assert (join.result, join.finished_at) == (None, START)

    async def test_the_first_to_break_an_edge_is_the_culprit(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c"))
        worker = await bench.worker()
        claims = {claim.id: claim for claim in await worker.claim()}
        await worker.settle(claims["b"], DONE)
        await worker.settle(claims["c"], DEAD)
        await worker.settle(claims["a"], DEAD)
        info = await bench.graph()
        assert (info.state, info.culprit, info.reason) == (State.FAILED, "c", "t c failed")

    async def test_a_failure_that_was_spared_is_no_culprit_of_a_success(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", spare=1))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        info = await bench.graph()
        assert (info.state, info.reason) == (State.SUCCEEDED, "")
        assert (await bench.job("g")).error is None

    async def test_a_failure_that_was_spared_is_not_to_blame_for_what_comes_of_the_success(self, bench: Bench) -> None:
        plan = group("a", "b", spare=1).job("on_error", failure("g", Inject.NONE), aftermath=True)
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        job = await bench.job("on_error")
        assert (job.state, job.reason) == (State.SKIPPED, because("", "g", State.SUCCEEDED))

    async def test_a_job_that_ran_and_failed_is_the_culprit_itself(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a", spare=1).job("c", "b").end("c"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "b": DEAD})
        assert (await bench.job("c")).reason == "t b failed", "a was spared"
        assert (await bench.graph()).culprit == "b"

    async def test_the_culprit_of_a_workflow_is_a_job_however_deep(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").join("j1", "a").job("b", "j1").join("j2", "b").job("c", "j2").end("c")
        await bench.submit(plan)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        info = await bench.graph()
        assert (info.state, info.culprit, info.reason) == (State.FAILED, "a", "t a failed")
        assert (await bench.job("g")).error == (await bench.job("a")).error

    async def test_the_end_tells_of_a_quarantine(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a", max_crashes=1).job("b", "a").end("b"))
        await bench.crash("a", worker="w9")
        end = await bench.job("g")
        assert (end.state, end.reason, end.error) == (State.FAILED, "t a failed", crash_error(1, "w9"))

    async def test_every_skip_is_an_event(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        assert await bench.kinds("b") == ["enqueued", "skipped"]
        assert await bench.kinds("c") == ["enqueued", "skipped"]
        [event] = [event for event in await bench.events() if event.kind == "skipped" and event.job == "b"]
        assert (event.task, event.queue) == ("t", "q")

    @pytest.mark.parametrize(
        ("outcome", "kind", "state"), [(DONE, "workflow_succeeded", "succeeded"), (DEAD, "workflow_failed", "failed")]
    )
    async def test_the_end_of_a_workflow_is_an_event(
        self, bench: Bench, outcome: Outcome, kind: str, state: str
    ) -> None:
        await bench.submit(chain("a", name="nightly"))
        bench.clock.advance(700)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        [event] = [event for event in await bench.events() if event.kind == kind]
        assert (event.job, event.task, event.queue, event.at) == ("g", "nightly", "", START + 700)
        assert event.data == ({"reason": "t a failed"} if state == "failed" else None)
        info = await bench.graph()
        assert (info.state, info.finished_at, info.created_at) == (state, START + 700, START)

    async def test_joins_have_no_events(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        events = await bench.events()
        assert [event.kind for event in events if event.job == "j"] == []
        assert [event.kind for event in events if event.job == "g"] == ["workflow_started", "workflow_failed"]
