"""Handing in a graph: it is staged in parts that nobody sees, and becomes real in one step or not at all."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest

from windlass.core.job import State
from windlass.core.links import WIDTH, In, Links, Out, Shape
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import START, Bench, MakeBench, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, chord, fan_out, group
from windlass.testing.conformance.outcomes import DEAD


async def nothing_is_seen(bench: Bench, plan: GraphDraft) -> None:
    """Check that no read shows anything of this graph."""
    assert await bench.store.get(plan.ids) == [None] * len(plan.ids)
    assert await bench.store.graph(plan.id) is None
    assert (await bench.store.graphs()).graphs == []
    assert await bench.store.members(plan.id) == []
    assert await bench.store.inputs([plan.id]) == [[]]
    assert [job.id for job in await bench.everything() if job.id in plan.ids] == []
    client = await bench.client()
    assert (await bench.store.watch("client", plan.ids)).missing == plan.ids
    await bench.store.unlisten(client.name)


class StageRules:
    """Parts of a graph before the commit."""

    async def test_a_staged_graph_cannot_be_seen(self, bench: Bench) -> None:
        plan = chain("a", "b")
        answer = await bench.stage(plan)
        assert (answer.status, answer.staged, answer.more) == (Accept.ACCEPTED, 3, False)
        await nothing_is_seen(bench, plan)
        assert await bench.kinds() == []
        worker = await bench.worker()
        assert await worker.claim() == []
        assert await bench.store.queues() == []

    async def test_a_graph_may_come_in_parts(self, bench: Bench) -> None:
        plan = chain("a", "b", "c")
        assert (await bench.stage(plan, 0, 2)).staged == 2
        assert (await bench.stage(plan, 2, 3)).staged == 3
        await nothing_is_seen(bench, plan)
        answer = await bench.stage(plan, 3, commit=True)
        assert (answer.status, answer.staged) == (Accept.ACCEPTED, 4)
        assert await bench.states("a", "b", "c", "g") == ["ready", "waiting", "waiting", "waiting"]

    async def test_a_commit_may_bring_no_nodes(self, bench: Bench) -> None:
        plan = chain("a")
        await bench.stage(plan)
        assert (await bench.store.insert_graph(plan.graph, 2, [], commit=True)).status is Accept.ACCEPTED
        assert await bench.states("a", "g") == ["ready", "waiting"]

    async def test_a_part_may_be_sent_again(self, bench: Bench) -> None:
        plan = chain("a", "b", "c")
        for _ in range(2):
            answer = await bench.stage(plan, 0, 2)
            assert (answer.status, answer.staged) == (Accept.ACCEPTED, 2)
        answer = await bench.stage(plan, 1, 3)
        assert (answer.status, answer.staged) == (Accept.ACCEPTED, 3)
        answer = await bench.stage(plan, 0, commit=True)
        assert (answer.status, answer.staged) == (Accept.ACCEPTED, 4)
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c"]

    async def test_a_missing_part_is_refused_with_where_to_go_on(self, bench: Bench) -> None:
        plan = chain("a", "b", "c")
        answer = await bench.stage(plan, 2, 3)
        assert (answer.status, answer.staged) == (Accept.REFUSED, 0)
        await bench.stage(plan, 0, 1)
        answer = await bench.stage(plan, 2, commit=True)
        assert (answer.status, answer.staged) == (Accept.REFUSED, 1)
        await nothing_is_seen(bench, plan)
        assert (await bench.stage(plan, answer.staged, commit=True)).status is Accept.ACCEPTED
        assert await bench.states("a", "b", "c", "g") == ["ready", "waiting", "waiting", "waiting"]

    async def test_a_commit_with_nodes_missing_is_refused(self, bench: Bench) -> None:
        plan = chain("a", "b")
        answer = await bench.stage(plan, 0, 2, commit=True)
        assert answer.status is Accept.REFUSED
        await nothing_is_seen(bench, plan)

    async def test_another_digest_is_a_conflict_while_staged(self, bench: Bench) -> None:
        plan, other = chain("a", "b"), chain("x", "y")
        await bench.stage(plan, 0, 2)
        answer = await bench.stage(other, 0)
        assert answer.status is Accept.CONFLICT
        assert "g" in answer.reason
        assert await bench.states("x", "y", "a") == [None, None, None]

    async def test_another_digest_is_a_conflict_once_real(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        other = chain("x", "y")
        assert (await bench.stage(other, commit=True)).status is Accept.CONFLICT
        assert await bench.states("a", "b", "x", "y") == ["ready", "waiting", None, None]

    async def test_the_same_graph_again_is_a_duplicate(self, bench: Bench) -> None:
        plan = chain("a", "b")
        await bench.submit(plan)
        for commit in (True, False):
            assert (await bench.stage(plan, commit=commit)).status is Accept.DUPLICATE
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b"]
        assert (await bench.stage(plan, commit=True)).status is Accept.DUPLICATE
        assert await worker.claim() == []
        assert (await bench.kinds()).count("enqueued") == 2
        assert (await bench.kinds()).count("workflow_started") == 1

    @pytest.mark.parametrize("taken", ["a", "b", "g"])
    async def test_a_taken_id_drops_all_of_it(self, bench: Bench, taken: str) -> None:
        await bench.add(taken, queue="elsewhere")
        plan = chain("a", "b")
        await bench.stage(plan, 0, 1)
        answer = await bench.stage(plan, 0, commit=True)
        assert answer.status is Accept.CONFLICT
        assert taken in answer.reason
        assert await bench.states("a", "b", "g") == [State.READY if id == taken else None for id in ("a", "b", "g")]
        assert await bench.store.graph("g") is None
        await bench.change(Action.DELETE, taken)
        refused = await bench.stage(plan, 1, commit=True)
        assert (refused.status, refused.staged) == (Accept.REFUSED, 0), "nothing may be left of what was dropped"
        assert (await bench.stage(plan, 0, commit=True)).status is Accept.ACCEPTED

    async def test_an_id_of_another_graph_is_taken(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        for id in ("a", "j"):
            answer = await bench.stage(chain(id, "z", id="h"), commit=True)
            assert answer.status is Accept.CONFLICT
            assert id in answer.reason
        assert await bench.states("h", "z") == [None, None]

    async def test_an_id_twice_in_one_graph_drops_all_of_it(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("a").end("b")
        answer = await bench.stage(plan, commit=True)
        assert answer.status is Accept.CONFLICT
        assert "a" in answer.reason
        assert await bench.states("a", "b", "g") == [None, None, None]

    async def test_an_id_twice_in_two_parts_drops_all_of_it(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("a").end("b")
        await bench.stage(plan, 0, 2)
        assert (await bench.stage(plan, 2, commit=True)).status is Accept.CONFLICT
        assert await bench.states("a", "b", "g") == [None, None, None]

    async def test_a_job_that_takes_an_id_meanwhile_and_the_graph_are_never_both_there(self, bench: Bench) -> None:
        plan = chain("a", "b")
        await bench.stage(plan)
        [single] = await bench.add("a", payload=b"[0]")
        graph = await bench.stage(plan, 3, commit=True)
        statuses = single.status, graph.status
        assert statuses in [(Accept.ACCEPTED, Accept.CONFLICT), (Accept.CONFLICT, Accept.ACCEPTED)]
        won = graph.status is Accept.ACCEPTED
        assert (await bench.job("a")).graph == ("g" if won else "")
        assert (await bench.store.graph("g") is not None) == won

    async def test_a_job_cannot_have_the_id_of_a_node(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        answers = await bench.add("j", "g", "x")
        assert [answer.status for answer in answers] == [Accept.CONFLICT, Accept.CONFLICT, Accept.ACCEPTED]

    @pytest.mark.parametrize("side", ["in", "out"])
    async def test_too_many_edges_are_refused_and_all_is_dropped(self, bench: Bench, side: str) -> None:
        plan = GraphDraft().job("a").end("a")
        nodes = plan.nodes
        ins, outs = [In(f"x{n}") for n in range(WIDTH + 1)], [Out(f"x{n}") for n in range(WIDTH + 1)]
        links = Links(ins, [], 0, Shape.ONE) if side == "in" else Links([], outs)
        which = 1 if side == "in" else 0
        nodes[which] = msgspec.structs.replace(nodes[which], links=links)
        answer = await bench.store.insert_graph(plan.graph, 0, nodes, commit=True)
        assert answer.status is Accept.REFUSED
        await nothing_is_seen(bench, plan)
        assert (await bench.stage(plan, 1)).staged == 0
        assert (await bench.stage(plan, commit=True)).status is Accept.ACCEPTED

    async def test_nodes_beyond_the_announced_number_are_refused_and_all_is_dropped(self, bench: Bench) -> None:
        plan = chain("a", "b")
        graph = msgspec.structs.replace(plan.graph, nodes=2)
        await bench.store.insert_graph(graph, 0, plan.nodes[:1], commit=False)
        answer = await bench.store.insert_graph(graph, 1, plan.nodes[1:], commit=True)
        assert answer.status is Accept.REFUSED
        await nothing_is_seen(bench, plan)
        assert (await bench.stage(plan, commit=True)).status is Accept.ACCEPTED

    async def test_a_staged_graph_vanishes_when_it_is_not_committed_in_time(self, make_bench: MakeBench) -> None:
        bench = await make_bench(staged_for=10_000)
        plan = chain("a", "b")
        await bench.stage(plan, 0, 1)
        bench.clock.advance(6_000)
        await bench.store.sweep()
        assert (await bench.stage(plan, 1, 2)).staged == 2, "time counts from the last part"
        bench.clock.advance(6_000)
        await bench.store.sweep()
        assert (await bench.stage(plan, 2, 3)).staged == 3
        await bench.passes(10_001)
        await bench.drain()
        answer = await bench.stage(plan, 2, commit=True)
        assert (answer.status, answer.staged) == (Accept.REFUSED, 0)
        assert [answer.status for answer in await bench.add("a", "b", "g")] == [Accept.ACCEPTED] * 3

    async def test_a_committed_graph_does_not_vanish(self, make_bench: MakeBench) -> None:
        bench = await make_bench(staged_for=10_000)
        await bench.submit(chain("a", "b"))
        await bench.passes(30_000)
        assert await bench.states("a", "b", "g") == ["ready", "waiting", "waiting"]

    async def test_several_graphs_are_staged_side_by_side(self, bench: Bench) -> None:
        first, second = chain("a", "b", id="g1"), chain("x", "y", id="g2")
        await bench.stage(first, 0, 2)
        await bench.stage(second, 0, 2)
        await bench.stage(second, 2, commit=True)
        assert await bench.states("a", "x", "g1", "g2") == [None, "ready", None, "waiting"]
        await bench.stage(first, 2, commit=True)
        worker = await bench.worker()
        assert sorted(await bench.play(worker)) == ["a", "b", "x", "y"]

    async def test_the_same_graph_from_two_connections_is_accepted_once(self, bench: Bench) -> None:
        other, plan = await bench.connect(), chord("a", "b", "c")
        answers = await asyncio.gather(
            *(store.insert_graph(plan.graph, 0, plan.nodes, True) for store in (bench.store, other))
        )
        assert sorted(answer.status for answer in answers) == [Accept.ACCEPTED, Accept.DUPLICATE]
        worker = await bench.worker()
        assert sorted(await bench.play(worker)) == ["a", "b", "body", "c"]


class OpenRules:
    """What a committed graph looks like."""

    async def test_an_accepted_graph_counts_in_its_queues(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b", "a", queue="r").job("c", "b", delay=5).job("z", delay=9_000).end("c")
        await bench.submit(plan)
        assert await bench.counts() == {"ready": 1, "waiting": 1, "scheduled": 1}
        assert await bench.counts("r") == {"waiting": 1}
        assert {info.name for info in await bench.store.queues()} == {"q", "r"}, "joins have no queue"

    async def test_jobs_are_accepted_in_order(self, bench: Bench) -> None:
        await bench.submit(chord("c", "a", "b"))
        assert [job.id for job in await bench.everything(oldest_first=True)] == ["c", "a", "b", "body"]
        assert [(await bench.job(id)).enqueued_at for id in ("c", "a", "b", "body")] == [START] * 4
        worker = await bench.worker()
        assert await worker.ids() == ["c", "a", "b"]

    async def test_the_events_of_a_start(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", name="nightly"))
        events = await bench.events()
        assert [event.job for event in events if event.kind == "enqueued"] == ["a", "b", "body"]
        [started] = [event for event in events if event.kind == "workflow_started"]
        assert (started.job, started.task, started.queue) == ("g", "nightly", "")
        assert len(events) == 4

    async def test_a_job_knows_its_graph_and_its_place(self, bench: Bench) -> None:
        plan = chain("a", "b")
        await bench.submit(plan)
        for node, job in zip(plan.nodes, await bench.store.get(["a", "b", "g"]), strict=True):
            assert job is not None
            assert (job.graph, job.links, job.task, job.run) == ("g", node.links, node.task, 1)

    async def test_a_job_of_its_own_has_no_graph(self, bench: Bench) -> None:
        await bench.add("a")
        job, worker = await bench.job("a"), await bench.worker()
        assert (job.graph, job.links, job.awaits, job.replaced) == ("", None, "", False)
        claim = await worker.take("a")
        assert (claim.graph, claim.source, claim.inject, claim.given, claim.awaits) == ("", "", 0, None, "")

    async def test_a_new_graph_wakes_idle_workers(self, bench: Bench) -> None:
        hands = [await bench.worker(f"w{n}") for n in range(3)]
        for hand in hands:
            assert await hand.claim() == []
        await bench.submit(chord("a", "b"))
        for hand in hands:
            await hand.mail.flush()
        assert sorted(hand.mail.wakes for hand in hands) == [0, 1, 1]

    async def test_an_empty_graph_is_over_at_once(self, bench: Bench) -> None:
        client = await bench.client()
        await bench.submit(GraphDraft().end(shape=Shape.MANY))
        info = await bench.graph()
        assert (info.state, info.size, info.nodes, info.finished_at) == (State.SUCCEEDED, 0, 1, START)
        assert (await bench.kinds("g")) == ["workflow_started", "workflow_succeeded"]
        reply = await bench.store.watch(client.name, ["g"])
        assert [(one.state, one.inline) for one in reply.finished] == [(State.SUCCEEDED, False)]
        assert await bench.store.inputs(["g"]) == [[]]

    async def test_a_join_with_no_edges_releases_what_is_behind_it(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().join("j").job("body", "j").end("body"))
        worker = await bench.worker()
        assert await bench.play(worker) == ["body"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_nodes_need_not_be_in_the_order_of_their_edges(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().end("c").job("c", "b").job("b", "a").job("a"))
        worker = await bench.worker()
        assert await bench.play(worker) == ["a", "b", "c"]
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_graph_of_three_thousand_nodes_opens_step_by_step(self, bench: Bench) -> None:
        width, plan = 2_950, fan_out(2_950)
        assert len(plan.added) > 2 * MAX_BATCH
        answer = await bench.submit(plan)
        more = answer.more
        assert more, "it is accepted, and not all of it can be in its queue yet"
        seen = [(await bench.counts()).get("waiting", 0)]
        assert seen[0] < width
        while more:
            assert len(seen) < 100
            answer = await bench.store.insert_graph(plan.graph, len(plan.added), [], commit=True)
            assert answer.status is Accept.DUPLICATE
            more = answer.more
            seen.append((await bench.counts()).get("waiting", 0))
        assert (await bench.counts()) == {"ready": 1, "waiting": width}
        assert max(after - before for before, after in pairwise(seen)) <= MAX_BATCH

    async def test_sweeps_open_a_big_graph_too(self, bench: Bench) -> None:
        await bench.submit(fan_out(1_200))
        assert (await bench.store.sweep()).next_check == 0
        await bench.drain()
        assert await bench.counts() == {"ready": 1, "waiting": 1_200}

    async def test_a_job_that_ends_before_the_rest_is_open_is_not_forgotten(self, bench: Bench) -> None:
        plan = GraphDraft().job("first")
        for n in range(1_200):
            plan.job(f"m{n:05}", delay=3_600_000)
        for n in range(6):
            plan.join(f"in{n}", *(f"m{i:05}" for i in range(n * 200, n * 200 + 200)))
        plan.job("last", "first").end("last", *(f"in{n}" for n in range(6)))
        answer = await bench.submit(plan)
        assert answer.more
        worker = await bench.worker()
        await worker.exchange([], want=1)
        [claim] = worker.held.values()
        assert claim.id == "first"
        await worker.settle(claim, value("first"))
        await bench.drain()
        assert await bench.states("first", "last") == ["succeeded", "ready"]

    async def test_a_graph_that_fails_before_it_is_open_ends(self, bench: Bench) -> None:
        plan = GraphDraft().job("first")
        for n in range(5):
            plan.join(f"out{n}", "first", shape=Shape.ONE)
            for i in range(200):
                plan.job(f"m{n}.{i:03}", f"out{n}")
        for n in range(5):
            plan.join(f"in{n}", *(f"m{n}.{i:03}" for i in range(200)))
        plan.end(*(f"in{n}" for n in range(5)))
        assert (await bench.submit(plan)).more
        worker = await bench.worker()
        await worker.settle(await worker.take("first"), DEAD)
        await bench.drain()
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "first")
        assert {state: n for state, n in info.counts.items() if n} == {"failed": 1, "skipped": 1_000}
        assert await bench.counts() == {"failed": 1, "skipped": 1_000}

    async def test_the_end_of_a_group_may_be_reached_in_any_order(self, bench: Bench) -> None:
        await bench.submit(group("a", "b", "c"))
        worker = await bench.worker()
        claims = {claim.id: claim for claim in await worker.claim()}
        for id in "cab":
            assert (await bench.graph()).state is State.WAITING
            await worker.settle(claims[id], value(id))
        assert (await bench.graph()).state is State.SUCCEEDED
