"""Workflows from the caller's side: how they are sent, and what their handles answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.worker.helpers import SHORT, eventually, within
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
    Windlass,
    Workflow,
    chain,
    chord,
    current,
    flow,
    group,
)
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.errors import ConfigError
from windlass.store import make_store
from windlass.store.answers import Accept, Answer, GraphAnswer
from windlass.testing.failing import FailingStore, Faults
from windlass.workflows.picture import draw_dot, draw_mermaid


@dataclass
class Point:
    day: date
    x: int = 0


async def strict(x: int, y: int) -> int:
    if y == 0:
        raise ValueError("no y")
    return x + y


class Shop:
    """An app and its tasks."""

    def __init__(self, url: str) -> None:
        self.app = app = Windlass("handles", url, **SHORT)
        self.seen: list[Any] = []
        self.gate = asyncio.Event()
        self.broken = True

        @app.task(name="add")
        async def add(x: int, y: int = 0) -> int:
            return x + y

        @app.task(name="total")
        async def total(xs: list[int]) -> int:
            return sum(xs)

        @app.task(name="charge")
        async def charge(x: int = 0) -> int:
            if self.broken:
                raise ValueError("no money")
            return x

        @app.task(name="wait")
        async def wait() -> str:
            await self.gate.wait()
            return "waited"

        @app.task(name="point")
        async def point(x: int) -> Point:
            return Point(date(2030, 1, 31), x)

        @app.task(name="note")
        async def note(*args: Any) -> None:
            self.seen.append(args)

        @app.task(name="grow")
        async def grow(n: int) -> int:
            return await current().replace(chain(add.s(n), add.s(1)))

        self.add, self.total, self.charge, self.wait, self.point, self.note = add, total, charge, wait, point, note
        self.grow, self.strict = grow, app.task(name="strict")(strict)


@pytest.fixture(params=["memory", "sqlite"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    made = Shop("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db?durability=normal")
    yield made
    await made.app.close()


@pytest.fixture
async def working(shop: Shop) -> AsyncIterator[Shop]:
    async with shop.app.worker():
        yield shop
        shop.gate.set()


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

    shop.app.store_factory = lambda: Watching(make_store(shop.app.url, shop.app.settings.for_store("handles")))
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
    shop.app.store_factory = lambda: FailingStore(make_store(shop.app.url, settings), made)
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
    shop.app.store_factory = lambda: store
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
    return await handle.info() is None and not await handle._app.job("order-42.0").record()


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


# -- pictures


def outline(tree: Any) -> Any:
    """A tree as nested lists of kinds and tasks."""
    name = tree.task or tree.kind
    return [name, *map(outline, tree.children)] if tree.children else name


async def test_the_tree_is_what_was_written(shop: Shop) -> None:
    header = group(shop.add.si(1), shop.add.si(2).on_error(shop.note.s()))
    work = chain(
        shop.add.s(1), group(shop.add.s(1), chain(shop.add.s(1), shop.add.s(2))), chord(header, shop.total.s())
    )
    handle = await work.then(group(shop.note.s(), shop.note.s()))
    assert outline(await handle.tree()) == [
        "workflow",
        [
            "chain",
            "add",
            ["group", "add", ["chain", "add", "add"]],
            ["chord", ["group", "add", ["add", ["on_error", "note"]]], "total"],
            ["then", ["group", "note", "note"]],
        ],
    ]
    wide = await chain(shop.add.s(1), group(shop.add.s(n) for n in range(600)), shop.total.s())
    tree = await wide.tree()
    assert outline(tree) == ["workflow", ["chain", "add", ["group", *["add"] * 600], "total"]]
    assert [node.id for node in tree.walk() if node.id] == [wide.id, *(job.id for job in await wide.jobs())]
    assert outline(await (await flow(shop.add.si(1), [shop.total.si([])])).tree()) == [
        "workflow",
        ["flow", "total", "add"],
    ]
    assert outline(await (await shop.app.submit_work(group())).tree()) == ["workflow", "group"]


async def test_a_tree_has_states_results_and_errors(working: Shop) -> None:
    handle = await chain(
        group(working.add.si(1), working.charge.si()).keep_errors(), chain(working.charge.si(), working.add.s())
    )
    with pytest.raises(JobFailed):
        await within(handle)
    tree = await handle.tree()
    (top,) = tree.children
    kept, *rest = top.children
    assert (tree.state, top.state, kept.state) == (State.FAILED, State.FAILED, State.SUCCEEDED)
    assert [(node.state, node.result, node.error) for node in kept.children] == [
        (State.SUCCEEDED, 1, ""),
        (State.FAILED, None, "ValueError: no money"),
    ]
    assert [node.state for node in rest] == [State.FAILED, State.SKIPPED]
    assert rest[1].reason == f"charge {rest[0].id} failed"


async def test_a_tree_of_what_is_left(shop: Shop) -> None:
    handle = await chain(shop.add.s(1), shop.add.s(2))
    async with shop.app.worker():
        await within(handle)
    job = (await handle.jobs())[0]
    assert await shop.app.job(job.id).forget()
    assert outline(await handle.tree()) == ["workflow", "add"]


async def _over(handle: Workflow[Any]) -> bool:
    return all(job.state.terminal for job in await handle.jobs())


async def test_a_mermaid_graph(working: Shop) -> None:
    work = chain(
        working.add.s(1), group(working.add.s(1), working.charge.si()), group(working.total.s(), working.total.s())
    )
    handle = await work.on_error(working.note.s())
    with pytest.raises(JobFailed):
        await within(handle)
    await eventually(lambda: _over(handle))
    lines = (await handle.mermaid()).splitlines()
    assert lines[0] == "flowchart TD"
    assert [line.strip() for line in lines[1:] if "classDef" not in line] == [
        'n0["add"]:::succeeded',
        'n1["add"]:::succeeded', "n0 --> n1",
        'n2["charge"]:::failed', "n0 --> n2",
        "n3(( )):::failed", "n1 --> n3", "n2 --> n3",
        'n4["total"]:::skipped', "n3 --> n4",
        'n5["total"]:::skipped', "n3 --> n5",
        "n6(( )):::failed", "n4 --> n6", "n5 --> n6",
        'n7["note"]:::succeeded', "n6 -.->|on error| n7",
    ]  # fmt: skip
    dot = await handle.dot()
    assert 'n6 -> n7 [label="on error", style=dashed];' in dot
    assert 'n3 [label="", shape=circle' in dot


async def test_many_jobs_alike_are_drawn_as_one(shop: Shop) -> None:
    handle = await chord([shop.add.si(n) | shop.add.s(1) for n in range(300)], shop.total.s())
    lines = [line.strip() for line in (await handle.mermaid()).splitlines() if "classDef" not in line]
    assert lines[1:] == [
        'n0["add × 300 (300 ready)"]:::ready',
        'n1["add × 300 (300 waiting)"]:::waiting', "n0 --> n1",
        'n2["total"]:::waiting', "n1 --> n2",
    ]  # fmt: skip


async def test_a_picture_has_an_end(shop: Shop) -> None:
    handle = await group(shop.app.sig(f"task{n}") for n in range(450))
    assert "… 50 more" in await handle.mermaid()
    assert "… 50 more" in await handle.dot()


async def test_hostile_names_are_only_text(shop: Shop) -> None:
    handle = await chain(shop.add.s(1)).named('x"; evil [label="\\')
    graph = await handle.graph()
    assert graph is not None
    assert draw_dot(graph, []).startswith('digraph "x\\"; evil [label=\\"\\\\" {')
    graph.name = '"]:::x\n  click n0 "javascript:alert(1)" `<b>'
    drawn = draw_mermaid(graph, [])
    assert drawn.count('"') == 2
    assert "click n0 #34;javascript:alert(1)#34; #96;#60;b#62;" in drawn
    assert len(drawn.splitlines()) == 10


async def test_adopted_workflows_hang_below_their_jobs(working: Shop) -> None:
    handle = await chain(working.grow.s(1), working.add.s(1))
    assert await within(handle) == 3
    assert outline(await handle.tree()) == [
        "workflow", ["chain", ["grow", ["workflow", ["chain", "add", "add"]]], "add"],
    ]  # fmt: skip
    inner = next(one for one in (await working.app.workflows()).workflows if one.parent)
    assert (inner.parent, inner.replaces) == ((await handle.jobs())[0].id, True)


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
