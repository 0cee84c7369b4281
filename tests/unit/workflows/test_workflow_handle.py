"""Workflows from the caller's side: how they are sent, and what their handles answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from tests.unit.workflows.handle_kit import Point, Shop, shop, working
from tests.worker.helpers import eventually, within
from windlass import (
    Draft,
    EnqueueError,
    Failure,
    Handle,
    IdConflict,
    JobCancelled,
    JobFailed,
    JobLost,
    ResultTimeout,
    State,
    StoreUnavailable,
    SyncHandle,
    SyncWorkflow,
    Workflow,
    chain,
    chord,
    flow,
    group,
)
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.errors import ConfigError
from windlass.store import make_store
from windlass.store.answers import Accept, Answer, GraphAnswer
from windlass.testing.failing import FailingStore, Faults

__all__ = ["shop", "working"]


# -- sending


async def test_a_lone_call_is_an_ordinary_job_and_with_callbacks_a_workflow(working: Shop) -> None:
    handle = await working.add.s(1, 2)
    assert isinstance(handle, Handle)
    assert await within(handle) == 3
    assert isinstance(await working.add.options(queue="slow").s(1).enqueue(), Handle)
    workflow: Any = await working.add.s(1, 2).then(working.note.s("and"))
    assert isinstance(workflow, Workflow)
    assert await within(workflow) == 3
    await eventually(lambda: working.seen == [(3, "and")])
    mapped = await working.point.map([1, 2])
    assert await within(mapped) == [Point(date(2030, 1, 31), 1), Point(date(2030, 1, 31), 2)]


async def test_results_are_read_by_annotation(working: Shop) -> None:
    day = date(2030, 1, 31)
    assert await within(await chain(working.add.s(1), working.point.s())) == Point(day, 1)
    assert await within(await group(working.point.si(1), working.add.si(2))) == [Point(day, 1), 2]
    assert await within(await group(group(working.point.si(1)), group())) == [[Point(day, 1)], []]
    assert await within(await flow(working.point.si(3), [working.add.si(1)])) == Point(day, 3)
    kept = await within(await group(working.point.si(1), working.charge.si()).keep_errors())
    assert kept[0] == Point(day, 1)
    assert isinstance(kept[1], Failure)
    assert (kept[1].task, kept[1].type, kept[1].message) == ("charge", "ValueError", "no money")
    handle = await group(working.point.si(1))
    await within(handle)
    assert await working.app.workflow(handle.id) == [{"day": "2030-01-31", "x": 1}], "nothing is known of its types"


async def test_sync_code_has_the_same(working: Shop) -> None:
    def in_thread() -> tuple[Any, ...]:
        one = working.add.s(1, 2).delay()
        many = chord([working.add.si(n) for n in range(600)], working.total.s()).delay()
        assert isinstance(one, SyncHandle)
        assert isinstance(many, SyncWorkflow)
        answers = one.get(timeout=20), many.get(timeout=20), many.state, str(many.progress()), many.ready()
        info = many.info()
        assert info is not None
        assert many.successful()
        assert not many.failed()
        assert (len(many.jobs()), len(many.tree().children)) == (601, 1)
        assert many.mermaid().startswith("flowchart TD")
        assert many.dot().startswith("digraph")
        again = working.app.sync.workflow(many.id)
        assert again.get() == answers[1]
        assert [one.id for one in working.app.sync.workflows(state="succeeded").workflows] == [many.id]
        assert (again.cancel(), again.retry(), again.forget()) == (False, False, True)
        assert repr(again) == f"<workflow {many.id}>"
        return answers

    assert await asyncio.to_thread(in_thread) == (3, sum(range(600)), State.SUCCEEDED, "601 of 601", True)


async def test_a_large_workflow_goes_in_parts_and_is_seen_only_as_a_whole(shop: Shop) -> None:
    parts: list[tuple[int, int, bool]] = []
    seen: list[int] = []

    class Watching(FailingStore):
        async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
            seen.append(len((await self.store.graphs()).graphs))
            parts.append((first, len(nodes), commit))
            return await super().insert_graph(graph, first, nodes, commit)

    shop.app.connections.store_factory = lambda: Watching(
        make_store(shop.app.url, shop.app.settings.for_store("handles"))
    )
    handle = await group(shop.add.si(n) for n in range(1200))
    assert parts[:5] == [(0, 250, False), (250, 250, False), (500, 250, False), (750, 250, False), (1000, 206, True)]
    assert all(part == (1206, 0, True) for part in parts[5:])
    assert len(parts) > 5, "it is opened before the caller goes on"
    assert seen[:5] == [0] * 5
    counts = await shop.app.queue("default").counts()
    assert counts == {"ready": 1200}
    assert await handle.state() is State.RUNNING


@pytest.fixture
def faults(shop: Shop) -> Faults:
    made = Faults()
    settings = shop.app.settings.for_store("handles")
    shop.app.connections.store_factory = lambda: FailingStore(make_store(shop.app.url, settings), made)
    return made


@pytest.mark.parametrize("kind", ["fail", "lose_reply", "duplicate"])
async def test_a_lost_reply_is_answered_by_sending_again(shop: Shop, faults: Faults, kind: str) -> None:
    getattr(faults, kind)("insert_graph", times=1)
    small = await chain(shop.add.s(1), shop.add.s(2))
    getattr(faults, kind)("insert_graph", times=1)
    large = await group(shop.add.si(n) for n in range(600))
    async with shop.app.worker():
        assert await within(small) == 3
        assert await within(large) == list(range(600))


async def test_a_store_out_of_reach_is_an_error_and_leaves_nothing(shop: Shop, faults: Faults) -> None:
    faults.fail("insert_graph", times=2)
    with pytest.raises(StoreUnavailable):
        await group(shop.add.si(1))
    assert len(await shop.app.workflows()) == 0


class Answering(FailingStore):
    """Answers what it is told to, call by call, and then what the store says."""

    answers: list[GraphAnswer]
    firsts: list[int]

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        self.firsts.append(first)
        if len(self.firsts) in (2, 3) and self.answers:
            return self.answers.pop(0)
        return await super().insert_graph(graph, first, nodes, commit)


@pytest.fixture
def answering(shop: Shop) -> Answering:
    store = Answering(make_store(shop.app.url, shop.app.settings.for_store("handles")))
    store.answers, store.firsts = [], []
    shop.app.connections.store_factory = lambda: store
    return store


async def test_what_the_store_lost_of_a_staged_workflow_is_sent_again(shop: Shop, answering: Answering) -> None:
    answering.answers = [GraphAnswer(Accept.REFUSED, "the first 250 are missing", 0)]
    handle = await group(shop.add.si(n) for n in range(400))
    assert answering.firsts[:4] == [0, 250, 0, 250]
    async with shop.app.worker():
        assert await within(handle) == list(range(400))


async def test_a_refusal_is_an_error_with_its_reason(shop: Shop, answering: Answering) -> None:
    answering.answers = [GraphAnswer(Accept.REFUSED, "too many edges", 250)]
    with pytest.raises(EnqueueError, match=r"workflow .* was refused: too many edges"):
        await group(shop.add.si(n) for n in range(400))


async def test_an_id_makes_a_workflow_one_of_a_kind(working: Shop) -> None:
    def work(last: int = 2) -> Any:
        return chain(working.add.s(1), working.add.s(last)).with_id("order-42")

    first, second = await work(), await work()
    assert first.id == second.id == "order-42"
    assert await within(second) == 3
    assert [job.id for job in await first.jobs()] == ["order-42.0", "order-42.1"]
    assert len((await working.app.workflows()).workflows) == 1
    with pytest.raises(IdConflict):
        await work(last=3)
    with pytest.raises(IdConflict):
        await chain(working.add.s(1), working.add.s(2)).with_id("order-42").fail_fast()
    assert await first.forget()
    await eventually(lambda: _gone(first))
    assert await within(await work(last=3)) == 4


async def _gone(handle: Workflow[Any]) -> bool:
    return await handle.info() is None and not await Handle[Any](handle._connections, "order-42.0").record()


async def test_a_taken_id_leaves_nothing_behind(shop: Shop) -> None:
    await shop.add.options(id="taken").enqueue(1)
    with pytest.raises(IdConflict, match="taken"):
        await chain(shop.add.s(1), shop.add.s(2).set(id="taken"), shop.add.s(3).set(id="free"))
    assert len(await shop.app.workflows()) == 0
    assert await shop.app.job("free").record() is None
    assert len(await shop.app.jobs()) == 1
    await chain(shop.add.s(3).set(id="free"))


async def test_middleware_sees_the_calls_of_a_workflow(working: Shop) -> None:
    batches: list[list[str]] = []

    async def tagging(drafts: list[Draft], call_next: Any) -> list[Answer]:
        batches.append([draft.task for draft in drafts])
        for draft in drafts:
            draft.headers = {"trace": "t1"}
        answers: list[Answer] = await call_next(drafts)
        assert {answer.status for answer in answers} == {Accept.ACCEPTED}
        assert len(answers) == len(drafts)
        return answers

    working.app.around_enqueue(tagging)
    handle = await chord([working.add.si(1), working.add.si(2)], working.total.s()).on_end(working.note.si())
    assert batches == [["add", "add", "total", "note"]]
    assert await within(handle) == 3
    assert {job.headers["trace"] for job in await handle.jobs()} == {"t1"}
    assert await asyncio.to_thread(lambda: chain(working.add.s(1)).delay().get(20)) == 1
    assert batches[-1] == ["add"]


async def test_middleware_may_refuse_a_workflow_and_not_cut_it(shop: Shop) -> None:
    async def refusing(drafts: list[Draft], call_next: Any) -> list[Answer]:
        if any(draft.task == "charge" for draft in drafts):
            raise PermissionError("not today")
        answers: list[Answer] = await call_next(drafts[:-1])
        return answers

    shop.app.around_enqueue(refusing)
    with pytest.raises(PermissionError, match="not today"):
        await chain(shop.add.s(1), shop.charge.s())
    with pytest.raises(ConfigError, match="not leave out or add any"):
        await chain(shop.add.s(1), shop.add.s(2))
    assert len(await shop.app.workflows()) == 0


# -- handles


async def test_a_workflow_under_way(working: Shop) -> None:
    handle = await chain(working.add.s(1), group(working.wait.si(), working.add.s(1))).named("slow one")
    await eventually(lambda: _done(handle, 2))
    assert await handle.state() is State.RUNNING
    assert not await handle.ready()
    info = await handle.info()
    assert info is not None
    assert (info.name, info.state, info.total, info.done, info.counts) == (
        "slow one", State.RUNNING, 3, 2, {"succeeded": 2},
    )  # fmt: skip
    assert info.created_at is not None
    assert info.finished_at is None
    assert str(await handle.progress()) == "2 of 3"
    with pytest.raises(ResultTimeout, match=r"was not over within 50ms; it goes on: job "):
        await handle.result(timeout=0.05)
    assert (await handle.retry(), await handle.forget()) == (False, False)
    assert [one.name for one in (await working.app.workflows(state="running")).workflows] == ["slow one"]
    assert len(await working.app.workflows(state=["failed", "cancelled"])) == 0
    working.gate.set()
    assert await within(handle) == ["waited", 2]
    assert (await handle.ready(), await handle.successful(), await handle.failed()) == (True, True, False)


async def _done(handle: Workflow[Any], count: int) -> bool:
    return (await handle.progress()).done == count


async def test_a_failure_names_its_culprit(working: Shop) -> None:
    handle = await chain(working.add.s(1), working.charge.s(), working.add.s(2)).named("order")
    with pytest.raises(JobFailed) as caught:
        await within(handle)
    culprit = (await handle.jobs())[1].id
    assert str(caught.value) == f"workflow {handle.id} (order) failed: charge {culprit} failed: ValueError: no money"
    assert (caught.value.error_type, caught.value.error_message) == ("ValueError", "no money")
    assert 'raise ValueError("no money")' in caught.value.traceback
    info = await handle.info()
    assert info is not None
    assert (info.state, info.culprit, info.reason) == (State.FAILED, culprit, f"charge {culprit} failed")
    assert [job.state for job in await handle.jobs()] == [State.SUCCEEDED, State.FAILED, State.SKIPPED]
    working.broken = False
    assert await handle.retry()
    assert await within(handle) == 3


async def test_a_cancelled_workflow(working: Shop) -> None:
    handle = await chain(working.wait.si(), working.add.si(1)).on_end(working.note.si("over"))
    await eventually(lambda: _running(handle))
    assert await handle.cancel("changed my mind")
    working.gate.set()
    with pytest.raises(JobCancelled, match=r"workflow .* \(chain of wait, add\) was cancelled: changed my mind"):
        await within(handle)
    assert not await handle.cancel()
    await eventually(lambda: working.seen == [("over",)])


async def _running(handle: Workflow[Any]) -> bool:
    return any(job.state is State.RUNNING for job in await handle.jobs())


async def test_a_workflow_nobody_knows(shop: Shop) -> None:
    handle = shop.app.workflow("nothing")
    assert (await handle.info(), await handle.state(), await handle.ready(), await handle.jobs()) == (
        None,
        None,
        False,
        [],
    )
    assert (await handle.cancel(), await handle.retry(), await handle.forget()) == (False, False, False)
    for ask in (handle.result, handle.progress, handle.tree, handle.mermaid, handle.dot):
        with pytest.raises(JobLost, match="the store has no record of workflow nothing"):
            await within(ask())


async def test_waiting_on_the_loop_itself_is_refused(shop: Shop) -> None:
    handle = await chain(shop.add.s(1))
    with pytest.raises(ConfigError, match="would block the running event loop"):
        handle.get()


async def test_pages_of_workflows(shop: Shop) -> None:
    ids = [(await chain(shop.add.s(n))).id for n in range(5)]
    first = await shop.app.workflows(limit=2)
    second = await shop.app.workflows(limit=2, after=first.cursor)
    third = await shop.app.workflows(limit=2, after=second.cursor)
    found = [*first.workflows, *second.workflows, *third.workflows]
    assert [one.id for one in found] == ids[::-1]
    with pytest.raises(ConfigError, match=r"unknown state 'runing' \(did you mean 'running'\?\)"):
        await shop.app.workflows(state="runing")


# -- jobs of workflows


async def test_a_job_of_a_workflow_can_be_edited_and_replayed(working: Shop) -> None:
    handle = await chain(working.add.s(1), working.strict.s(0))
    with pytest.raises(JobFailed):
        await within(handle)
    job = (await handle.jobs())[1]
    assert (job.workflow, job.args) == (handle.id, {"y": 0})
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        await working.app.dead.edit(job.id, {"x": 1, "y": 2})
    await working.app.dead.edit(job.id, {"y": 5})
    assert await working.app.dead.replay(job.id) == 1
    assert await within(handle) == 6


async def test_a_job_of_many_calls_can_be_edited(working: Shop) -> None:
    handle = await working.strict.starmap([(1, 2), (1, 0)])
    with pytest.raises(JobFailed):
        await within(handle)
    with pytest.raises(ConfigError, match=r"makes many calls: give \{'each'"):
        await working.app.dead.edit(handle.id, {"x": 1})
    with pytest.raises(TypeError, match="item 1"):
        await working.app.dead.edit(handle.id, {"each": [[1, 2], ["x"]]})
    await working.app.dead.edit(handle.id, {"each": [[1, 2], [3, 4]]})
    assert await working.app.dead.replay(handle.id) == 1
    assert await within(handle) == [3, 7]
