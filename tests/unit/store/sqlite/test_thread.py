"""The database thread: group commit, failures that stay alone, durability, recovery of the connection, leaks."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from windlass.core.job import Claim, NewJob
from windlass.core.lifecycle import Succeeded, decide
from windlass.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.store.answers import Accept
from windlass.store.base import StoreSettings
from windlass.store.jobs import Declared, Presence, Query, Want
from windlass.store.machine.ops import Kind
from windlass.store.machine.tx import Tx
from windlass.store.sqlite import SQLiteStore, thread

WORKER = Presence(id="w", queues=["q"], declares={"t": Declared()})


@asynccontextmanager
async def opened(path: Path, options: str = "") -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(f"sqlite:///{path}/jobs.db{options}", StoreSettings())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def job(id: str, size: int = 2) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"x" * size)


def held_up(store: SQLiteStore) -> threading.Lock:
    """The lock under which the thread works: while a test holds it, operations pile up."""
    return store._database._lock


async def test_what_is_pending_shares_one_commit(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        before = store._database.commits
        with held_up(store):
            calls = [asyncio.create_task(store.insert([job(f"j{n}")])) for n in range(50)]
            await asyncio.sleep(0.05)
        answers = await asyncio.gather(*calls)
        assert all(answer[0].status is Accept.ACCEPTED for answer in answers)
        assert store._database.commits - before <= 2


async def test_one_that_fails_in_a_group_fails_alone(tmp_path: Path) -> None:
    def broken(tx: Tx) -> None:
        tx.run("DELETE FROM jobs")
        raise ZeroDivisionError

    async with opened(tmp_path) as store:
        await store.insert([job("first")])
        with held_up(store):
            good = asyncio.create_task(store.insert([job("a")]))
            bad = asyncio.create_task(store._database.run(Kind.DURABLE, broken))
            also = asyncio.create_task(store.insert([job("b")]))
            await asyncio.sleep(0.05)
        await asyncio.gather(good, also)
        with pytest.raises(ZeroDivisionError):
            await bad
        assert all(await store.get(["first", "a", "b"]))


async def test_a_refused_call_does_not_undo_its_neighbours(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.beat(WORKER, 0, [])
        await store.exchange("w", 5, [], Want([("q", 1)], 1))
        with held_up(store):
            good = asyncio.create_task(store.insert([job("a")]))
            late = asyncio.create_task(store.exchange("w", 4, [], Want([("q", 1)], 1)))
            await asyncio.sleep(0.05)
        await good
        with pytest.raises(StoreError, match="exchange 4 after 5"):
            await late
        assert all(await store.get(["a"]))


async def test_a_call_cancelled_while_it_waits_is_withdrawn(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with held_up(store):
            first = asyncio.create_task(store.insert([job("taken")]))
            await asyncio.sleep(0.05)
            call = asyncio.create_task(store.insert([job("a")]))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.sleep(0)
        await first
        assert await store.get(["taken", "a"]) != [None, None]
        assert (await store.get(["a"])) == [None]


@pytest.mark.parametrize(("options", "settling"), [("", 2), ("?durability=normal", 1)])
async def test_only_what_must_last_waits_for_the_disk(tmp_path: Path, options: str, settling: int) -> None:
    seen: list[int] = []

    def look(tx: Tx) -> None:
        seen.append(tx.value("PRAGMA synchronous"))

    async with opened(tmp_path, options) as store:
        for kind in (Kind.DURABLE, Kind.RELAXED, Kind.DURABLE):
            await store._database.run(kind, look)
        assert seen == [settling, 1, settling]
        assert (await store.info()).details["journal"] == "wal"


async def test_an_exchange_that_only_claims_is_relaxed_and_one_that_settles_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[Kind] = []
    async with opened(tmp_path) as store:
        run = store._database.run

        async def noted(kind: Kind, work: Any, brief: bool = False) -> Any:
            kinds.append(kind)
            return await run(kind, work)

        monkeypatch.setattr(store._database, "run", noted)
        await store.insert([job("a")])
        await store.beat(WORKER, 0, [])
        (claim,) = (await store.exchange("w", 1, [], Want([("q", 1)], 1))).claims
        await store.exchange("w", 2, [decide(claim, Succeeded())], Want([], 0))
    assert kinds == [Kind.DURABLE, Kind.RELAXED, Kind.RELAXED, Kind.DURABLE]


async def test_statements_are_compiled_once(tmp_path: Path) -> None:
    """With plans that depend on values SQLite compiles each claim anew, which costs more than the claim."""
    async with opened(tmp_path) as store:
        db = store._database._db
        assert db is not None
        assert db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1


async def test_a_lock_held_by_others_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        other = apsw.Connection(str(tmp_path / "jobs.db"))
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.insert([job("a")]))
        await asyncio.sleep(0.2)
        assert not call.done()
        other.execute("COMMIT")
        other.close()
        assert (await call)[0].status is Accept.ACCEPTED


async def test_a_lock_held_for_too_long_is_unavailable_and_then_well_again(tmp_path: Path) -> None:
    async with opened(tmp_path, "?timeout=0.2") as store:
        other = apsw.Connection(str(tmp_path / "jobs.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by other processes"):
            await store.insert([job("a")])
        assert await store.get(["a"]) == [None]  # reading goes on
        other.execute("COMMIT")
        other.close()
        assert (await store.insert([job("a")]))[0].status is Accept.ACCEPTED


async def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.insert([job("a")])
        db = store._database._db
        assert db is not None
        pages = db.pragma("page_count")
        db.pragma("max_page_count", pages + 2)
        with held_up(store):
            big = asyncio.create_task(store.insert([job("big", 100_000)]))
            small = asyncio.create_task(store.insert([job("small")]))
            await asyncio.sleep(0.05)
        with pytest.raises(StoreError, match="full"):
            await big
        assert (await small)[0].status is Accept.ACCEPTED
        db.pragma("max_page_count", pages + 1000)
        assert (await store.insert([job("big", 100_000)]))[0].status is Accept.ACCEPTED
        assert db.pragma("integrity_check") == "ok"


async def test_a_file_that_was_deleted_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "STAYS_CHECKED", 0.0)
    async with opened(tmp_path) as store:
        await store.insert([job("lost")])
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()
        await store.insert([job("a")])
        async with opened(tmp_path) as other:
            assert [found is not None for found in await other.get(["lost", "a"])] == [False, True]


async def test_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "CHECKPOINT_PAGES", 50)
    async with opened(tmp_path) as store:
        for n in range(60):
            await store.insert([job(f"{n}-{i}", 1000) for i in range(40)])
        assert (tmp_path / "jobs.db-wal").stat().st_size < 2_000_000


async def test_a_reader_that_stays_does_not_let_the_log_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "CHECKPOINT_PAGES", 50)
    monkeypatch.setattr(thread, "RESTART_PAGES", 100)
    monkeypatch.setattr(thread, "RESTART_PATIENCE", 0.02)
    async with opened(tmp_path) as store:
        reader = apsw.Connection(str(tmp_path / "jobs.db"))
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM jobs").get == 0
        for n in range(10):
            await store.insert([job(f"{n}-{i}", 1000) for i in range(40)])
        reader.close()
        for n in range(10, 40):
            await store.insert([job(f"{n}-{i}", 1000) for i in range(40)])
        assert (tmp_path / "jobs.db-wal").stat().st_size < 3_000_000
        assert len((await store.find(Query(limit=1000))).jobs) == 1000


async def test_closed_is_closed_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def once() -> SQLiteStore:
        async with opened(tmp_path) as store:
            await store.listen("me", lambda items: None)
            await store.insert([job("a")])
        return store

    await once()  # whatever is made once per process is made now
    files, threads = descriptors(), set(threading.enumerate())  # those of others, too
    for _ in range(3):
        store = await once()
    assert descriptors() == files
    left = set(threading.enumerate()) - threads
    assert len(left) <= 1  # the event loop's own helpers
    assert "windlass-sqlite" not in {thread.name for thread in left}
    assert sorted(os.listdir(tmp_path)) == ["jobs.db"]
    with pytest.raises(StoreClosed):
        await store.insert([job("a")])
    await store.close()


async def test_closing_waits_for_what_is_under_way_and_refuses_what_comes_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with held_up(store):
            call = asyncio.create_task(store.insert([job("a")]))
            await asyncio.sleep(0.02)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0.02)
        await closing
        assert (await call)[0].status is Accept.ACCEPTED
        with pytest.raises(StoreClosed):
            await store.get(["a"])


async def test_a_closed_store_can_be_opened_again(tmp_path: Path) -> None:
    store = SQLiteStore(f"sqlite:///{tmp_path}/jobs.db", StoreSettings())
    for n in range(2):
        await store.open()
        await store.open()
        await store.insert([job(f"j{n}")])
        await store.close()
        await store.close()


async def test_two_stores_on_two_loops_do_not_disturb_each_other(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        async with opened(tmp_path) as store:
            for n in range(30):
                await store.insert([job(f"{name}{n}")])

    other = threading.Thread(target=lambda: asyncio.run(work("b")))
    other.start()
    await work("a")
    await asyncio.to_thread(other.join)
    async with opened(tmp_path) as store:
        assert len((await store.find(Query(limit=100))).jobs) == 60


async def test_a_thread_inserts_on_its_own_or_joins_the_group(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert store.insert_here([job("a")])[0].status is Accept.ACCEPTED
        with held_up(store):
            calls = [asyncio.create_task(asyncio.to_thread(store.insert_here, [job(f"j{n}")])) for n in range(5)]
            await asyncio.sleep(0.1)
            assert not any(call.done() for call in calls)
        answers = await asyncio.gather(*calls)
        assert all(answer[0].status is Accept.ACCEPTED for answer in answers)
    with pytest.raises(StoreClosed):
        store.insert_here([job("late")])


async def test_an_interrupted_thread_leaves_no_transaction_open(tmp_path: Path) -> None:
    def interrupted(tx: Tx) -> None:
        tx.run("DELETE FROM jobs")
        raise KeyboardInterrupt

    async with opened(tmp_path) as store:
        store.insert_here([job("a")])
        with pytest.raises(KeyboardInterrupt):
            store._database.run_here(Kind.DURABLE, interrupted)
        assert (await store.insert([job("b")]))[0].status is Accept.ACCEPTED
        assert all(await store.get(["a", "b"]))


def test_a_claim_is_what_it_says() -> None:
    """The fields of a candidate are read by place: they must follow those of the claim."""
    from windlass.store.machine.flow.claim import Candidate

    shared = [name for name in Candidate.__struct_fields__ if name in Claim.__struct_fields__]
    of_graphs = Claim.__struct_fields__.index("graph")
    assert tuple(shared) == (*Claim.__struct_fields__[:of_graphs], "due_at")


def descriptors() -> int:
    time.sleep(0.01)
    return len(os.listdir("/proc/self/fd"))


async def test_a_brief_call_waits_for_nobody_on_the_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.insert([job("a")])
        with other._database._lock:
            db = other._database._connection()
            db.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(store.watch("nobody", ["a"]))
            await asyncio.sleep(0)
            assert not waiting.done()  # handed to the database thread, which waits; the loop goes on
            db.execute("ROLLBACK")
        assert (await waiting).missing == []


@pytest.mark.parametrize(("disk", "on_loop"), [(0.0001, True), (0.1, False)])
async def test_a_brief_write_is_made_on_the_loop_only_while_the_disk_is_quick(
    tmp_path: Path, disk: float, on_loop: bool
) -> None:
    async with opened(tmp_path) as store:
        database = store._database
        database._disk_seconds = disk
        where = await database.run(Kind.DURABLE, lambda tx: threading.current_thread(), brief=True)
        assert (where is threading.current_thread()) == on_loop


async def test_what_is_not_brief_is_never_made_on_the_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        database = store._database
        database._disk_seconds = 0.0
        for kind in Kind:
            where = await database.run(kind, lambda tx: threading.current_thread())
            assert where is not threading.current_thread()


@pytest.mark.parametrize(("idle", "brief"), [(True, True), (False, False)])
async def test_a_settle_is_brief_only_for_a_worker_with_nothing_else_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: bool, brief: bool
) -> None:
    seen: list[bool] = []
    async with opened(tmp_path) as store:
        await store.insert([job("a")])
        await store.beat(WORKER, 0, [])
        (claim,) = (await store.exchange("w", 1, [], Want([("q", 1)], 1))).claims
        run = store._database.run

        async def noted(kind: Kind, work: Any, brief: bool = False) -> Any:
            seen.append(brief)
            return await run(kind, work, brief)

        monkeypatch.setattr(store._database, "run", noted)
        await store.exchange("w", 2, [decide(claim, Succeeded())], Want([], 0, idle))
    assert seen[0] is brief


async def test_an_opening_that_nobody_waits_for_is_closed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    plain = thread.check_location

    def slow(path: str) -> None:
        begun.set()
        assert go_on.wait(20)
        plain(path)

    monkeypatch.setattr(thread, "check_location", slow)
    store = SQLiteStore(f"sqlite:///{tmp_path}/jobs.db", StoreSettings())
    opening = asyncio.create_task(store.open())
    assert await asyncio.to_thread(begun.wait, 20)
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0.05)  # to let it come to where it has to wait
    go_on.set()
    await asyncio.wait_for(closing, 20)
    assert store._database.closed
    assert store._database._thread is None
