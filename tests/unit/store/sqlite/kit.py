"""A SQLite store to be watched from inside: opened on a bench, with its statements noted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from windlass.store.base import Clock, Store, StoreSettings
from windlass.store.sqlite import SQLiteStore
from windlass.testing.conformance.bench import Bench, ManualClock

DEFAULTS = StoreSettings()


@asynccontextmanager
async def opened(path: Path, **settings: Any) -> AsyncIterator[Bench]:
    stores: list[SQLiteStore] = []

    async def make(*, settings: StoreSettings = DEFAULTS, clock: Clock) -> Store:
        store = SQLiteStore(f"sqlite:///{path}/jobs.db?durability=normal", settings, clock=clock)
        await store.open()
        stores.append(store)
        return store

    clock, chosen = ManualClock(), StoreSettings(**settings)
    bench = Bench(make, await make(settings=chosen, clock=clock), clock, chosen)
    try:
        yield bench
    finally:
        for store in stores:
            await store.close()


@contextmanager
def statements(bench: Bench) -> Iterator[list[str]]:
    """What is asked of SQLite meanwhile."""
    store, seen = bench.store, list[str]()
    assert isinstance(store, SQLiteStore)
    db = store._database._connection()

    def note(cursor: object, sql: str, bindings: object) -> bool:
        seen.append(sql)
        return True

    db.exec_trace = note
    try:
        yield seen
    finally:
        db.exec_trace = None
