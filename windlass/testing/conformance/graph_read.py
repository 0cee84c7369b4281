"""Values on their way through a graph, and what readers see of it: claims, inputs, news, workflows and members."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.graph import Input
from windlass.core.job import Finished, State
from windlass.core.lifecycle import Outcome, Succeeded
from windlass.core.links import Inject, On, Shape
from windlass.store.jobs import INLINE_MAX, Action, Change, Query
from windlass.testing.conformance.bench import START, Bench, value
from windlass.testing.conformance.graph_drafts import After, GraphDraft, chain, chord, done, failure, group
from windlass.testing.conformance.outcomes import DEAD, DONE, RETRY_NOW, STOPPED

LARGE = Succeeded(b'"' + b"x" * INLINE_MAX + b'"')
JUST_SMALL = Succeeded(b'"' + b"x" * (INLINE_MAX - 2) + b'"')


def brief(source: Input) -> tuple[Any, ...]:
    return source.id, source.task, source.state, source.inject, source.shape, source.result


class ClaimValueRules:
    """What a claim brings along from the graph."""

    async def test_a_claim_names_its_graph(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        worker = await bench.worker()
        claim = await worker.take("a")
        assert (claim.graph, claim.source, claim.inject, claim.given, claim.awaits) == ("g", "", Inject.NONE, None, "")

    async def test_a_claim_carries_the_value_of_its_source(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), Succeeded(b"[1,2]"))
        claim = await worker.take("b")
        assert (claim.graph, claim.source, claim.inject, claim.given) == ("g", "a", Inject.RESULT, b"[1,2]")

    @pytest.mark.parametrize("inject", [Inject.RESULT, Inject.IF_SUCCEEDED, Inject.ASIDE, Inject.SPLICE])
    async def test_a_claim_says_how_the_value_is_meant(self, bench: Bench, inject: Inject) -> None:
        await bench.submit(GraphDraft().job("a").job("b", After("a", inject=inject)).end("b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        claim = await worker.take("b")
        assert (claim.source, claim.inject, claim.given) == ("a", inject, b'"done"')

    async def test_an_edge_that_injects_nothing_gives_nothing(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", After("a", inject=Inject.NONE)).end("b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        claim = await worker.take("b")
        assert (claim.graph, claim.source, claim.inject, claim.given) == ("g", "", Inject.NONE, None)

    async def test_the_first_edge_that_injects_counts(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("c")
        await bench.submit(plan.job("d", After("a", inject=Inject.NONE), "b", "c").end("d"))
        worker = await bench.worker()
        for claim in await worker.claim():
            await worker.settle(claim, value(claim.id))
        claim = await worker.take("d")
        assert (claim.source, claim.given) == ("b", b'"b"')

    async def test_a_value_of_the_greatest_size_is_carried(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), JUST_SMALL)
        assert (await worker.take("b")).given == JUST_SMALL.result

    async def test_a_larger_value_is_fetched(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), LARGE)
        claim = await worker.take("b")
        assert (claim.source, claim.inject, claim.given) == ("a", Inject.RESULT, None)
        [[source]] = await bench.store.inputs(["b"])
        assert source.result == LARGE.result

    @pytest.mark.parametrize("outcome", [DEAD, STOPPED], ids=["failed", "cancelled"])
    async def test_a_source_that_did_not_succeed_gives_nothing(self, bench: Bench, outcome: Outcome) -> None:
        await bench.submit(GraphDraft().job("a").job("b", done("a")).end("b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), outcome)
        claim = await worker.take("b")
        assert (claim.source, claim.inject, claim.given) == ("a", Inject.RESULT, None)

    async def test_a_list_is_not_put_together_by_the_store(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        for claim in await worker.claim():
            await worker.settle(claim, value(claim.id))
        claim = await worker.take("body")
        assert (claim.source, claim.inject, claim.given) == ("j", Inject.RESULT, None)

    async def test_a_join_that_passes_a_value_on_gives_it(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").join("j", "a", shape=Shape.ONE).job("b", "j").end("b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), value("a"))
        claim = await worker.take("b")
        assert (claim.source, claim.given) == ("j", b'"a"')

    async def test_a_claim_granted_again_carries_the_same(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), value("a"))
        first = await worker.take("b")
        assert (await worker.resend()).claims == [first]
        await worker.settle(first, RETRY_NOW)
        second = await worker.take("b")
        assert (second.attempt, second.graph, second.source, second.given) == (1, "g", "a", b'"a"')


class InputRules:
    """The sources of a node, for whoever puts its value together."""

    async def test_inputs_are_in_the_order_of_the_edges(self, bench: Bench) -> None:
        await bench.submit(chord("b", "c", "a"))
        worker = await bench.worker()
        for claim in reversed(await worker.claim()):
            await worker.settle(claim, value(claim.id))
        [sources] = await bench.store.inputs(["j"])
        assert [brief(source) for source in sources] == [
            (id, "t", State.SUCCEEDED, Inject.RESULT, Shape.CALL, f'"{id}"'.encode()) for id in "bca"
        ]

    async def test_several_nodes_are_asked_for_at_once(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await bench.play(worker)
        answers = await bench.store.inputs(["g", "a", "never", "j"])
        assert [[source.id for source in sources] for sources in answers] == [["body"], [], [], ["a", "b"]]

    async def test_a_failed_source_comes_with_its_error(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b", "c", on=On.DONE))
        await bench.change(Action.CANCEL, "c", reason="enough")
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        [[a, b, c]] = await bench.store.inputs(["j"])
        assert (a.state, a.result, a.error) == (State.FAILED, None, (await bench.job("a")).error)
        assert (b.state, b.result, b.error) == (State.SUCCEEDED, b'"b"', None)
        assert (c.state, c.result, c.reason) == (State.CANCELLED, None, "enough")

    async def test_a_skipped_source_says_why(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("b", "a").end(done("b")))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        [[source]] = await bench.store.inputs(["g"])
        assert (source.id, source.state, source.reason) == ("b", State.SKIPPED, "t a failed")

    async def test_sources_that_carry_nothing_are_left_out(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("c")
        edges = [done("a", Inject.NONE), done("b", Inject.IF_SUCCEEDED), After("c", inject=Inject.ASIDE)]
        await bench.submit(plan.end(*edges))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        [sources] = await bench.store.inputs(["g"])
        assert [(source.id, source.inject, source.state) for source in sources] == [
            ("b", Inject.IF_SUCCEEDED, State.FAILED),
            ("c", Inject.ASIDE, State.SUCCEEDED),
        ]

    async def test_a_large_value_is_whole(self, bench: Bench) -> None:
        await bench.submit(group("a"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), LARGE)
        [[source]] = await bench.store.inputs(["g"])
        assert source.result == LARGE.result

    async def test_joins_among_the_sources_are_told_by_their_shape(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("c")
        plan.join("one", "a", shape=Shape.ONE).join("many", "b", "c").join("none", shape=Shape.MANY)
        await bench.submit(plan.end("one", After("many", inject=Inject.SPLICE), "none", shape=Shape.MANY))
        worker = await bench.worker()
        await bench.play(worker)
        [sources] = await bench.store.inputs(["g"])
        assert [brief(source) for source in sources] == [
            ("one", "", State.SUCCEEDED, Inject.RESULT, Shape.ONE, b'"a"'),
            ("many", "", State.SUCCEEDED, Inject.SPLICE, Shape.MANY, None),
            ("none", "", State.SUCCEEDED, Inject.RESULT, Shape.MANY, None),
        ]
        [inner] = await bench.store.inputs(["many"])
        assert [source.id for source in inner] == ["b", "c"]

    async def test_inputs_are_there_while_the_node_still_waits(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), value("a"))
        [[a, b]] = await bench.store.inputs(["j"])
        assert (a.state, a.result, b.state, b.result) == (State.SUCCEEDED, b'"a"', State.READY, None)

    async def test_a_job_of_its_own_has_no_inputs(self, bench: Bench) -> None:
        await bench.add("a")
        assert await bench.store.inputs(["a", "never"]) == [[], []]


class JoinValueRules:
    """What a join's own value is."""

    async def test_one_takes_over_its_sources_value(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").join("j", "a", shape=Shape.ONE).end("j"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), Succeeded(b"[7]"))
        assert [(await bench.job(id)).result for id in ("j", "g")] == [b"[7]", b"[7]"]

    async def test_many_has_none(self, bench: Bench) -> None:
        await bench.submit(group("a"))
        worker = await bench.worker()
        await bench.play(worker)
        assert (await bench.job("g")).result is None

    async def test_a_value_that_is_too_large_is_not_taken_over(self, bench: Bench) -> None:
        await bench.submit(chain("a", id="g"))
        await bench.submit(chain("b", id="h"))
        worker = await bench.worker()
        await bench.play(worker, {"a": LARGE, "b": JUST_SMALL})
        assert ((await bench.job("g")).result, (await bench.job("h")).result) == (None, JUST_SMALL.result)

    async def test_the_list_behind_one_is_not_at_hand(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").join("j", "a").end("j"))
        worker = await bench.worker()
        await bench.play(worker)
        end = await bench.job("g")
        assert (end.state, end.result) == (State.SUCCEEDED, None)

    async def test_one_that_is_met_by_a_failure_has_no_value(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").end(done("a")))
        worker = await bench.worker()
        await bench.play(worker, {"a": DEAD})
        end = await bench.job("g")
        assert (end.state, end.result, end.error) == (State.SUCCEEDED, None, None)


class GraphWatchRules:
    """News of workflows."""

    async def test_who_watches_a_workflow_is_told_its_value(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        client, worker = await bench.client(), await bench.worker()
        assert await bench.store.watch("client", ["g"]) == await bench.store.watch("client", ["g"])
        await bench.play(worker)
        assert await client.told("g") == [Finished("g", State.SUCCEEDED, b'"b"')]
        assert (await bench.store.watch("client", ["g"])).finished == [Finished("g", State.SUCCEEDED, b'"b"')]

    async def test_a_list_is_announced_and_fetched(self, bench: Bench) -> None:
        await bench.submit(group("a", "b"))
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["g"])
        await bench.play(worker)
        assert await client.told("g") == [Finished("g", State.SUCCEEDED, inline=False)]
        assert (await bench.store.watch("client", ["g"])).finished == [Finished("g", State.SUCCEEDED, inline=False)]

    async def test_a_large_value_is_announced_and_fetched(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["g"])
        await bench.play(worker, {"a": LARGE})
        assert await client.told("g") == [Finished("g", State.SUCCEEDED, inline=False)]

    async def test_a_failure_is_told_with_the_error_of_the_culprit(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["g"])
        await bench.play(worker, {"a": DEAD})
        error = (await bench.job("a")).error
        assert await client.told("g") == [Finished("g", State.FAILED, None, error, "t a failed")]

    async def test_skipped_jobs_and_inner_joins_are_told_too(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        client, worker = await bench.client(), await bench.worker()
        assert (await bench.store.watch("client", ["j", "body"])).missing == []
        await bench.play(worker, {"a": DEAD})
        news = {one.id: one for one in await client.told("j", "body")}
        assert (news["j"].state, news["body"].state) == (State.FAILED, State.SKIPPED)
        assert news["body"].reason == "t a failed"

    async def test_the_end_is_told_in_the_exchange_that_settled_the_last_job(self, bench: Bench) -> None:
        await bench.submit(chain("a"))
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["a", "g"])
        await worker.settle(await worker.take("a"), value("a"))
        assert {one.id for one in await client.told("a", "g")} == {"a", "g"}
        assert len(client.messages) == 1, "one message per client and exchange"


class ListingRules:
    """Workflows and their members, and joins that are no jobs."""

    async def test_a_workflow_is_read_back(self, bench: Bench) -> None:
        plan = chord("a", "b", name="nightly", meta=b'{"source":"x"}')
        await bench.submit(plan)
        info = await bench.graph()
        assert (info.id, info.name, info.state, info.meta) == ("g", "nightly", State.WAITING, b'{"source":"x"}')
        assert (info.size, info.nodes, info.parent, info.stopping) == (3, 5, "", "")
        assert (info.reason, info.culprit, info.created_at, info.finished_at) == ("", "", START, 0)
        assert not any(info.counts.values())

    async def test_there_is_no_such_workflow(self, bench: Bench) -> None:
        await bench.add("a")
        assert [await bench.store.graph(id) for id in ("never", "a")] == [None, None]
        assert await bench.store.members("never") == []

    async def test_progress_counts_jobs_as_they_end(self, bench: Bench) -> None:
        plan = GraphDraft().job("a").job("b").job("b2", "b").job("c").join("j", "a", "b2", done("c"))
        await bench.submit(plan.job("after", done("g"), aftermath=True).end("j"))
        worker = await bench.worker()
        seen = []
        outcomes: list[Outcome] = [DONE, DEAD, STOPPED]
        for claim, outcome in zip(await worker.claim(), outcomes, strict=True):
            await worker.settle(claim, outcome)
            seen.append({state: n for state, n in (await bench.graph()).counts.items() if n})
        both = {"succeeded": 1, "failed": 1, "skipped": 1}
        assert seen == [{"succeeded": 1}, both, both | {"cancelled": 1}]
        assert await bench.play(worker) == ["after"]
        info = await bench.graph()
        assert {state: n for state, n in info.counts.items() if n} == seen[-1], "callbacks of the graph do not count"
        assert sum(info.counts.values()) == info.size == 4

    async def test_workflows_are_listed_newest_first_in_pages(self, bench: Bench) -> None:
        for n in range(7):
            bench.clock.advance(1)
            await bench.submit(chain(f"a{n}", id=f"g{n}"))
        ids, cursor, pages = [], "", 0
        while pages == 0 or cursor:
            page = await bench.store.graphs(after=cursor, limit=3)
            assert len(page.graphs) <= 3
            ids += [info.id for info in page.graphs]
            cursor, pages = page.cursor, pages + 1
            assert pages < 9, "the listing never ends"
        assert ids == [f"g{n}" for n in reversed(range(7))]

    async def test_workflows_are_listed_by_state(self, bench: Bench) -> None:
        for n, outcome in enumerate([DONE, DEAD, DONE, None, DEAD]):
            await bench.submit(chain(f"a{n}", id=f"g{n}"))
            if outcome is not None:
                worker = await bench.worker(f"w{n}")
                await worker.settle(await worker.take(f"a{n}"), outcome)
                await bench.store.leave(worker.id)
            else:
                await bench.change(Action.MOVE, f"a{n}", queue="elsewhere")

        async def listed(*states: State) -> list[str]:
            ids, cursor = [], ""
            for _ in range(9):
                page = await bench.store.graphs(states, after=cursor, limit=2)
                ids += [info.id for info in page.graphs]
                cursor = page.cursor
                if not cursor:
                    return ids
            raise AssertionError("the listing never ends")

        assert await listed(State.SUCCEEDED) == ["g2", "g0"]
        assert await listed(State.FAILED) == ["g4", "g1"]
        assert await listed(State.WAITING) == ["g3"]
        assert await listed(State.CANCELLED) == []
        assert await listed(State.FAILED, State.WAITING) == ["g4", "g3", "g1"]

    async def test_members_are_listed_in_their_order_in_pages(self, bench: Bench) -> None:
        plan = chord("c", "a", "b")
        await bench.submit(plan)
        members = await bench.store.members("g")
        assert [job.id for job in members] == plan.ids
        assert [job.links for job in members] == [node.links for node in plan.nodes]
        assert [job.graph for job in members] == ["g"] * 6
        pages = [[job.id for job in await bench.store.members("g", after, 2)] for after in (-1, 1, 3, 5)]
        assert pages == [["c", "a"], ["b", "j"], ["body", "g"], []]

    async def test_joins_are_not_among_the_jobs(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        assert {job.id for job in await bench.everything()} == {"a", "b", "body"}
        worker = await bench.worker(queues=["q", ""], declares=None)
        assert await bench.play(worker, {"a": DEAD}) == ["a", "b"]
        assert {job.id for job in await bench.everything(states=(State.FAILED,))} == {"a"}
        assert {job.id for job in await bench.everything(oldest_first=True)} == {"a", "b", "body"}
        assert [info.name for info in await bench.store.queues() if any(info.counts.values())] == ["q"]
        assert await bench.counts() == {"failed": 1, "succeeded": 1, "skipped": 1}

    async def test_a_join_is_read_by_its_id(self, bench: Bench) -> None:
        plan = chord("a", "b")
        await bench.submit(plan)
        join = await bench.job("j")
        assert (join.task, join.state, join.graph, join.links) == ("", State.WAITING, "g", plan.nodes[2].links)

    @pytest.mark.parametrize("action", list(Action))
    async def test_a_join_is_no_job_to_change(self, bench: Bench, action: Action) -> None:
        await bench.submit(chord("a", "b"))
        reply = await bench.change(action, "j", queue="r", priority=1, payload=b"{}")
        assert (reply.changed, reply.skipped) == ([], {"j": "no such job"})
        assert await bench.state("j") == State.WAITING

    @pytest.mark.parametrize("action", [Action.PROMOTE, Action.MOVE, Action.REPRIORITISE, Action.EDIT])
    async def test_a_workflow_is_not_changed_like_a_job(self, bench: Bench, action: Action) -> None:
        await bench.submit(chain("a"))
        reply = await bench.change(action, "g", queue="r", priority=1, payload=b"{}")
        assert reply.changed == []
        assert list(reply.skipped) == ["g"]
        assert await bench.states("a", "g") == ["ready", "waiting"]

    async def test_a_change_by_query_leaves_joins_alone(self, bench: Bench) -> None:
        await bench.submit(chord("a", "b"))
        reply = await bench.store.change(Change(action=Action.CANCEL), query=Query())
        assert sorted(reply.changed) in (["a", "b"], ["a", "b", "body"])
        await bench.drain()
        assert await bench.states("a", "b") == ["cancelled", "cancelled"]
        assert (await bench.state("body")) in (State.SKIPPED, State.CANCELLED)
        assert await bench.states("j", "g") == ["failed", "failed"]

    async def test_waiting_jobs_can_be_moved_edited_and_reprioritised(self, bench: Bench) -> None:
        await bench.submit(chain("a", "b"))
        assert (await bench.change(Action.MOVE, "b", queue="r")).changed == ["b"]
        assert (await bench.change(Action.REPRIORITISE, "b", priority=8)).changed == ["b"]
        assert (await bench.change(Action.EDIT, "b", payload=b"[5]")).changed == ["b"]
        worker = await bench.worker(queues=["q", "r"])
        await worker.settle(await worker.take("a"), DONE)
        claim = await worker.take("b")
        assert (claim.queue, claim.priority, claim.payload, claim.given) == ("r", 8, b"[5]", b'"done"')

    async def test_a_callback_for_failures_is_handed_no_value(self, bench: Bench) -> None:
        await bench.submit(GraphDraft().job("a").job("f", failure("a")).end("a"))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DEAD)
        claim = await worker.take("f")
        assert (claim.source, claim.inject, claim.given) == ("a", Inject.RESULT, None)
        [[source]] = await bench.store.inputs(["f"])
        assert (source.state, source.error) == (State.FAILED, (await bench.job("a")).error)
