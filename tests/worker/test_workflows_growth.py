"""Jobs that grow while they run: replaced by a workflow, or waiting for one; in every place, and inside workflows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.worker.graphs import Tasks, value_of
from tests.worker.helpers import eventually, within
from windlass import JobCancelled, JobFailed, State, Windlass, chain, chord, flow, group
from windlass.calls.context import Current, HandOver
from windlass.calls.middleware import Submit
from windlass.core.draft import Draft
from windlass.errors import StoreUnavailable
from windlass.store.answers import Accept, Answer, GraphAnswer
from windlass.store.jobs import SweepReply
from windlass.testing.failing import Faults
from windlass.worker.service import Worker

PLACES = ["on_loop", "in_thread", "in_child", "in_child_async"]


# -- replaced


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("worker")
async def test_a_replaced_job_has_the_value_of_what_replaced_it(t: Tasks, place: str) -> None:
    handle = await getattr(t, f"replaced_{place}").enqueue(20)
    assert await within(handle) == 42
    info = await handle.info()
    assert info is not None
    assert info.state is State.SUCCEEDED


@pytest.mark.usefixtures("worker")
async def test_replaced_inside_other_workflows(t: Tasks) -> None:
    assert await value_of(group(t.replaced_on_loop.s(1), t.double.s(1), t.replaced_in_thread.s(2))) == [4, 2, 6]
    assert await value_of(chain(t.add.s(1, 1), t.replaced_on_loop.s(), t.add.s(1))) == 7
    assert await value_of(chord([t.replaced_on_loop.s(1), t.replaced_in_child.s(2), t.add.s(1, 1)], t.total.s())) == 12
    assert await value_of(flow(t.gathered.s(0), needs=[t.replaced_in_thread.s(1)])) == [0, [4]]


@pytest.mark.usefixtures("worker")
async def test_replaced_by_what_is_replaced(t: Tasks) -> None:
    assert await within(await t.countdown.enqueue(5)) == 0
    assert await within(await t.chorded.enqueue(3)) == [[], [0], [0, 2]]
    assert await value_of(group(t.chorded.s(2), t.fanned.s(1))) == [[[], [0]], [0]]


@pytest.mark.usefixtures("worker")
async def test_replaced_by_more_than_goes_into_one_call(t: Tasks) -> None:
    assert await within(await t.fanned.enqueue(700), 60) == [2 * i for i in range(700)]


@pytest.mark.usefixtures("worker")
async def test_the_failure_of_what_replaced_it_is_its_own(t: Tasks) -> None:
    with pytest.raises(JobFailed, match="no money"):
        await within(await t.replaced_by_failure.enqueue())
    with pytest.raises(JobFailed, match="no money"):
        await value_of(chain(t.replaced_by_failure.s(), t.echo.s()))


@pytest.mark.usefixtures("worker")
async def test_a_replacement_that_cannot_be_is_an_error_where_it_is_written(t: Tasks) -> None:
    with pytest.raises(JobFailed, match="Expected `int`"):
        await within(await t.replaced_in_vain.enqueue(1))


# -- waiting


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("worker")
async def test_a_job_runs_again_with_what_it_waited_for(t: Tasks, place: str) -> None:
    handle = await getattr(t, f"waits_{place}").enqueue(3)
    assert await within(handle) == [1, 2, 3, 3]


async def test_a_job_that_waits_takes_no_slot(graph_app: Windlass, t: Tasks) -> None:
    async with graph_app.worker(concurrency=1):
        assert await within(await t.waits_on_loop.enqueue(4)) == [1, 2, 3, 4, 4]


@pytest.mark.usefixtures("worker")
async def test_waiting_inside_other_workflows(t: Tasks) -> None:
    assert await value_of(chain(t.add.s(1, 1), t.waits_on_loop.s(), t.echo.s())) == [1, 2, 2]
    assert await value_of(chord([t.waits_in_thread.s(2), t.add.s(1, 1)], t.echo.s())) == [[1, 2, 2], 2]


@pytest.mark.usefixtures("worker")
async def test_a_job_fails_with_what_it_waits_for(t: Tasks) -> None:
    handle = await t.waits_for_failure.enqueue()
    with pytest.raises(JobFailed, match="no money"):
        await within(handle)


@pytest.mark.usefixtures("worker")
async def test_what_was_waited_for_is_there_in_later_attempts(t: Tasks) -> None:
    assert await within(await t.waits_then_fails_twice.enqueue()) == [3, 3]


@pytest.mark.usefixtures("worker")
async def test_a_waiting_job_is_cancelled_with_what_it_waits_for(graph_app: Windlass, t: Tasks) -> None:
    handle = await t.waits_long.enqueue()
    await eventually(lambda: is_in(handle, State.WAITING))
    awaited = (await handle.record()).awaits
    assert await handle.cancel("not needed")
    with pytest.raises(JobCancelled):
        await within(handle)
    with pytest.raises(JobCancelled):
        await within(graph_app.workflow(awaited).result())


async def is_in(handle: Any, state: State) -> bool:
    return await handle.state() is state


@pytest.mark.usefixtures("worker")
async def test_a_job_knows_its_workflow(t: Tasks) -> None:
    handle = await chain(t.add.s(1, 1), t.workflow_id.si()).enqueue()
    assert await within(handle) == handle.id
    assert await within(await t.workflow_id.enqueue()) is None


# -- around it


async def test_middleware_sees_no_error(graph_app: Windlass, t: Tasks) -> None:
    seen: list[str] = []

    @graph_app.around_run
    async def watch(job: Current, call_next: Callable[[], Awaitable[Any]]) -> Any:
        try:
            value = await call_next()
        except HandOver:
            seen.append("went on")
            raise
        except Exception as error:
            seen.append(f"failed: {error}")
            raise
        seen.append(f"{value}")
        return value

    async with graph_app.worker(children=1, concurrency=5):
        for place in PLACES:
            seen.clear()
            assert await within(await getattr(t, f"replaced_{place}").enqueue(1)) == 4
            assert seen == ["went on", "2", "4"], place


async def test_enqueue_middleware_sees_what_a_job_becomes(graph_app: Windlass, t: Tasks) -> None:
    seen: list[str] = []

    @graph_app.around_enqueue
    async def mark(drafts: list[Draft], submit: Submit) -> list[Answer]:
        for draft in drafts:
            draft.headers = {**draft.headers, "tenant": "acme"}
        answers = await submit(drafts)
        seen.extend(
            f"{draft.task.rpartition('.')[2]} {answer.status}" for draft, answer in zip(drafts, answers, strict=True)
        )
        return answers

    async with graph_app.worker(concurrency=5):
        for place in ("on_loop", "in_thread"):
            seen.clear()
            handle = await getattr(t, f"replaced_{place}").enqueue(1)
            assert await within(handle) == 4
            assert seen == [f"replaced_{place} accepted", "add accepted", "double accepted"]
            members = await graph_app.workflow((await handle.record()).awaits).jobs()
            assert [job.headers["tenant"] for job in members] == ["acme", "acme"]


async def test_enqueue_middleware_may_refuse_what_a_job_becomes(graph_app: Windlass, t: Tasks) -> None:
    @graph_app.around_enqueue
    async def refuse(drafts: list[Draft], submit: Submit) -> list[Answer]:
        if len(drafts) > 1:
            raise ValueError("not today")
        return await submit(drafts)

    async with graph_app.worker(concurrency=5):
        for place in ("on_loop", "in_thread"):
            with pytest.raises(JobFailed, match="not today"):
                await within(await getattr(t, f"replaced_{place}").enqueue(1))


# -- when staging does not go well


async def test_a_graph_is_staged_again_when_the_store_does_not_answer(t: Tasks, worker: Worker, faults: Faults) -> None:
    faults.fail("insert_graph", StoreUnavailable("gone"))
    faults.lose_reply("insert_graph")
    assert await within(await t.replaced_on_loop.enqueue(1)) == 4


async def test_values_are_read_again_when_the_store_does_not_answer(t: Tasks, worker: Worker, faults: Faults) -> None:
    faults.fail("inputs", StoreUnavailable("gone"), times=2)
    assert await value_of(chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s())) == 6


@pytest.mark.parametrize("status", [Accept.CONFLICT, Accept.REFUSED, Accept.DUPLICATE])
async def test_a_graph_the_store_does_not_take_fails_the_job(t: Tasks, worker: Worker, status: Accept) -> None:
    async def refuse(*args: Any, **kwargs: Any) -> GraphAnswer:
        return GraphAnswer(status, "because")

    worker.executor._graphs._store.insert_graph = refuse  # type: ignore[method-assign]
    handle = await t.replaced_on_loop.enqueue(1)
    with pytest.raises(JobFailed, match=r"workflow .* was not accepted: because"):
        await within(handle)


async def test_an_error_of_the_store_fails_the_job(t: Tasks, worker: Worker) -> None:
    async def refuse(*args: Any, **kwargs: Any) -> GraphAnswer:
        raise RuntimeError("a bug")

    worker.executor._graphs._store.insert_graph = refuse  # type: ignore[method-assign]
    with pytest.raises(JobFailed, match="a bug"):
        await within(await t.replaced_on_loop.enqueue(1))


async def test_a_cancel_while_the_graph_is_staged_is_heeded(t: Tasks, worker: Worker) -> None:
    store = worker.executor._graphs._store
    plain, gate, asked = store.insert_graph, asyncio.Event(), asyncio.Event()

    async def late(*args: Any, **kwargs: Any) -> GraphAnswer:
        asked.set()
        await gate.wait()
        return await plain(*args, **kwargs)

    store.insert_graph = late  # type: ignore[method-assign]
    handle = await t.replaced_on_loop.enqueue(1)
    await within(asked.wait())
    assert worker.executor.active == 0
    assert await handle.cancel("not needed")
    gate.set()
    with pytest.raises(JobCancelled):
        await within(handle)


async def test_a_worker_that_stops_finishes_staging(graph_app: Windlass, t: Tasks) -> None:
    async with graph_app.worker(concurrency=5) as worker:
        store = worker.executor._graphs._store
        plain, gate, asked = store.insert_graph, asyncio.Event(), asyncio.Event()

        async def late(*args: Any, **kwargs: Any) -> GraphAnswer:
            asked.set()
            await gate.wait()
            return await plain(*args, **kwargs)

        store.insert_graph = late  # type: ignore[method-assign]
        handle = await t.replaced_on_loop.enqueue(1)
        await within(asked.wait())
        asyncio.get_running_loop().call_later(0.05, gate.set)
    info = await handle.info()
    assert info is not None
    assert info.state is State.WAITING


async def test_repaired_workflows_are_told_and_counted(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "windlass.worker"):
        worker._heartbeat._tell_of(SweepReply(repaired=["g1", "g2"]))
    assert "g1, g2" in caplog.text
    assert worker._presence().load["repaired"] == 2
