"""What lanes, gates and keys cost on SQLite, and what is left of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from windlass.core.job import NewJob
from windlass.core.lifecycle import Succeeded, decide
from windlass.core.limits import Limits, Rate
from windlass.core.terms import Terms
from windlass.store.base import StoreSettings
from windlass.store.flow import Tuning
from windlass.store.jobs import Declared, ExchangeReply, Presence, Want
from windlass.store.machine.ops import Kind
from windlass.store.machine.tx import Tx
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.sql.tx import BEGIN


class Worker:
    """A worker that asks for 50 jobs and settles what it got."""

    def __init__(self, store: SQLiteStore, queue: str = "q") -> None:
        self.store, self.queue, self.seq, self.held = store, queue, 0, ExchangeReply()

    async def start(self) -> Worker:
        presence = Presence(id=self.queue, queues=[self.queue], declares={"t": Declared()}, lease=600_000)
        await self.store.beat(presence, 0, [])
        return self

    async def exchange(self, want: int = 50) -> list[str]:
        self.seq += 1
        moves = [decide(claim, Succeeded(b"1")) for claim in self.held.claims]
        self.held = await self.store.exchange(self.queue, self.seq, moves, Want([(self.queue, want)], want))
        return [claim.id for claim in self.held.claims]

    async def drain(self) -> list[str]:
        ran: list[str] = []
        while got := await self.exchange():
            ran += got
        return ran


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(f"sqlite:///{tmp_path}/jobs.db", StoreSettings())
    await store.open()
    yield store
    await store.close()


def job(n: int, **fields: Any) -> NewJob:
    return NewJob(id=f"j{n:05}", task="t", queue="q", payload=b"[1]", **fields)


@contextlib.contextmanager
def traced(store: SQLiteStore) -> Iterator[list[str]]:
    """The statements that are run meanwhile."""
    seen: list[str] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        seen.append(sql)
        return True

    db = store._database._db
    assert db is not None
    db.exec_trace = trace
    yield seen
    db.exec_trace = None


async def rows(store: SQLiteStore, table: str) -> int:
    def count(tx: Tx) -> int:
        return int(tx.value(f"SELECT count(*) FROM {table}"))

    return await store._database.run(Kind.READ, count)


async def test_where_there_are_no_lanes_nobody_looks_for_any(store: SQLiteStore) -> None:
    worker = await Worker(store).start()
    await store.insert([job(n) for n in range(100)])
    await worker.exchange()
    with traced(store) as seen:
        await worker.exchange()
    assert len(seen) <= 12
    asked = [sql for sql in seen if "lanes" in sql or "gates" in sql or "uniques" in sql]
    assert asked == [BEGIN], "whether there are any is read with all else that a transaction begins with"


async def test_an_exchange_takes_as_many_statements_for_thousands_of_keys_as_for_ten(store: SQLiteStore) -> None:
    worker = await Worker(store).start()
    counts = []
    for keys in (10, 2_000):
        for first in range(0, 2_000, 1_000):
            jobs = [job(n + 10_000 * keys, terms=Terms(key=f"k{n % keys}")) for n in range(first, first + 1_000)]
            await store.insert(jobs)
        await worker.exchange()
        with traced(store) as seen:
            assert len(await worker.exchange()) == 50
        counts.append(len(seen))
        assert len(await worker.drain()) == 1_900
    assert counts[1] <= counts[0]


async def test_an_insert_takes_as_many_statements_for_many_keys_as_for_one(store: SQLiteStore) -> None:
    counts = []
    for first, keys in ((0, 1), (1_000, 500)):
        with traced(store) as seen:
            await store.insert([job(first + n, terms=Terms(key=f"k{n % keys}")) for n in range(500)])
        counts.append(len(seen))
    assert counts[1] <= counts[0]


async def test_a_batch_of_unique_jobs_is_not_asked_for_one_by_one(store: SQLiteStore) -> None:
    await store.insert([job(n, terms=Terms(unique=f"u{n}")) for n in range(100)])
    with traced(store) as seen:
        await store.insert([job(500 + n, terms=Terms(unique=f"u{n}", max_ready=900)) for n in range(200)])
    assert len(seen) <= 20


async def test_nothing_stays_of_keys_that_are_not_used(store: SQLiteStore) -> None:
    worker = await Worker(store).start()
    fast = Rate(1, 1_000)
    terms = [
        Terms(key="a"), Terms(key="b", ordered=True), Terms(key="c", key_limit=1, key_rate=fast),
        Terms(unique="u"), Terms(batch=True), Terms(breaker="b"),
    ]  # fmt: skip
    await store.insert([job(n, terms=one) for n, one in enumerate(terms)])
    assert len(await worker.drain()) == len(terms)
    await store.sweep()
    assert [await rows(store, table) for table in ("lanes", "keys", "uniques", "gates")] == [0, 0, 0, 0]


async def test_gates_that_say_nothing_any_more_are_forgotten(store: SQLiteStore) -> None:
    await store.tune([Tuning(name="task:t", declared=Limits(limit=1), note=b"x")])
    await store.tune([Tuning(name="task:t", declared=Limits(), note=b"")])
    await store.sweep()
    assert await rows(store, "gates") == 0


async def test_a_unit_is_not_kept_for_a_queue_nobody_works_on(store: SQLiteStore) -> None:
    await store.tune([Tuning(name="task:t", tuned=Limits(limit=1))])
    worker, other = await Worker(store).start(), await Worker(store, "r").start()
    await store.insert([job(0)])
    assert await worker.exchange() == ["j00000"]
    await store.insert([NewJob(id="elsewhere", task="t", queue="r", payload=b"[]"), job(1), job(2)])
    assert await other.exchange() == []
    await store.leave("r")
    assert await worker.exchange() == ["j00001"]
    assert await worker.exchange() == ["j00002"]


async def test_a_lane_whose_holder_was_lost_goes_on(store: SQLiteStore, tmp_path: Path) -> None:
    worker = await Worker(store).start()
    await store.insert([job(n, terms=Terms(key="k", ordered=True)) for n in range(2)])
    assert await worker.exchange() == ["j00000"]
    with contextlib.closing(apsw.Connection(f"{tmp_path}/jobs.db")) as db:
        db.set_busy_timeout(5_000)
        db.execute("DELETE FROM jobs WHERE id = 'j00000'")
    await store.sweep()
    assert await worker.exchange() == ["j00001"]


def test_the_places_of_terms_are_those_the_sql_reads() -> None:
    places = {name: place for place, name in enumerate(Terms.__struct_fields__)}
    wanted = {"gap": 3, "key_limit": 4, "units": 6, "breaker": 7, "ageing": 9, "unique": 10, "window": 12}
    assert wanted.items() <= places.items()
