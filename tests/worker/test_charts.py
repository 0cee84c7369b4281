"""Charts and loads of real workers: counted right, kept as far as written when one is killed, and off when told so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT, Fleet, eventually
from windlass import Reject, Retry, Windlass, __version__, current
from windlass.console import Console
from windlass.core.chart import HOURS, MINUTES


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis7").url)
    return f"sqlite:///{tmp_path}/charts.db?durability=normal"


@pytest.fixture
async def app(url: str) -> AsyncIterator[Windlass]:
    app = Windlass(fresh_prefix(), url, **SHORT)
    yield app
    await app.close()


def declare(app: Windlass) -> None:
    @app.task(name="ends", queue="work", retries=2, backoff=0)
    async def ends(how: str) -> None:
        if how == "fails":
            raise Reject("so it is")
        if how == "stumbles" and current().attempt == 1:
            raise Retry(delay=0)

    @app.task(name="other", queue="rest")
    async def other() -> None: ...


async def counts(app: Windlass, **narrow: str) -> Counter[str]:
    """What a chart of the last hour adds up to, read anew."""
    reader = Windlass(app.name, app.url, **SHORT)
    try:
        chart = await Console(reader).chart("1h", **narrow)
        assert sum((Counter(point.counts) for point in chart.points), Counter()) == Counter(chart.counts)
        return Counter(chart.counts)
    finally:
        await reader.close()


async def test_what_two_workers_did_is_in_the_charts(app: Windlass) -> None:
    declare(app)
    ways = ["well"] * 20 + ["fails"] * 3 + ["stumbles"] * 2
    async with app.worker(concurrency=4), app.worker(concurrency=4):
        for how in ways:
            await app.tasks["ends"].enqueue(how)
        for _ in range(5):
            await app.tasks["other"].enqueue()
        await eventually(lambda: all_over(app, 30))
    assert await counts(app) == {"succeeded": 27, "failed": 3, "retried": 2}
    assert await counts(app, queue="work") == {"succeeded": 22, "failed": 3, "retried": 2}
    assert await counts(app, task="other") == {"succeeded": 5}
    chart = await Console(app).chart("24h")
    assert chart.counts == {"succeeded": 27, "failed": 3, "retried": 2}, "the hours say the same as the minutes"
    assert all(value is not None for value in (*chart.run, *chart.wait))


async def all_over(app: Windlass, jobs: int) -> bool:
    queues = await app.queues()
    return sum(queue.counts.get(state, 0) for queue in queues for state in ("succeeded", "failed")) == jobs


async def test_nothing_is_written_where_charts_are_off(url: str) -> None:
    app = Windlass(fresh_prefix(), url, charts=False, **SHORT)
    declare(app)
    async with app.worker():
        await (await app.tasks["ends"].enqueue("well")).result(timeout=20)
    store = (await app.client()).store
    assert await store.shelf(MINUTES) == []
    assert await store.shelf(HOURS) == []
    assert (await Console(app).chart("1h")).counts == {}
    await app.close()


@pytest.fixture
def workers(url: str, app: Windlass, tmp_path: Path) -> Iterator[Fleet]:
    env = {"E2E_URL": url, "E2E_NAME": app.name, "E2E_LEDGER": str(tmp_path / "mended")}
    fleet = Fleet("tests.worker.watched:app", tmp_path, env)
    yield fleet
    fleet.end()


async def test_a_killed_workers_minute_is_kept_as_far_as_it_was_written(app: Windlass, workers: Fleet) -> None:
    worker = workers.start()
    for n in range(10):
        await app.queue("work").add("counts", {"n": n})
    await eventually(lambda: is_counted(app, 10), 40)
    worker.kill()
    worker.wait()
    assert await counts(app) == {"succeeded": 10}
    workers.start()
    await app.queue("work").add("counts", {"n": 11})
    await eventually(lambda: is_counted(app, 11), 40)


async def is_counted(app: Windlass, jobs: int) -> bool:
    return (await counts(app))["succeeded"] == jobs


async def test_a_workers_load_arrives_in_the_console(app: Windlass, workers: Fleet) -> None:
    process = workers.start(concurrency=7)
    await app.queue("work").add("counts", {"n": 1})
    waiting = await app.queue("work").add("waits", {})

    async def loaded() -> Any:
        found = [row for row in await Console(app).workers() if row.done == 1 and row.running == 1 and row.jobs]
        return found[0] if found else None

    row = await eventually(loaded, 30)
    assert (row.pid, row.slots, row.version, row.alive) == (process.pid, 7, __version__, True)
    assert 5_000_000 < row.memory < 2_000_000_000
    assert row.cpu is not None
    assert row.lag is not None
    assert row.queues == ["work"]
    assert row.id
    assert [job.id for job in row.jobs] == [waiting.id]
    assert os.getpid() != row.pid


async def test_jobs_are_found_by_tags_and_by_arguments_that_are_searched(app: Windlass) -> None:
    @app.task(name="bill", queue="work", tags=["money"], search=["user"])
    async def bill(user: int, sum: float = 1.0) -> None: ...

    first = await bill.enqueue(42)
    second = await bill.options(tags=["vip"]).enqueue(7)
    console = Console(app)

    async def found(filter: str) -> set[str]:
        return {job.id for job in (await console.jobs(filter)).jobs}

    assert await found("tag:money") == {first.id, second.id}
    assert await found("tag:vip") == {second.id}
    assert await found('tag:"user:42"') == {first.id}
    assert await found("tag:user:*") == {first.id, second.id}
    assert await found("tag:nothing") == set()
    assert (await console.job(second.id)).row.tags == ("money", "vip", "user:7")
    async with app.worker():
        await second.result(timeout=20)
    assert await found("state:succeeded tag:vip") == {second.id}
