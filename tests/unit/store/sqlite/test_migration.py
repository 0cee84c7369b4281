"""A file that an older Windlass wrote: opened, it is migrated, with all that is in it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from windlass.core.job import State
from windlass.errors import StoreError, StoreOutdated
from windlass.operate.timetable import read_all
from windlass.store.base import StoreSettings
from windlass.store.items import Append, Commit, Put
from windlass.store.sqlite.connection import SCHEMA, read_sql
from windlass.store.sqlite.store import SQLiteStore
from windlass.testing.conformance.bench import LEASE, START, Bench, ManualClock, move
from windlass.testing.conformance.outcomes import DONE

OLD = Path(__file__).parents[3] / "data" / "sqlite_schema_4.sql"
"""Jobs in every state, a strict lane, a unique key, a chord under way, a schedule, shelves, locks; and a worker."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute(OLD.read_text(encoding="utf-8"))
    return path


@pytest.fixture
async def bench(path: Path) -> AsyncIterator[Bench]:
    clock, settings = ManualClock(START + 1_000), StoreSettings()
    store = SQLiteStore(f"sqlite:///{path}", settings, clock)
    await store.open()

    async def make(*, settings: StoreSettings = settings, clock: object) -> SQLiteStore:
        return store

    yield Bench(make, store, clock, settings)
    await store.close()


def shape(db: apsw.Connection) -> set[str]:
    """What there is in a file, whatever its white space and comments."""
    words = [re.sub(r"--.*", "", sql) for (sql,) in db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")]
    return {re.sub(r'[\s"]+', "", sql) for sql in words}


async def test_a_migrated_file_has_the_shape_of_a_new_one(bench: Bench, path: Path) -> None:
    new = apsw.Connection(":memory:")
    new.execute(read_sql("schema.sql"))
    with contextlib.closing(apsw.Connection(str(path))) as db:
        assert shape(db) == shape(new)
        assert db.execute("SELECT schema FROM windlass").get == SCHEMA


async def test_all_jobs_go_on_where_they_were(bench: Bench) -> None:
    assert await bench.states("ready", "k0", "ready2", "dead", "done", "u", "later") == [
        State.SUCCEEDED, State.FAILED, State.RUNNING, State.RUNNING, State.RUNNING, State.SCHEDULED, State.SCHEDULED,
    ]  # fmt: skip
    assert [line.text for line in await bench.store.lines("ready")] == ["one line", "another"]
    await bench.passes(2 * LEASE)  # the worker is dead, and its jobs come back after a pause
    worker = await bench.worker("w2")
    order: list[str] = []
    while claims := await worker.claim():
        order += [claim.id for claim in claims]
        await worker.exchange([move(claim, DONE) for claim in claims])
    assert [id for id in order if id.startswith("k")] == ["k1", "k2"]
    assert {"running", "ready2", "dead", "done", "m1", "m2", "m3"} <= set(order)
    assert (await bench.graph()).state is State.SUCCEEDED


async def test_schedules_items_and_locks_are_there(bench: Bench) -> None:
    [nightly] = await read_all(bench.store)
    assert (nightly.name, nightly.next_slot) == ("nightly", START + 86_400_000)
    [view] = await bench.store.shelf("views")
    assert (view.key, view.body, view.ttl) == ("mine", b'{"name":"mine"}', 0)
    [audited] = await bench.store.shelf("audit")
    assert 0 < audited.ttl < 86_400_000
    names = [("locks", "report"), ("once", "charge"), ("notices", "book"), ("schedules.declared", "abc")]
    found = [(await bench.store.items(shelf, [key]))[0] for shelf, key in names]
    assert [item.body for item in found] == [b"holder", b"+1", b"{}", b'["nightly"]']
    assert found[2].ttl == 0
    [fresh] = (await bench.store.commit([Commit(items=[Put(shelf="s", key="k", body=b"x")])]))[0].items
    assert fresh.version > max(item.version for item in [*found, view, audited])


async def test_what_is_new_works_on_it(bench: Bench) -> None:
    [done] = await bench.store.commit([Commit(appends=[Append(log="l", stream="s", bodies=[b"1"], expect=0)])])
    assert done.done
    assert [record.body for record in await bench.store.records("l")] == [b"1"]


async def test_many_that_open_it_at_once_migrate_it_once(path: Path) -> None:
    stores = [SQLiteStore(f"sqlite:///{path}", StoreSettings()) for _ in range(4)]
    await asyncio.gather(*[store.open() for store in stores])
    assert [len(await read_all(store)) for store in stores] == [1] * 4
    for store in stores:
        await store.close()


async def test_a_process_of_the_old_version_is_told_to_go(bench: Bench, path: Path) -> None:
    """Its every write ends with this statement; nothing of such a transaction stays."""
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute("BEGIN IMMEDIATE; DELETE FROM jobs")
        with pytest.raises(apsw.ConstraintError, match="migrated by a newer Windlass: restart this process"):
            db.execute("UPDATE windlass SET last = 1, shift = 0, ranks = 1, schedules = 0")
        db.execute("ROLLBACK")
    assert await bench.state("later") is State.SCHEDULED


async def test_a_process_that_is_overtaken_later_is_told_so(bench: Bench, path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE windlass SET schema = ?", (SCHEMA + 1,))
    with pytest.raises(StoreOutdated, match=rf"schema {SCHEMA + 1}.*restart this process"):
        await bench.add("new")
    with pytest.raises(StoreOutdated):
        await bench.store.get(["later"])


async def test_a_file_of_before_the_first_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SQLiteStore(f"sqlite:///{path}", StoreSettings())
    await store.open()
    await store.close()
    with contextlib.closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE windlass SET schema = 3")
    with pytest.raises(StoreError, match=r"schema 3.*begin with a new file"):
        await store.open()
