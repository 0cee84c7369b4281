"""What the end of a node means for the nodes behind it: each edge is met or broken, and the last one decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from windlass.core.job import State
from windlass.core.lifecycle import Crashed, Outcome, expired_error
from windlass.core.links import Inject, On, Shape
from windlass.store.jobs import Action, Declared
from windlass.testing.conformance.bench import LEASE, START, Bench, MakeBench, move, value
from windlass.testing.conformance.graph_drafts import (
    After,
    GraphDraft,
    callbacks,
    chain,
    chord,
    diamond,
    done,
    failure,
)
from windlass.testing.conformance.outcomes import BACK, DEAD, DONE, OOPS, RETRY_NOW, SNOOZE, STOPPED

Ending = Callable[[Bench], Awaitable[object]]


async def succeed(bench: Bench) -> None:
    worker = await bench.worker()
    await worker.settle(await worker.take("a"), DONE)


async def fail(bench: Bench) -> None:
    worker = await bench.worker()
    await worker.settle(await worker.take("a"), DEAD)


async def stop(bench: Bench) -> None:
    worker = await bench.worker()
    await worker.settle(await worker.take("a"), STOPPED)


async def cancel(bench: Bench) -> None:
    assert (await bench.change(Action.CANCEL, "a")).changed == ["a"]


async def expire(bench: Bench) -> None:
    bench.clock.advance(4_001)
    await bench.store.sweep()


async def expire_at_a_claim(bench: Bench) -> None:
    worker = await bench.worker()
    bench.clock.advance(4_001)
    assert [claim.id for claim in await worker.claim(1) if claim.id == "a"] == []


async def crash(bench: Bench) -> None:
    await bench.crash("a")


async def die(bench: Bench) -> None:
    worker = await bench.worker("w1")
    await worker.take("a")
    await bench.passes(LEASE + 1)


async def charge_the_last_crash(bench: Bench) -> None:
    worker = await bench.worker()
    await worker.settle(await worker.take("a"), Crashed(OOPS, max_crashes=1))


async def park(bench: Bench) -> None:
    worker = await bench.worker(declares={"other": Declared()})
    assert await worker.claim() == []
    await bench.passes(20_001, worker)


ENDS: dict[str, tuple[Ending, State, list[State]]] = {
    "succeeded": (succeed, State.SUCCEEDED, [State.READY, State.SKIPPED, State.READY]),
    "failed": (fail, State.FAILED, [State.SKIPPED, State.READY, State.READY]),
    "stopped": (stop, State.CANCELLED, [State.SKIPPED, State.SKIPPED, State.READY]),
    "cancelled": (cancel, State.CANCELLED, [State.SKIPPED, State.SKIPPED, State.READY]),
    "expired": (expire, State.CANCELLED, [State.SKIPPED, State.READY, State.READY]),
    "crashed": (crash, State.FAILED, [State.SKIPPED, State.READY, State.READY]),
    "died under": (die, State.FAILED, [State.SKIPPED, State.READY, State.READY]),
    "crashed for the last time": (charge_the_last_crash, State.FAILED, [State.SKIPPED, State.READY, State.READY]),
    "parked": (park, State.FAILED, [State.SKIPPED, State.READY, State.READY]),
}


class SpreadRules:
    """One edge and the end of its source."""

    @pytest.mark.parametrize("how", ENDS)
    async def test_edges_are_met_or_broken_by_every_kind_of_end(self, make_bench: MakeBench, how: str) -> None:
        end, state, behind = ENDS[how]
        bench = await make_bench(unknown_after=20_000)
        await bench.submit(callbacks(max_crashes=1, expires_in=4_000 if how == "expired" else 0))
        await end(bench)
        assert await bench.state("a") == state
        assert await bench.states("s", "f", "d") == behind, f"(success, failure, done) behind a job that {how}"

    async def test_a_job_that_expires_in_a_claim_is_spread_too(self, bench: Bench) -> None:
        await bench.submit(callbacks(expires_in=4_000))
        await expire_at_a_claim(bench)
        await bench.drain()
        assert (await bench.job("a")).reason == "expired"
        assert await bench.state("s") == State.SKIPPED
        assert await bench.state("f") in (State.READY, State.RUNNING)

    async def test_a_job_that_expires_to_failed_meets_a_failure_edge(self, bench: Bench) -> None:
        await bench.submit(callbacks(expires_in=4_000, expire_to=State.FAILED))
        await expire(bench)
        assert await bench.states("a", "s", "f", "d") == ["failed", "skipped", "ready", "ready"]
        assert (await bench.job("a")).error == expired_error()

    async def test_a_skipped_job_meets_only_edges_that_ask_for_nothing(self, bench: Bench) -> None:
        plan = GraphDraft().job("x").job("a", "x").job("s", "a").job("f", failure("a")).job("d", done("a"))
        await bench.submit(plan.end(*(done(id) for id in "sfd")))
        worker = await bench.worker()
        await worker.settle(await worker.take("x"), DEAD)
        assert await bench.states("x", "a", "s", "f", "d") == ["failed", "skipped", "skipped", "skipped", "ready"]

    @pytest.mark.parametrize("outcome", [RETRY_NOW, SNOOZE, BACK], ids=["retry", "snooze", "hand back"])
    async def test_what_is_no_end_decides_nothing(self, bench: Bench, outcome: Outcome) -> None:
        await bench.submit(callbacks())
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        await bench.drain()
        assert await bench.states("s", "f", "d", "g") == ["waiting"] * 4

    async def test_a_small_graph_moves_on_in_the_exchange_that_settled(self, bench: Bench) -> None:
        await bench.submit(diamond())
        worker = await bench.worker()
        claim, ran = await worker.take("a"), []
        for expected in (["b", "c"], ["d"], []):
            settled = [move(claim, value(claim.id)) for claim in worker.held.values()]
            ran.append(sorted(claim.id for claim in (await worker.exchange(settled, want=5)).claims))
            assert ran[-1] == expected
        assert claim.id == "a"
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_chain_runs_in_order(self, bench: Bench) -> None:
        await bench.submit(chain(*"abcde"))
        worker = await bench.worker()
        assert await bench.play(worker) == list("abcde")
        assert await bench.counts() == {"succeeded": 5}

    async def test_a_released_job_wakes_an_idle_worker_of_its_queue(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a", queue="r").end("b"))
        idle = await bench.worker("idle", queues=["r"])
        assert await idle.claim() == []
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await idle.mail.woken()
        assert await idle.ids() == ["b"]

    async def test_a_release_is_by_priority(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("low", "a", priority=1).job("mid", "a").job("high", "a", priority=9)
        await bench.submit(plan.end("low", "mid", "high"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        assert await worker.ids() == ["high", "mid", "low"]

    async def test_a_delay_counts_from_the_release(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a", delay=5_000).end("b"))
        worker = await bench.worker()
        bench.clock.advance(3_000)
        await worker.settle(await worker.take("a"), DONE)
        job = await bench.job("b")
        assert (job.state, job.due_at) == (State.SCHEDULED, START + 8_000)
        bench.clock.advance(5_000)
        assert await worker.ids() == ["b"]

    async def test_an_instant_is_kept_to_if_it_is_still_ahead(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b", "a", at=START + 2_000).job("c", "a", at=START + 9_000)
        await bench.submit(plan.end("b", "c"))
        worker = await bench.worker()
        bench.clock.advance(3_000)
        await worker.settle(await worker.take("a"), DONE)
        assert await bench.states("b", "c") == ["ready", "scheduled"]
        assert (await bench.job("c")).due_at == START + 9_000

    async def test_an_expiry_counts_from_the_release(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a", expires_in=6_000).end("b"))
        worker = await bench.worker()
        claim = await worker.take("a")
        await bench.passes(12_000, worker)
        assert await bench.state("b") == State.WAITING
        await worker.settle(claim, DONE)
        assert (await bench.job("b")).expires_at == START + 18_000
        await bench.passes(6_001, worker)
        job = await bench.job("b")
        assert (job.state, job.reason) == (State.CANCELLED, "expired")

    async def test_a_delay_and_an_expiry_of_the_first_job_count_from_the_commit(self, bench: Bench) -> None:
        plan = GraphDraft().job("a", delay=2_000, expires_in=6_000).end("a")
        await bench.stage(plan)
        bench.clock.advance(1_000)
        await bench.stage(plan, 2, commit=True)
        job = await bench.job("a")
        assert (job.state, job.due_at, job.expires_at) == (State.SCHEDULED, START + 3_000, START + 7_000)

    async def test_a_waiting_job_expires_at_its_instant(self, bench: Bench) -> None:
        await bench.submit(
            GraphDraft().job("a").job("b", "a", expires_at=START + 3_000).job("c", failure("b")).end("b")
        )
        bench.clock.advance(3_001)
        assert (await bench.store.sweep()).expired == 1
        assert await bench.states("a", "b", "c", "g") == ["ready", "cancelled", "ready", "failed"]
        worker = await bench.worker()
        assert sorted(await bench.play(worker)) == ["a", "c"]
        assert await bench.state("b") == State.CANCELLED

    async def test_a_crash_that_is_not_the_last_changes_nothing(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        await bench.crash("a")
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["ready", "waiting", "waiting"]
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b"]

    async def test_a_zombies_end_decides_nothing(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        zombie = await bench.worker("w1")
        old = await zombie.take("a")
        await bench.passes(LEASE + 1)
        heir = await bench.worker("w2")
        new = await heir.take("a")
        assert (await zombie.exchange([move(old, DONE)])).gone
        assert (await heir.exchange([move(old, DEAD)])).refused == ["a"]
        assert await bench.states("b", "g") == ["waiting", "waiting"]
        await heir.settle(new, DONE)
        assert await bench.state("b") == State.READY

    async def test_a_lost_reply_decides_nothing_twice(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c"))
        worker = await bench.worker()
        claims = {claim.id: claim for claim in await worker.claim()}
        for id in "ab":
            await worker.exchange([move(claims[id], value(id))])
            for _ in range(3):
                await worker.resend()
        await bench.drain()
        assert await bench.states("j", "body") == ["waiting", "waiting"]
        await worker.exchange([move(claims["c"], value("c"))], want=1)
        assert [claim.id for claim in (await worker.resend()).claims] == ["body"]
        assert (await bench.job("body")).epoch == 1

    async def test_two_ends_at_once_release_what_is_behind_them_once(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        hands = [await bench.worker("w1"), await bench.worker("w2", store=await bench.connect())]
        claims = [await hand.take() for hand in hands]
        await asyncio.gather(*(hand.exchange([move(claim, DONE)]) for hand, claim in zip(hands, claims, strict=True)))
        assert await bench.play(hands[0]) == ["body"]
        assert (await bench.graph()).state is State.SUCCEEDED
        assert (await bench.kinds("g")).count("workflow_succeeded") == 1


class JoinRules:
    """Many edges into one node."""

    async def test_a_join_is_decided_by_its_last_edge(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c"))
        worker = await bench.worker()
        for claim in await worker.claim():
            assert await bench.states("j", "body") == ["waiting", "waiting"]
            await worker.settle(claim, value(claim.id))
        assert await bench.states("j", "body", "g") == ["succeeded", "ready", "waiting"]

    async def test_a_failed_member_does_not_stop_its_neighbours(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        await bench.drain()
        assert await bench.states("b", "c", "j", "body", "g") == ["ready", "ready", "waiting", "waiting", "waiting"]
        assert await bench.play(worker) == ["b", "c"]
        assert await bench.states("j", "body", "g") == ["failed", "skipped", "failed"]

    @pytest.mark.parametrize(("spare", "failing", "runs"), [(0, 1, False), (1, 1, True), (1, 2, False), (3, 3, True)])
    async def test_so_many_may_fail(self, bench: Bench, spare: int, failing: int, runs: bool) -> None:
        await bench.submit(chord("a", "b", "c", spare=spare))
        worker = await bench.worker()
        ran = await bench.play(worker, dict.fromkeys("abc"[:failing], DEAD))
        assert ("body" in ran) == runs
        assert (await bench.graph()).state is (State.SUCCEEDED if runs else State.FAILED)

    async def test_a_join_with_spare_edges_waits_for_all_of_them(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", spare=2))
        worker = await bench.worker()
        a, b, c = await worker.claim()
        await worker.settle(a, DEAD)
        await worker.settle(b, DONE)
        await bench.drain()
        assert await bench.states("j", "body") == ["waiting", "waiting"]
        await worker.settle(c, DONE)
        assert await bench.states("j", "body") == ["succeeded", "ready"]

    async def test_edges_that_ask_for_nothing_keep_errors(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", on=On.DONE))
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD, "b": STOPPED}) == ["a", "b", "body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_hasty_edge_releases_at_once(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").join("j", done("a", Inject.IF_SUCCEEDED, hasty=True), done("b"))
        await bench.submit(plan.job("p", "j").end("p", done("a", Inject.NONE), done("b", Inject.NONE)))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        assert await bench.states("j", "p", "g") == ["succeeded", "ready", "waiting"]
        await worker.settle(b, DONE)
        assert await bench.states("j", "p", "g") == ["succeeded", "ready", "waiting"]
        assert await bench.play(worker) == ["p"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_hasty_edge_hurries_also_what_is_not_opened_yet(self, bench: Bench) -> None:
        """A workflow so big that something in it is over before all of it has taken its place."""
        plan = GraphDraft().join("e").join("no", failure("e")).job("b")
        for n in range(1_200):
            plan.job(f"m{n:05}", queue="others")
        plan.job("p", done("no", Inject.NONE, hasty=True), done("b")).job("q", "p")
        plan.join("j", done("no", Inject.NONE, hasty=True), done("b"))
        await bench.submit(plan.end("j", "q"))
        await bench.drain()
        assert await bench.states("e", "no", "b", "p", "q", "j") == [
            "succeeded", "failed", "ready", "ready", "waiting", "succeeded",
        ]  # fmt: skip
        worker = await bench.worker()
        assert sorted(await bench.play(worker)) == ["b", "p", "q"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_hasty_edge_is_patient_with_success(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").join("j", done("a", hasty=True), done("b"))
        await bench.submit(plan.job("p", "j").end("p"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DONE)
        await bench.drain()
        assert await bench.states("j", "p") == ["waiting", "waiting"]
        await worker.settle(b, DEAD)
        assert await bench.states("j", "p") == ["succeeded", "ready"]

    async def test_a_hasty_edge_that_breaks_gives_up_at_once(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").join("j", After("a", hasty=True), "b").job("p", "j")
        await bench.submit(plan.end("p"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DEAD)
        assert await bench.states("j", "p", "g") == ["failed", "skipped", "failed"]
        await worker.settle(b, DONE)
        await bench.drain()
        assert await bench.states("j", "p", "g") == ["failed", "skipped", "failed"]
        assert (await bench.kinds("g")) == ["workflow_started", "workflow_failed"]

    async def test_a_job_may_have_several_edges(self, bench: Bench) -> None:
        await bench.submit(
            GraphDraft().job("a").job("b").job("c", "a", "b").job("d", "a", "b", spare=1).end("c", done("d"))
        )
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, DONE)
        assert await bench.states("c", "d") == ["waiting", "waiting"]
        await worker.settle(b, DEAD)
        assert await bench.states("c", "d") == ["skipped", "ready"]

    async def test_a_node_may_have_two_edges_from_one_source(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").join("j", "a", done("a", Inject.NONE)).job("b", "j").end("b")
        await bench.submit(plan)
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b"]

    async def test_joins_follow_joins_in_one_step(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").join("j1", "a").join("j2", "j1", shape=Shape.ONE).join("j3", "j2").end("j3")
        await bench.submit(plan)
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        assert await bench.states("j1", "j2", "j3", "g") == ["succeeded"] * 4

    async def test_skips_follow_skips_in_one_step(self, bench: Bench) -> None:
        await bench.submit(chain(*"abcde"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        assert await bench.states(*"abcde", "g") == ["failed", *["skipped"] * 4, "failed"]

    async def test_a_graph_goes_on_where_it_is_not_broken(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("a2", "a").job("b2", "b").end("a2", "b2", shape=Shape.MANY)
        await bench.submit(plan)
        worker = await bench.worker()
        assert await bench.play(worker, {"a": DEAD}) == ["a", "b", "b2"]
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "a")
