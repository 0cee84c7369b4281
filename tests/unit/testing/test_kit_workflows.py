"""Workflows in the harness: they run to their end in one drain, step by step, and delays pass by the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from windlass import Failure, JobFailed, State, Windlass, chain, chord, current, flow, group
from windlass.testing import Harness

app = Windlass("kit-workflows", "memory://")
seen: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


@app.task
async def add(x: int, y: int) -> int:
    seen.append(f"add {x} {y}")
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    seen.append("total")
    return sum(numbers)


@app.task(queue="elsewhere")
async def boom() -> int:
    raise ValueError("no money")


@app.task
async def told(failure: Failure) -> None:
    seen.append(failure.message)


@app.task
async def gathered() -> Any:
    return current().results


@app.task
async def grows(n: int) -> Any:
    return await current().replace(group(add.s(i, n) for i in range(n)))


@app.task
def grows_plainly(n: int) -> Any:
    return current().replace(add.s(n, 1))


@app.task(runs_in="process")
def waits(n: int) -> Any:
    return [*current().wait_for(*(add.s(i, n) for i in range(n))), "end"]


async def test_one_drain_runs_a_workflow_to_its_end() -> None:
    async with Harness(app) as h:
        handle = await chord([chain(add.s(1, 1), add.s(2)), add.s(3, 3)], total.s()).enqueue()
        h.assert_enqueued(total, count=1)
        drained = await h.drain()
        assert (drained.ran, drained.succeeded) == (4, 4)
        assert await handle == 10
        assert seen[-1] == "total"
        h.assert_succeeded(add, count=3)


async def test_a_failure_and_its_callback() -> None:
    async with Harness(app) as h:
        handle = await chain(boom.s(), add.s(1)).on_error(told.s()).enqueue()
        await h.drain()
        assert seen == ["no money"]
        h.assert_dead_lettered(boom, error=ValueError)
        with pytest.raises(JobFailed, match="no money"):
            await handle


async def test_delays_count_from_the_release() -> None:
    async with Harness(app) as h:
        handle = await chain(add.s(1, 1).set(delay="1h"), add.s(1).set(delay="1h")).enqueue()
        await h.drain()
        assert seen == []
        await h.advance("1h")
        assert seen == ["add 1 1"]
        await h.advance("59m")
        assert await handle.state() is State.RUNNING
        await h.advance("1m")
        assert await handle == 3


async def test_more_than_one_step_of_the_store_can_do() -> None:
    async with Harness(app) as h:
        handle = await chord([add.s(i, 0) for i in range(1_200)], total.s()).enqueue()
        await h.drain()
        assert await handle == sum(range(1_200))


async def test_flows_and_jobs_that_grow() -> None:
    async with Harness(app) as h:
        handle = await flow(gathered.s(), needs=[grows.s(2), waits.s(2)]).enqueue()
        await h.drain()
        assert await handle == [[2, 3], [2, 3, "end"]]


def test_sync_tests_run_workflows_too() -> None:
    with Harness(app, inline=True) as h:
        handle = chord([add.s(1, 1), add.s(2, 2)], total.s()).delay()
        h.drain_sync()
        assert handle.get(timeout=5) == 6


def test_plain_functions_grow_where_they_block_the_loop() -> None:
    with Harness(app, inline=True) as h:
        handle = chain(grows_plainly.s(2), waits.s()).delay()
        h.drain_sync()
        assert handle.get(timeout=5) == [3, 4, 5, "end"]


async def test_a_job_may_wait_for_a_workflow_it_submits() -> None:
    async with Harness(app) as h:
        handle = await submits.enqueue()
        await h.drain()
        assert await handle == 6


@app.task
async def submits() -> int:
    result: int = await (await chord([add.s(1, 1), add.s(2, 2)], total.s()).enqueue())
    return result
