"""Audits of graphs: what is done when a part of a workflow was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Adopted
from windlass.core.links import WIDTH
from windlass.store.base import Store
from windlass.testing.conformance.bench import MakeBench
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, chord, done, fan_out, group
from windlass.testing.conformance.outcomes import DEAD

Lose = Callable[[Store, str], Awaitable[None]]
"""Removes the record of a waiting job behind the store's back."""


class AuditRules:
    """A workflow that cannot go on is a bug or a loss, and is put right all the same."""

    @pytest.fixture
    def lose(self) -> Lose:
        """To be overridden by an engine that can be robbed of a record."""
        pytest.skip("this engine's test file does not say how to lose a record: override the fixture `lose`")

    async def test_a_workflow_that_lost_a_job_is_repaired(self, make_bench: MakeBench, lose: Lose) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(chain("a", "b", "c"))
        await lose(bench.store, "b")
        worker = await bench.worker()
        assert await bench.play(worker) == ["a"]
        assert (await bench.graph()).state is State.WAITING, "nobody can know yet"
        replies = await bench.passes(45_000, worker)
        await bench.drain()
        assert [id for reply in replies for id in reply.repaired] == ["g"]
        assert await bench.states("a", "c", "g") == ["succeeded", "skipped", "failed"]
        assert (await bench.graph()).state is State.FAILED
        assert (await bench.kinds("g")) == ["workflow_started", "workflow_repaired", "workflow_failed"]

    async def test_what_asks_for_nothing_runs_behind_a_lost_job(self, make_bench: MakeBench, lose: Lose) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(GraphDraft().job("a").job("b", "a").job("c", done("b")).end("c"))
        await lose(bench.store, "b")
        worker = await bench.worker()
        await bench.play(worker)
        await bench.passes(45_000, worker)
        assert await bench.play(worker) == ["c"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_lost_join_is_repaired(self, make_bench: MakeBench, lose: Lose) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(chord("a", "b"))
        await lose(bench.store, "j")
        worker = await bench.worker()
        await bench.play(worker)
        replies = await bench.passes(45_000, worker)
        await bench.drain()
        assert [id for reply in replies for id in reply.repaired] == ["g"]
        assert await bench.states("body", "g") == ["skipped", "failed"]

    async def test_a_workflow_with_live_jobs_is_left_alone(self, make_bench: MakeBench) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(GraphDraft("g1").job("a", delay=600_000).job("b", "a").end("b"))
        await bench.submit(chain("x", "y", id="g2"))
        await bench.submit(GraphDraft("g3").job("z", queue="nobody").end("z"))
        worker = await bench.worker()
        claim = await worker.take("x")
        replies = await bench.passes(90_000, worker)
        assert not any(reply.repaired for reply in replies)
        await worker.finish(claim)
        assert await bench.play(worker) == ["y"]

    async def test_a_workflow_that_waits_for_a_graph_is_left_alone(self, make_bench: MakeBench) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(chain("p", "next"))
        worker = await bench.worker()
        claim = await worker.take("p")
        await bench.stage(GraphDraft("c", parent="p").job("a", queue="inner").end("a"))
        await worker.settle(claim, Adopted("c"))
        replies = await bench.passes(90_000, worker)
        assert not any(reply.repaired for reply in replies)
        assert await bench.states("p", "next", "g", "a") == ["waiting", "waiting", "waiting", "ready"]

    async def test_a_workflow_that_is_over_is_left_alone(self, make_bench: MakeBench) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(group("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        replies = await bench.passes(90_000, worker)
        assert not any(reply.repaired for reply in replies)
        assert all(reply.next_check != 0 for reply in replies)

    async def test_an_end_in_the_step_of_the_audit_is_no_hang(self, make_bench: MakeBench) -> None:
        """Its last live job expires in the very sweep that looks at the workflow, and fails it fast."""
        bench = await make_bench(audit_every=60_000)
        plan = GraphDraft(fail_fast=True).job("a", expires_in=60_000, expire_to=State.FAILED).job("b", "a").end("b")
        await bench.submit(plan)
        bench.clock.advance(60_001)
        assert (await bench.store.sweep()).repaired == []
        await bench.drain()
        assert "workflow_repaired" not in await bench.kinds("g")
        info = await bench.graph()
        assert (info.state, info.stopping, info.culprit) == (State.FAILED, "fail", "a")

    async def test_next_check_tells_of_the_next_audit(self, make_bench: MakeBench) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(chain("a"))
        await bench.drain()
        assert 0 < (await bench.store.sweep()).next_check <= 20_000
        bench.clock.advance(20_001)
        await bench.drain()
        assert 0 < (await bench.store.sweep()).next_check <= 20_000, "the audit was made, and the next is ahead"

    async def test_a_big_workflow_is_audited_in_steps(self, make_bench: MakeBench, lose: Lose) -> None:
        bench = await make_bench(audit_every=20_000)
        await bench.submit(fan_out(4 * WIDTH))
        await bench.drain()
        for n in range(4):
            await lose(bench.store, f"out{n}")
        worker = await bench.worker()
        assert await bench.play(worker) == ["root"]
        for _ in range(9):
            await bench.passes(5_000, worker)
            await bench.drain()
        info = await bench.graph()
        assert (info.state, info.counts.get("skipped")) == (State.FAILED, 4 * WIDTH)
