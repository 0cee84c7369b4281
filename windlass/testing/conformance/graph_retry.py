"""Retrying a part of a workflow: nodes that were given up wait again, and jobs that ran do not run twice."""

from __future__ import annotations

from windlass.core.job import State
from windlass.core.links import On, Shape
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import START, Bench, move, value
from windlass.testing.conformance.graph_drafts import (
    After,
    GraphDraft,
    callbacks,
    chain,
    chord,
    diamond,
    group,
)
from windlass.testing.conformance.graph_stop import aftermath
from windlass.testing.conformance.outcomes import DEAD, DONE, STOPPED


class ReopenRules:
    """``change(RETRY)`` on a member."""

    async def test_a_retry_reopens_what_was_given_up(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        assert await bench.states("a", "b", "c", "g") == ["succeeded", "failed", "skipped", "failed"]
        bench.clock.advance(500)
        assert (await bench.change(Action.RETRY, "b")).changed == ["b"]
        assert await bench.states("a", "b", "c", "g") == ["succeeded", "ready", "waiting", "waiting"]
        for id, run in [("a", 1), ("b", 2), ("c", 2), ("g", 2)]:
            assert (await bench.job(id)).run == run, f"run of {id}"
        for id in ("c", "g"):
            job = await bench.job(id)
            assert (job.reason, job.error, job.finished_at) == ("", None, 0)
        info = await bench.graph()
        assert (info.state, info.reason, info.culprit, info.finished_at) == (State.WAITING, "", "", 0)
        assert {state: n for state, n in info.counts.items() if n} == {"succeeded": 1}
        assert await bench.play(worker) == ["b", "c"]
        info = await bench.graph()
        assert (info.state, info.finished_at) == (State.SUCCEEDED, START + 500)
        assert {state: n for state, n in info.counts.items() if n} == {"succeeded": 3}
        assert await bench.counts() == {"succeeded": 3}
        assert (await bench.kinds("g"))[-2:] == ["workflow_failed", "workflow_succeeded"]

    async def test_a_retry_that_fails_again_gives_up_again(self, bench: Bench) -> None:
        await bench.submit(diamond())
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        for run in (2, 3, 4):
            await bench.change(Action.RETRY, "b")
            await bench.drain()
            assert await bench.states("b", "c", "k", "d", "g") == ["ready", "succeeded", *["waiting"] * 3]
            assert await bench.play(worker, {"b": DEAD}) == ["b"]
            assert await bench.states("b", "c", "k", "d", "g") == ["failed", "succeeded", "failed", "skipped", "failed"]
            assert [(await bench.job(id)).run for id in ("b", "k", "d", "g")] == [run] * 4
        await bench.change(Action.RETRY, "b")
        assert await bench.play(worker) == ["b", "d"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_the_value_of_the_new_run_is_handed_on(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        await bench.change(Action.RETRY, "a")
        await worker.settle(await worker.take("a"), value("again"))
        claim = await worker.take("b")
        assert (claim.given, claim.run) == (b'"again"', 2)

    async def test_only_what_hung_on_the_retried_job_is_reopened(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("a2", "a").job("b2", "b").end("a2", "b2", shape=Shape.MANY)
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "b": DEAD})
        await bench.change(Action.RETRY, "a")
        await bench.drain()
        assert await bench.states("a", "a2", "b", "b2", "g") == ["ready", "waiting", "failed", "skipped", "waiting"]
        assert await bench.play(worker) == ["a", "a2"]
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "b"), "the other failure is still there"

    async def test_nested_levels_are_reopened(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").join("j1", "a").job("b", "j1").join("j2", "b").job("c", "j2").end("c")
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        await bench.change(Action.RETRY, "a")
        assert await bench.states("a", "j1", "b", "j2", "c", "g") == ["ready", *["waiting"] * 5]
        assert await bench.play(worker) == ["a", "b", "c"]

    async def test_a_retry_while_the_neighbours_still_run(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await bench.change(Action.RETRY, "a")
        await worker.settle(b, value("b"))
        await bench.drain()
        assert await bench.states("a", "j", "body") == ["ready", "waiting", "waiting"]
        assert await bench.play(worker) == ["a", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_what_ran_does_not_run_twice(self, bench: Bench) -> None:
        await bench.submit(callbacks())
        worker = await bench.worker()
        assert sorted(await bench.play(worker, {"a": DEAD})) == ["a", "d", "f"]
        await bench.change(Action.RETRY, "a")
        await bench.drain()
        assert await bench.states("s", "f", "d") == ["waiting", "succeeded", "succeeded"]
        assert await bench.play(worker) == ["a", "s"]
        assert [(await bench.job(id)).run for id in "sfd"] == [2, 1, 1]

    async def test_a_body_that_ran_with_errors_stays(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", on=On.DONE))
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD}) == ["a", "b", "body"]
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker) == ["a"]
        assert await bench.states("a", "body", "g") == ["succeeded", "succeeded", "succeeded"]

    async def test_a_body_that_ran_by_spare_edges_stays(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", spare=1))
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD}) == ["a", "b", "body"]
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker, {"a": DEAD}) == ["a"]
        assert await bench.states("a", "body", "g") == ["failed", "succeeded", "succeeded"]
        assert (await bench.job("body")).run == 1

    async def test_a_join_that_lacked_two_waits_for_the_one_that_is_tried_again(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", spare=1))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "b": DEAD})
        assert await bench.state("j") == State.FAILED
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker) == ["a", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_the_culprit_is_found_anew(self, bench: Bench) -> None:
        await bench.submit(group("a", "b"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await worker.settle(b, DONE)
        assert (await bench.graph()).culprit == "a"
        await bench.change(Action.RETRY, "a")
        await bench.change(Action.CANCEL, "a", reason="never mind")
        await bench.drain()
        info = await bench.graph()
        assert (info.state, info.culprit, info.reason) == (State.FAILED, "a", "t a was cancelled")

    async def test_a_succeeded_member_may_be_run_again_alone(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await bench.play(worker)
        assert (await bench.change(Action.RETRY, "a")).changed == ["a"]
        assert await bench.play(worker) == ["a"]
        assert await bench.states("a", "b", "g") == ["succeeded"] * 3
        info = await bench.graph()
        assert {state: n for state, n in info.counts.items() if n} == {"succeeded": 2}

    async def test_a_success_undone_by_a_failure_runs_the_callback_for_failures(self, bench: Bench) -> None:
        await bench.submit(callbacks())
        worker = await bench.worker()
        await bench.play(worker)
        assert await bench.state("f") == State.SKIPPED
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker, {"a": DEAD}) == ["a", "f"]
        assert await bench.states("a", "s", "f", "d") == ["failed", "succeeded", "succeeded", "succeeded"]

    async def test_a_cancelled_member_is_retried_in_its_place(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b", "c"))
        await bench.change(Action.CANCEL, "b")
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.change(Action.RETRY, "b")
        await bench.drain()
        assert await bench.states("a", "b", "c", "g") == ["running", "waiting", "waiting", "waiting"], "a is not over"
        await worker.settle(claim, DONE)
        assert await bench.play(worker) == ["b", "c"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_cancelled_member_whose_edges_are_met_is_ready(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await bench.change(Action.CANCEL, "b")
        await bench.change(Action.RETRY, "b")
        assert await bench.state("b") == State.READY
        assert await bench.play(worker) == ["b"]

    async def test_a_skipped_job_cannot_be_retried(self, bench: Bench) -> None:
        await bench.submit(chain("first", "b", "c"))
        worker = await bench.worker()
        await bench.play(worker, {"first": DEAD})
        reply = await bench.change(Action.RETRY, "b", "c")
        assert reply.changed == []
        assert set(reply.skipped) == {"b", "c"}
        assert all("first" in reason for reason in reply.skipped.values()), f"say which one instead: {reply.skipped}"
        assert await bench.states("b", "c", "g") == ["skipped", "skipped", "failed"]

    async def test_a_job_that_lacks_what_it_needs_cannot_be_retried(self, bench: Bench) -> None:
        """It was cancelled and not skipped; what it was to be given is missing all the same."""
        await bench.submit(chain("a", "b"))
        await bench.change(Action.CANCEL, "b")
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        assert (await bench.change(Action.RETRY, "b")).skipped == {"b": "cancelled; retry a instead"}
        await bench.change(Action.RETRY, "a")
        await bench.change(Action.RETRY, "b")
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["ready", "waiting", "waiting"]
        assert await bench.play(worker) == ["a", "b"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_retried_job_waits_for_one_before_it_that_runs_again(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.change(Action.RETRY, "a")
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["ready", "failed", "failed"], "b has had its run"
        await bench.change(Action.RETRY, "b")
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["ready", "waiting", "waiting"]
        claim = await worker.take("a")
        await worker.settle(claim, value("again"))
        assert (await worker.take("b")).given == b'"again"'

    async def test_a_success_undone_by_a_failure_counts_for_what_was_given_up(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker, {"a": DEAD}) == ["a"]
        await bench.change(Action.RETRY, "b")
        assert await bench.play(worker) == ["b"], "the body would lack the value of a"
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "a")
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker) == ["a", "body"]

    async def test_who_was_cancelled_while_it_waited_is_to_blame_itself(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b").job("t", "a", "b").job("u", "t").end("u"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await bench.change(Action.CANCEL, "t")
        await worker.settle(b, DONE)
        await bench.drain()
        assert (await bench.job("u")).reason == "t t was cancelled"
        assert (await bench.graph()).culprit == "t"

    async def test_who_was_retried_is_to_blame_itself(self, bench: Bench) -> None:
        """Before, it had been given up because of another."""
        await bench.submit(GraphDraft(fail_fast=True).job("a").job("b", "a").end("b"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        await bench.change(Action.RETRY, "g")
        await bench.play(worker, {"b": DEAD})
        await bench.submit(GraphDraft("h").job("c").job("d", "c").job("e", "d").end("e"))
        await bench.change(Action.CANCEL, "d")
        await bench.play(worker, {"c": DEAD})
        await bench.change(Action.RETRY, "c")
        await bench.change(Action.RETRY, "d")
        await bench.play(worker, {"d": DEAD})
        assert [(await bench.graph(id)).culprit for id in ("g", "h")] == ["b", "d"]
        assert (await bench.job("e")).reason == "t d failed"

    async def test_several_failed_members_are_retried_in_one_call(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD, "b": DEAD, "c": STOPPED})
        assert sorted((await bench.change(Action.RETRY, "a", "b", "c")).changed) == ["a", "b", "c"]
        assert await bench.play(worker) == ["a", "b", "c", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_hasty_edge_gives_up_again(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").join("j", After("a", hasty=True), "b").job("p", "j").end("p")
        await bench.submit(plan)
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        await bench.change(Action.RETRY, "a")
        await bench.drain()
        assert await bench.states("a", "j", "p", "g") == ["ready", "waiting", "waiting", "waiting"]
        await worker.settle(await worker.take("a"), DEAD)
        assert await bench.states("a", "b", "j", "p", "g") == ["failed", "running", "failed", "skipped", "failed"]
        await worker.settle(b, DONE)
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker) == ["a", "p"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_retried_delay_counts_from_the_new_release(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a", delay=5_000).end("b"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        bench.clock.advance(1_000)
        await bench.change(Action.RETRY, "a")
        await bench.play(worker)
        job = await bench.job("b")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 6_000)

    async def test_callbacks_of_the_workflow_that_were_skipped_wait_again(self, bench: Bench) -> None:
        await bench.submit(aftermath(chain("a")))
        worker = await bench.worker()
        assert sorted(await bench.play(worker, {"a": DEAD})) == ["a", "on_end", "on_error"]
        await bench.change(Action.RETRY, "a")
        assert await bench.play(worker) == ["a", "then"], "the others have run"
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_failed_callback_of_the_workflow_is_retried_alone(self, bench: Bench) -> None:
        await bench.submit(aftermath(chain("a")))
        worker = await bench.worker()
        await bench.play(worker, {"then": DEAD})
        await bench.change(Action.RETRY, "then")
        assert await bench.play(worker) == ["then"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_fence_of_the_run_before_decides_nothing(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        old = await worker.take("a")
        await worker.settle(old, DEAD)
        await bench.change(Action.RETRY, "a")
        assert (await worker.exchange([move(old, DONE)])).refused == ["a"]
        assert await bench.states("a", "b") == ["ready", "waiting"]
