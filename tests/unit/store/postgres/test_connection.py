"""What becomes of calls, and of who listens, when connections go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from tests.servers.postgres import PostgresServer, fresh_schema
from windlass.core.job import Finished, NewJob
from windlass.store.base import StoreSettings
from windlass.store.postgres import PostgresStore, ear


@pytest.fixture
async def store(postgres18: PostgresServer) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(f"{postgres18.url()}?schema={fresh_schema()}", StoreSettings(name=f"conn-{fresh_schema()}"))
    await store.open()
    yield store
    await store.close()


async def until(condition: Callable[[], bool], timeout: float = 30) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        await asyncio.sleep(0.01)


def new_job(id: str) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"{}", meta=b"{}")


def end_connections(server: PostgresServer, store: PostgresStore, listening: bool) -> int:
    name = f"windlass {store._database.memo.settings.name}" + (" listens" if listening else "")
    sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = left(%s, 63)"
    return len(server.command(sql, (name,)))


async def test_a_call_after_the_connection_was_ended_is_made_on_another(
    store: PostgresStore, postgres18: PostgresServer
) -> None:
    await store.insert([new_job("a")])
    assert end_connections(postgres18, store, listening=False) == 1
    await store.insert([new_job("b")])
    assert [job is not None for job in await store.get(["a", "b"])] == [True, True]


async def test_who_listens_is_woken_when_it_hears_again(store: PostgresStore, postgres18: PostgresServer) -> None:
    heard: list[list[Finished]] = []
    await store.listen("w", heard.append)
    assert end_connections(postgres18, store, listening=True) == 1
    await until(lambda: heard == [[]])
    await store.signal(["w"])
    await until(lambda: len(heard) == 2)


async def test_an_ear_that_has_gone_deaf_is_replaced(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ear, "PATIENCE", 0.2)
    real, connections = psycopg.AsyncConnection.notifies, list[object]()

    async def first_one_hears_nothing(db: Any, *, timeout: float) -> AsyncIterator[Any]:
        if db not in connections:
            connections.append(db)
        if db is connections[0]:
            await asyncio.sleep(timeout)
            return
        async for notice in real(db, timeout=timeout):
            yield notice

    monkeypatch.setattr(psycopg.AsyncConnection, "notifies", first_one_hears_nothing)
    heard: list[list[Finished]] = []
    await store.listen("w", heard.append)
    await until(lambda: heard == [[]])
    await store.signal(["w"])
    await until(lambda: len(heard) == 2)
    assert len(connections) == 2
