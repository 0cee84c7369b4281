"""A worker whose store was changed by a newer version: it ends, and nothing of it is taken any more."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import apsw
import pytest

from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import SHORT, eventually
from windlass import State, Windlass
from windlass.errors import StoreOutdated
from windlass.store.sqlite.connection import SCHEMA
from windlass.worker.service import EXIT_REPLACE


def overtake_sqlite(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.set_busy_timeout(5_000)
        db.execute("UPDATE windlass SET schema = ?", (SCHEMA + 1,))


def overtake_redis(server: RedisServer, prefix: str) -> None:
    meta = f"{{{prefix}}}:meta"
    numbers = server.command("HGET", meta, "numbers").encode(errors="surrogateescape")
    server.command("HSET", meta, "numbers", bytes([numbers[0] + 1]) + numbers[1:])


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
async def test_a_worker_that_is_overtaken_ends_to_be_replaced(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, prefix = tmp_path / "jobs.db", fresh_prefix()
    server: RedisServer | None = request.getfixturevalue("redis7") if engine == "redis" else None
    url = f"{server.url}?prefix={prefix}" if server else f"sqlite:///{path}"
    app, begun, stopped = Windlass("old", url, **SHORT), asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        worker = await stack.enter_async_context(app.worker(grace=0.1))
        handle = await long.enqueue()
        await begun.wait()
        info = await handle.info()
        assert info is not None
        assert info.state is State.RUNNING
        if server:
            overtake_redis(server, prefix)
        else:
            overtake_sqlite(path)
        await eventually(worker.stop_requested.is_set)
        assert worker.exit_code == EXIT_REPLACE
        await eventually(stopped.is_set)
        with pytest.raises(StoreOutdated, match="restart this process"):
            await long.enqueue()
