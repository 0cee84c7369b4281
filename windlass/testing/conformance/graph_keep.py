"""How long a workflow is kept, and how much of it one call touches."""

from __future__ import annotations

from windlass.core.graph import WORK
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.core.lifecycle import Adopted
from windlass.core.links import WIDTH, Inject, Shape
from windlass.store.answers import Accept
from windlass.store.jobs import Action
from windlass.testing.conformance.bench import LEASE, Bench, MakeBench, move, value
from windlass.testing.conformance.graph_drafts import GraphDraft, chain, chord, fan_out, group
from windlass.testing.conformance.graph_stop import aftermath
from windlass.testing.conformance.outcomes import DEAD, DONE

STEP_OF_NODES = WORK + 2 * WIDTH
"""More than about ``WORK`` nodes are never touched in a step, give or take the edges of one node on both sides."""


class GraphRetentionRules:
    """Members stay as long as their workflow is under way, and go with it."""

    async def test_a_member_is_not_pruned_before_the_end(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0, age=1))
        await bench.submit(chord("a", "b"))
        worker = await bench.worker()
        a, b = await worker.claim()
        await worker.settle(a, value("a"))
        await bench.passes(5_000, worker)
        assert await bench.state("a") == State.SUCCEEDED
        await worker.settle(b, value("b"))
        await bench.passes(5_000, worker)
        [sources] = await bench.store.inputs(["j"])
        assert [source.result for source in sources] == [b'"a"', b'"b"']
        await worker.finish(await worker.take("body"))
        await bench.drain()
        assert await bench.states("a", "b", "body", "j", "g") == [None] * 5

    async def test_whoever_watches_is_told_though_nothing_is_kept(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await bench.submit(chain("a", "b"))
        client, worker = await bench.client(), await bench.worker()
        await bench.store.watch("client", ["g"])
        await bench.play(worker)
        [news] = await client.told("g")
        assert (news.state, news.result) == (State.SUCCEEDED, b'"b"')

    async def test_nothing_is_left_of_a_workflow_that_is_not_kept(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        plan = aftermath(chord("a", "b"))
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker)
        await bench.drain()
        assert await bench.states(*plan.ids) == [None] * len(plan.ids)
        assert await bench.store.graph("g") is None
        assert (await bench.store.graphs()).graphs == []
        assert await bench.store.members("g") == []
        assert await bench.counts() == {}
        assert (await bench.stage(plan, commit=True)).status is Accept.ACCEPTED
        assert sorted(await bench.play(worker)) == ["a", "b", "body", "on_end", "then"]

    async def test_a_workflow_stays_whole_however_many_jobs_end_meanwhile(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await bench.submit(group("a", "b", "c", "d"))
        worker = await bench.worker()
        await bench.play(worker)
        for n in range(5):
            await bench.add(f"x{n}")
        await bench.play(worker)
        await bench.drain()
        assert await bench.counts() == {"succeeded": 4 + 2}
        [sources] = await bench.store.inputs(["g"])
        assert [source.state for source in sources] == [State.SUCCEEDED] * 4

    async def test_a_workflow_counts_for_all_of_its_nodes(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=7))
        worker = await bench.worker()
        for n in range(4):
            await bench.submit(chain(f"a{n}", f"b{n}", id=f"g{n}"))
            await bench.play(worker)
        await bench.drain()
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["g3", "g2"]
        assert await bench.counts() == {"succeeded": 4}
        await bench.submit(chain(*(f"x{n}" for n in range(20)), id="big"))
        await bench.play(worker)
        await bench.drain()
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["big"], "the last stays, however large"

    async def test_a_graph_that_a_job_awaits_goes_with_that_job(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=2))
        await bench.add("p")
        worker = await bench.worker()
        await bench.stage(GraphDraft("c", parent="p").job("a").job("b").join("j", "a", "b").end("j"))
        await worker.settle(await worker.take("p"), Adopted("c", replaced=True))
        await bench.play(worker)
        for n in range(3):
            await bench.submit(chain(f"y{n}", id=f"g{n}"))
            await bench.play(worker)
        await bench.drain()
        assert await bench.states("p", "a", "b", "c") == [State.SUCCEEDED] * 4
        for n in range(2):
            await bench.add(f"x{n}")
        await bench.play(worker)
        await bench.drain()
        assert await bench.states("p", "a", "b", "c") == [None] * 4

    async def test_a_graph_that_is_no_longer_awaited_is_kept_for_itself(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=9, age=10))
        await bench.add("p")
        worker = await bench.worker()
        await bench.stage(GraphDraft("c", parent="p").job("a").end("a"))
        await worker.settle(await worker.take("p"), Adopted("c"))
        await bench.play(worker, {"a": DEAD})
        await bench.change(Action.RETRY, "p")
        claim = await worker.take("p")
        await bench.passes(10_001, worker)
        await bench.drain()
        assert await bench.states("a", "c", "p") == [None, None, State.RUNNING]
        await worker.finish(claim)

    async def test_a_failed_workflow_is_kept_as_failed_with_all_its_members(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0, failed=Keep(count=9)))
        plan = chain("a", "b", "c")
        await bench.submit(plan)
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.drain()
        assert await bench.states("a", "b", "c", "g") == ["succeeded", "failed", "skipped", "failed"]
        assert [job.id for job in await bench.store.members("g")] == plan.ids

    async def test_a_failed_workflow_can_be_retried_as_long_as_it_is_kept(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0, failed=Keep(count=9)))
        await bench.submit(chain("a", "b", "c"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.drain()
        await bench.change(Action.RETRY, "g")
        await worker.finish(await worker.take("b"))
        assert (await worker.take("c")).given == b'"done"'
        assert await bench.state("a") == State.SUCCEEDED

    async def test_a_workflow_goes_when_its_time_is_over(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(age=10, failed=Keep(age=20)))
        await bench.submit(chain("a", id="good"))
        await bench.submit(chain("b", "c", id="bad"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.passes(10_001, worker)
        await bench.drain()
        assert await bench.states("a", "good", "b", "c", "bad") == [None, None, "failed", "skipped", "failed"]
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["bad"]
        await bench.passes(10_001, worker)
        await bench.drain()
        assert await bench.states("b", "c", "bad") == [None] * 3
        assert (await bench.store.graphs()).graphs == []

    async def test_a_workflow_may_name_its_own_buckets(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=9))
        for n in range(4):
            await bench.submit(chain(f"a{n}", id=f"g{n}", keep_done="4|-1|#mine"))
            worker = await bench.worker(f"w{n}")
            await bench.play(worker)
        await bench.drain()
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["g3", "g2"]

    async def test_a_workflow_counts_for_one_where_its_bucket_does_not_weigh_nodes(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=9))
        for n in range(4):
            await bench.submit(chain(f"a{n}", f"b{n}", id=f"g{n}", keep_done="2|-1|mine"))
            await bench.play(await bench.worker(f"w{n}"))
        await bench.drain()
        assert [info.id for info in (await bench.store.graphs()).graphs] == ["g3", "g2"]

    async def test_what_is_under_way_again_is_not_pruned(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=4))
        await bench.submit(chain("a", "b"))
        worker = await bench.worker()
        await bench.play(worker, {"b": DEAD})
        await bench.drain()
        await bench.change(Action.RETRY, "b")
        await bench.drain()
        for n in range(9):
            await bench.add(f"x{n}", priority=9)
            await worker.settle(await worker.take(f"x{n}"), DEAD)
        await bench.drain()
        assert await bench.states("a", "b", "g") == ["succeeded", "ready", "waiting"]
        await worker.settle(await worker.take("b"), DONE)
        await bench.drain()
        assert (await bench.graph()).state is State.SUCCEEDED

    async def test_a_callback_of_the_workflow_is_kept_like_any_job(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0, failed=Keep(count=9)))
        await bench.submit(aftermath(chain("a")))
        worker = await bench.worker()
        await bench.play(worker, {"then": DEAD})
        await bench.drain()
        assert await bench.states("a", "g", "then", "on_end") == [None, None, "failed", None]

    async def test_a_callback_may_outlive_its_workflow(self, make_bench: MakeBench) -> None:
        bench = await make_bench(keep=Keep(count=0))
        await bench.submit(aftermath(chain("a")).job("later", "on_end", aftermath=True))
        worker = await bench.worker()
        await worker.settle(await worker.take("a"), DONE)
        await bench.drain()
        assert sorted(await bench.play(worker)) == ["later", "on_end", "then"]


class BoundRules:
    """No call touches all of a big graph."""

    async def test_a_wide_fan_is_released_over_several_exchanges(self, bench: Bench) -> None:
        width = 4 * WIDTH
        await bench.submit(fan_out(width))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DONE)
        left = [(await bench.counts()).get("waiting", 0)]
        assert width - left[0] <= STEP_OF_NODES
        assert left[0] > 0, "not all in one step"
        while left[-1]:
            assert len(left) < 100, f"{left[-1]} jobs are never released"
            await worker.exchange()
            left.append((await bench.counts()).get("waiting", 0))
            assert left[-2] - left[-1] <= STEP_OF_NODES
        assert await bench.counts() == {"ready": width, "succeeded": 1}

    async def test_the_worker_that_left_something_to_do_is_woken(self, bench: Bench) -> None:
        await bench.submit(fan_out(4 * WIDTH))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DONE)
        await worker.mail.woken()

    async def test_what_is_left_to_do_is_to_be_done_at_once(self, bench: Bench) -> None:
        await bench.submit(fan_out(8 * WIDTH))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DONE)
        assert (await worker.beat()).next_check == 0
        assert (await bench.counts()).get("waiting", 0) > 0
        await bench.drain()
        assert (await bench.counts()).get("waiting", 0) == 0
        assert (await worker.beat()).next_check != 0

    async def test_a_wide_fan_is_given_up_over_several_steps(self, bench: Bench) -> None:
        width = 4 * WIDTH
        await bench.submit(fan_out(width))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DEAD)
        assert (await bench.counts()).get("skipped", 0) <= STEP_OF_NODES
        assert (await bench.graph()).state is State.WAITING
        await bench.drain()
        assert await bench.counts() == {"failed": 1, "skipped": width}
        info = await bench.graph()
        assert (info.state, info.culprit) == (State.FAILED, "root")

    async def test_todos_of_many_workflows_take_turns(self, bench: Bench) -> None:
        wide = fan_out(4 * WIDTH)
        await bench.submit(wide)
        await bench.drain()
        for n in range(5):
            await bench.submit(chain(f"a{n}", f"b{n}", id=f"h{n}"))
        worker = await bench.worker()
        claims = await worker.claim(6)
        await worker.exchange([move(claim, value(claim.id)) for claim in claims])
        steps = 0
        while State.WAITING in await bench.states(*(f"b{n}" for n in range(5))):
            steps += 1
            assert steps < 3, "a small workflow waits no longer than one step of each that came before it"
            await worker.exchange()
        await bench.drain()
        assert (await bench.counts()).get("waiting", 0) == 0

    async def test_a_wide_fan_runs_to_its_end(self, bench: Bench) -> None:
        width = 2 * WIDTH + 30
        await bench.submit(fan_out(width))
        worker = await bench.worker()
        assert len(await bench.play(worker, total=200)) == width + 1
        assert (await bench.graph()).state is State.SUCCEEDED
        [sources] = await bench.store.inputs(["g"])
        assert [(source.id, source.inject, source.shape) for source in sources] == [
            (f"in{n}", Inject.SPLICE, Shape.MANY) for n in range(3)
        ]
        lists = await bench.store.inputs(["in0", "in1", "in2"])
        assert [source.id for sources in lists for source in sources] == [f"m{n:05}" for n in range(width)]

    async def test_a_wide_fan_is_reopened_over_several_steps(self, bench: Bench) -> None:
        width = 4 * WIDTH
        await bench.submit(fan_out(width))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DEAD)
        await bench.drain()
        await bench.change(Action.RETRY, "root")
        assert (await bench.counts()).get("waiting", 0) <= STEP_OF_NODES
        await bench.drain()
        assert await bench.counts() == {"ready": 1, "waiting": width}
        await worker.settle(await worker.take("root"), DONE)
        await bench.drain()
        assert await bench.counts() == {"ready": width, "succeeded": 1}

    async def test_a_retry_that_fails_before_all_is_reopened(self, bench: Bench) -> None:
        width = 4 * WIDTH
        await bench.submit(fan_out(width))
        await bench.drain()
        worker = await bench.worker()
        await worker.settle(await worker.take("root"), DEAD)
        await bench.change(Action.RETRY, "root")
        await worker.settle(await worker.take("root"), DEAD)
        await bench.drain()
        assert await bench.counts() == {"failed": 1, "skipped": width}
        assert (await bench.graph()).state is State.FAILED
        await bench.change(Action.RETRY, "root")
        await worker.settle(await worker.take("root"), DONE)
        await bench.drain()
        assert await bench.counts() == {"ready": width, "succeeded": 1}
        assert (await bench.graph()).state is State.WAITING

    async def test_a_wide_fan_with_a_dead_worker_ends(self, bench: Bench) -> None:
        width = WIDTH + 50
        await bench.submit(fan_out(width))
        worker = await bench.worker("w1")
        await worker.settle(await worker.take("root"), DONE)
        await bench.drain()
        await worker.claim(120)
        await bench.passes(LEASE + 1)
        heir = await bench.worker("w2")
        assert len(await bench.play(heir, total=100)) == width
        assert (await bench.graph()).state is State.SUCCEEDED
