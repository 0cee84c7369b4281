"""What user code and callers say, one by one: texts with half a character, numbers JSON has not, marks of our own."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import eventually, within
from windlass import Cancel, JobCancelled, JobFailed, Reject, State, Windlass, chain, current
from windlass.console.console import Console
from windlass.core.job import NewJob
from windlass.errors import ConfigError, PayloadError
from windlass.operate import timetable
from windlass.store.items import Put, put_all

HALF = "cut \ud83d"


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param, "")
    if not url:
        url = f"{request.getfixturevalue('redis7').url}?prefix={fresh_prefix()}"
    app = Windlass("gate", url)
    yield app
    await app.close()


@pytest.mark.parametrize(
    ("error", "state"),
    [(Cancel(HALF), State.CANCELLED), (Reject(HALF), State.FAILED), (ValueError(HALF), State.FAILED)],
)
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_half_a_character_ends_its_job_alone(app: Windlass, error: Exception, state: State, place: str) -> None:
    if place == "loop":

        @app.task
        async def bad() -> None:
            raise error
    else:

        @app.task
        def bad() -> None:
            raise error

    @app.task
    async def good(n: int) -> int:
        return n

    async with app, app.worker() as worker:
        handles = await app.enqueue_many([bad.s(), *map(good.s, range(20))])
        assert [await within(handle) for handle in handles[1:]] == list(range(20))
        with pytest.raises((JobFailed, JobCancelled)):
            await within(handles[0])
        info = await handles[0].info()
        assert info is not None
        assert info.state is state
        said = info.reason + (info.error.message if info.error else "")
        assert r"cut \ud83d" in said
        assert worker.exit_code == 0
        await eventually(lambda: not worker.executor.held)


async def test_numbers_that_json_has_not_are_refused_where_they_are_said(app: Windlass) -> None:
    @app.task
    async def untyped() -> Any:
        return {"prices": [1.5, math.nan]}

    @app.task
    async def typed() -> float:
        return math.inf

    @app.task
    async def follow(value: Any) -> Any:
        return value

    @app.task
    async def progress() -> str:
        with pytest.raises(PayloadError):
            current().progress(math.nan)
        with pytest.raises(PayloadError):
            current().progress(1, n=[math.inf])
        return "refused"

    async with app, app.worker():
        for call, where in (
            (untyped.s(), r"\['prices'\]\[1\] is nan"),
            (typed.s(), "inf"),
            (chain(untyped.s(), follow.s()), "nan"),
        ):
            with pytest.raises(JobFailed, match=where):
                await within(await call.enqueue())
        assert await within(await progress.enqueue()) == "refused"
        assert len((await app.jobs()).jobs) >= 4


async def test_a_result_shaped_like_a_failure_is_a_result(app: Windlass) -> None:
    marked = {"windlass": "failure", "job": "x", "task": "x", "state": "failed", "type": "x", "message": "x"}

    @app.task
    async def give() -> Any:
        return [marked]

    @app.task
    async def follow(value: Any) -> Any:
        return value

    async with app, app.worker():
        assert await within(await chain(give.s(), follow.s()).enqueue()) == [marked]
        assert await within(await give.enqueue()) == [marked]


async def test_callers_are_told_which_text_cannot_be_kept(app: Windlass) -> None:
    @app.task
    async def plain(text: str = "") -> None: ...

    async with app:
        for call in (
            lambda: plain.options(headers={"a": HALF}).enqueue(), lambda: plain.options(headers={HALF: "a"}).enqueue(),
            lambda: plain.options(correlation_id=HALF).enqueue(), lambda: plain.options(id=HALF).enqueue(),
            lambda: plain.enqueue(HALF),
        ):  # fmt: skip
            with pytest.raises((ConfigError, PayloadError), match=r"half|ud83d"):
                await call()
        handle = await plain.options(delay="1h").enqueue()
        assert await handle.cancel(HALF)
        info = await handle.info()
        assert info is not None
        assert info.reason == r"cut \ud83d"


def test_a_coroutine_is_no_backoff() -> None:
    async def backoff(attempt: int, error: BaseException) -> int:
        return 1

    with pytest.raises(ConfigError, match="backoff"):

        @Windlass("x", "memory://").task(retries=1, backoff=backoff)  # type: ignore[arg-type]
        async def task() -> None: ...


async def test_records_nobody_can_read_are_shown_as_such(app: Windlass) -> None:
    """Of a schedule, of a job's meta, arguments, error and progress: whoever wrote them, the lists go on."""
    garbage = b'{"half'

    @app.task
    async def good(n: int) -> int:
        return n

    async with app, app.worker() as worker:
        store = (await app.client()).store
        await put_all(store, [Put(shelf=timetable.SHELF, key="odd", body=garbage)])
        bad = [
            NewJob(id="meta", task=good.name, queue="default", payload=b'{"n":1}', meta=garbage),
            NewJob(id="args", task=good.name, queue="default", payload=garbage),
        ]
        await store.insert(bad)
        handles = await app.enqueue_many([good.s(n) for n in range(10)])
        assert [await within(handle) for handle in handles] == list(range(10))
        await eventually(lambda: not worker.executor.held)
        console = Console(app)
        assert [row.task for row in await console.schedules()] == ["<cannot be read>"]
        assert [row.task for row in (await app.schedules.list())] == ["<cannot be read>"]
        for id in ("meta", "args"):
            info = await app.job(id).info()
            assert info is not None
            await console.job(id)
        info = await app.job("args").info()
        assert info is not None
        assert info.state is State.FAILED
        assert "cannot be read" in info.args
        assert len((await app.jobs()).jobs) == 12
        assert worker.exit_code == 0
