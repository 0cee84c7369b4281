"""Several processes on one file: forks, kills at any moment, and counts that are right afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.worker.helpers import soon
from windlass.core.job import NewJob
from windlass.errors import StoreClosed
from windlass.store.answers import Accept
from windlass.store.base import StoreSettings
from windlass.store.sqlite import SQLiteStore, thread

HAMMER = """
import asyncio, os, random, sys
from windlass.core.job import NewJob
from windlass.core.lifecycle import HandedBack, Snoozed, Succeeded, decide
from windlass.core.keep import Keep
from windlass.store.base import StoreSettings
from windlass.store.jobs import Declared, Presence, Want
from windlass.store.sqlite import SQLiteStore

async def main():
    settings = StoreSettings(keep=Keep(count=300))
    store = SQLiteStore(sys.argv[1], settings)
    await store.open()
    name, seq, moves, made = f"w{os.getpid()}", 0, [], 0
    await store.beat(Presence(id=name, queues=["q"], declares={"t": Declared()}, lease=1000), 0, [])
    while True:
        fresh = [NewJob(id=f"{name}-{made + n}", task="t", queue="q", payload=b"{}") for n in range(20)]
        answers, reply = await asyncio.gather(
            store.insert(fresh), store.exchange(name, seq + 1, moves, Want([("q", 25)], 25))
        )
        print("\\n".join(job.id for job in fresh), flush=True)
        seq, made = seq + 1, made + 20
        outcomes = (Succeeded(b"1"), Succeeded(b"2"), Snoozed(5), HandedBack())
        moves = [decide(claim, random.choice(outcomes)) for claim in reply.claims]
        await store.beat(Presence(id=name, queues=["q"], declares={"t": Declared()}, lease=1000), seq,
                         [claim.id for claim in reply.claims])
        await store.sweep(100)

asyncio.run(main())
"""


def test_processes_killed_at_any_moment_leave_a_sound_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    printed = [tmp_path / f"said-{n}" for n in range(8)]
    running: list[subprocess.Popen[bytes]] = []
    dice = random.Random(7)
    for path in printed:
        if len(running) == 4:
            victim = running.pop(dice.randrange(4))
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        with path.open("wb") as out:
            running.append(subprocess.Popen([sys.executable, "-c", HAMMER, url], stdout=out))
        soon(lambda path=path: path.read_text().count("\n") >= 70)
        time.sleep(dice.random() / 5)  # and then at any moment
    assert [process.poll() for process in running] == [None] * 4
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
    accepted = {id for path in printed for id in path.read_text().split("\n")[:-1]}
    assert len(accepted) > 500
    check_sound(tmp_path / "jobs.db", accepted)


def check_sound(path: Path, accepted: set[str]) -> None:
    db = apsw.Connection(str(path))
    assert db.pragma("integrity_check") == "ok"
    counted = set(db.execute("SELECT queue, what, many FROM counts WHERE task = '' AND many <> 0"))
    assert counted == set(db.execute("SELECT queue, state, count(*) FROM jobs GROUP BY queue, state"))
    filed = set(db.execute("SELECT n, size FROM buckets WHERE size <> 0"))
    assert filed == set(db.execute("SELECT bucket, count(*) FROM jobs WHERE bucket > 0 GROUP BY bucket"))
    assert all(size <= 300 for _, size in filed)
    holders = {n for (n,) in db.execute("SELECT DISTINCT worker FROM jobs WHERE state = 3")}
    assert holders <= {n for (n,) in db.execute("SELECT n FROM workers")}
    assert not db.execute("SELECT count(*) FROM jobs WHERE (state = 3) <> (worker > 0)").get
    # Kept until it ended: an accepted job is there, or was pruned as the oldest of those that succeeded.
    known = {id for (id,) in db.execute("SELECT id FROM jobs")}
    unfinished = db.execute("SELECT count(*) FROM jobs WHERE state < 4").get
    totals = dict(db.execute("SELECT what, sum(many) FROM counts WHERE task > '' GROUP BY what"))
    assert totals["enqueued"] - totals["succeeded"] == unfinished
    assert len(accepted & known) >= min(300, len(accepted))
    assert len(accepted | known) - unfinished >= 300 or not accepted - known
    db.close()


def job(id: str) -> NewJob:
    return NewJob(id=id, task="t", queue="q", payload=b"{}")


def fork(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a coroutine function in a forked child, which ends with 0 when it returned."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            asyncio.new_event_loop().run_until_complete(work())
            status = 0
        finally:
            os._exit(status)
    return pid


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork in a process with threads, which is the point
async def test_a_forked_child_lets_go_and_the_parent_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SQLiteStore(url, StoreSettings())
    await store.open()
    heard: list[object] = []
    await store.listen("me", heard.append)
    await store.insert([job("before")])

    async def child() -> None:
        for call in (store.insert([job("x")]), store.get(["x"]), store.listen("me", heard.append)):
            try:
                await call
            except StoreClosed:
                continue
            raise AssertionError("a foreign store was used")
        await store.close()
        own = SQLiteStore(url, StoreSettings())
        await own.open()
        assert (await own.insert([job("from the child")]))[0].status is Accept.ACCEPTED
        assert all(await own.get(["before"]))
        await own.close()

    assert status_of(fork(child)) == 0
    await store.insert([job("after")])
    assert all(await store.get(["before", "from the child", "after"]))
    assert "me" in store._database.mailboxes
    await store.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_child_keeps_real_locks_when_the_parent_closes(tmp_path: Path) -> None:
    """A connection copied by a fork would make SQLite believe in locks that only the parent holds."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = SQLiteStore(url, StoreSettings())
    await store.open()
    await store.insert([job("a")])
    read, write = os.pipe()
    closed, told = os.pipe()
    pid = fork(lambda: _child_that_outlives(url, write, closed))
    assert await asyncio.to_thread(os.read, read, 1) == b"1"
    await store.close()
    os.write(told, b"1")
    assert await asyncio.to_thread(status_of, pid) == 0
    for descriptor in (read, write, closed, told):
        os.close(descriptor)
    again = SQLiteStore(url, StoreSettings())
    await again.open()
    assert all(await again.get(["a", "early", "late"]))
    await again.close()


async def _child_that_outlives(url: str, ready: int, closed: int) -> None:
    own = SQLiteStore(url, StoreSettings())
    await own.open()
    await own.insert([job("early")])
    os.write(ready, b"1")
    os.read(closed, 1)
    await own.insert([job("late")])
    await own.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_fork_waits_for_a_transaction_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread, "FORK_PATIENCE", 0.1)
    store = SQLiteStore(f"sqlite:///{tmp_path}/jobs.db", StoreSettings())
    await store.open()
    await store.insert([job("a")])

    async def child() -> None:
        try:
            await store.get(["a"])
        except StoreClosed:
            return
        raise AssertionError("a foreign store was used")

    other = apsw.Connection(str(tmp_path / "jobs.db"))
    other.execute("BEGIN IMMEDIATE")
    call = asyncio.create_task(store.insert([job("b")]))
    await asyncio.sleep(0.05)
    assert status_of(fork(child)) == 0
    other.execute("COMMIT")
    other.close()
    assert (await call)[0].status is Accept.ACCEPTED
    await store.close()
