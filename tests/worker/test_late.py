"""``ResultTimeout`` says what is in the way of a result, on every engine: it is looked for only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT, eventually
from windlass import ResultTimeout, Windlass, chain, group


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, **SHORT)

    @app.task(name="add", queue="sums")
    async def add(x: int) -> int:
        return x + 1

    @app.task(name="slow", queue="sums")
    async def slow(x: int) -> int:
        await asyncio.sleep(60)
        return x

    yield app
    await app.close()


async def said(handle: Any) -> str:
    with pytest.raises(ResultTimeout) as caught:
        await handle.result(timeout=0.05)
    return str(caught.value)


async def test_no_worker_serves_the_queue(app: Windlass) -> None:
    handle = await app.tasks["add"].enqueue(1)
    text = await said(handle)
    assert text.startswith(f"job {handle.id} gave no result within 50ms; it goes on: ")
    assert "no live worker takes jobs from queue 'sums'" in text


async def test_no_worker_declares_the_task(app: Windlass) -> None:
    handle = await app.queue("sums").add("nobodys")
    async with app.worker():
        assert "no live worker of queue 'sums' declares task 'nobodys'" in await said(handle)


async def test_the_queue_is_paused(app: Windlass) -> None:
    await app.queue("sums").pause()
    handle = await app.tasks["add"].enqueue(1)
    async with app.worker():
        assert "paused" in await said(handle)


async def test_it_is_just_slow(app: Windlass) -> None:
    async with app.worker(grace=0.05) as worker:
        handle = await app.tasks["slow"].enqueue(1)
        await eventually(lambda: worker.executor.active)
        assert "running for" in await said(handle)


@pytest.mark.parametrize("shape", ["chain", "group"])
async def test_a_workflow_names_the_job_that_is_late(app: Windlass, shape: str) -> None:
    add = app.tasks["add"]
    flow = await (chain(add.s(1), add.s()) if shape == "chain" else group(add.s(1), add.s(2))).enqueue()
    text = await said(flow)
    assert text.startswith(f"workflow {flow.id} was not over within 50ms; it goes on: job ")
    assert "(add): no live worker takes jobs from queue 'sums'" in text


def test_sync_code_hears_the_same(tmp_path: Path) -> None:
    app = Windlass("late", f"sqlite:///{tmp_path}/late.db?durability=normal")

    @app.task(queue="sums")
    def one() -> int:
        return 1

    handles: list[Any] = [one.delay(), group(one.s()).delay()]
    for handle in handles:
        with pytest.raises(ResultTimeout, match="no live worker takes jobs from queue 'sums'"):
            handle.get(timeout=0.05)
    asyncio.run(app.close())
