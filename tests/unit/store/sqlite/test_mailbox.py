"""Datagrams: wake-ups may be dropped, news of finished jobs may not, and the dead are found by their sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from windlass.core.job import Finished, NewJob, State
from windlass.core.lifecycle import Succeeded, decide
from windlass.errors import StoreError
from windlass.store.base import StoreSettings
from windlass.store.jobs import EVERY_EVENT, Declared, Presence, Want
from windlass.store.sqlite import SQLiteStore, mailbox
from windlass.store.sqlite.mailbox import MESSAGE_MAX, Mailbox, Outbox, nobody_there, pack, socket_folder


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(f"sqlite:///{tmp_path}/jobs.db", StoreSettings(), clock=Clock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture(autouse=True)
def short_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1000):
        if await true():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError


def jobs(count: int) -> list[NewJob]:
    return [NewJob(id=f"j{n}", task="t", queue="q", payload=b"{}") for n in range(count)]


async def run_all(store: SQLiteStore, result: bytes, worker: str = "w") -> None:
    await store.beat(Presence(id=worker, queues=["q"], declares={"t": Declared()}), 0, [])
    claims = (await store.exchange(worker, 1, [], Want([("q", 1000)], 1000))).claims
    await store.exchange(worker, 2, [decide(claim, Succeeded(result)) for claim in claims], Want([], 0))


def test_the_folder_is_private(short_folder: Path) -> None:
    folder = socket_folder()
    assert folder.parent == short_folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(StoreError, match="only this user"):
        socket_folder()


def test_a_deep_temporary_directory_is_gone_around(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_folder / ("deep" * 30)))
    assert socket_folder().parent == Path("/tmp")


def test_messages_are_split(short_folder: Path) -> None:
    items = [Finished(f"j{n}", State.SUCCEEDED, b"x" * 10_000) for n in range(100)]
    messages = pack(items)
    assert all(len(message) <= MESSAGE_MAX for message in messages)
    assert [item.id for message in messages for item in mailbox._decode(message)] == [item.id for item in items]


async def test_news_that_does_not_fit_is_sent_again_and_in_order(store: SQLiteStore) -> None:
    heard: list[Finished] = []
    await store.listen("client", heard.extend)
    await store.insert(jobs(600))
    await store.watch("client", [job.id for job in jobs(600)])
    store._database.mailboxes["client"].loop.remove_reader(store._database.mailboxes["client"].sock.fileno())
    await run_all(store, b"x" * 16_000)
    assert store._database._outbox is not None
    assert store._database._outbox.pending
    box = store._database.mailboxes["client"]
    box.loop.add_reader(box.sock.fileno(), box._read)

    async def all_heard() -> bool:
        return len(heard) == 600

    await until(all_heard)
    assert sorted(item.id for item in heard) == sorted(job.id for job in jobs(600))

    async def nothing_left() -> bool:  # the last message is heard a moment before its sender has crossed it out
        return store._database._outbox is not None and not store._database._outbox.pending

    await until(nothing_left)


async def test_a_wake_up_that_does_not_fit_is_dropped(short_folder: Path) -> None:
    box, outbox = Mailbox(lambda items: None), Outbox()
    box.loop.remove_reader(box.sock.fileno())
    for _ in range(1000):
        outbox.post(box.path, [])
    assert not outbox.pending
    box.close()
    outbox.close()


async def test_undeliverable_news_is_given_up_in_the_end(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "GIVE_UP", -1.0)
    box, outbox = Mailbox(lambda items: None), Outbox()
    box.loop.remove_reader(box.sock.fileno())
    while not outbox.pending:
        outbox.post(box.path, [Finished("a", State.SUCCEEDED, b"x" * 50_000)])
    outbox.again()
    assert not outbox.pending
    box.close()
    outbox.close()


async def test_a_client_that_died_is_forgotten_with_its_watches(store: SQLiteStore) -> None:
    await store.listen("client", lambda items: None)
    await store.insert(jobs(2))
    await store.watch("client", ["j0", "j1"])
    store._database.mailboxes["client"].sock.close()  # as if the process were gone, its file left behind
    await run_all(store, b"1")

    async def forgotten() -> bool:
        return await count(store, "mailboxes") + await count(store, "watches") == 0

    await until(forgotten)


async def test_a_sweep_forgets_dead_clients_that_nobody_writes_to(store: SQLiteStore) -> None:
    await store.listen("client", lambda items: None)
    await store.watch("client", [EVERY_EVENT])
    box = store._database.mailboxes["client"]
    await store.sweep()
    assert await count(store, "mailboxes") == 1
    box.sock.close()
    await store.sweep()
    assert await count(store, "mailboxes") == 0
    assert Path(box.path).name not in os.listdir(socket_folder())


async def test_a_socket_that_is_missing_proves_nothing(short_folder: Path) -> None:
    assert not nobody_there(str(short_folder / "none.sock"))


LISTENER = """
import asyncio, sys
from windlass.store.base import StoreSettings
from windlass.store.jobs import Declared, Presence, Want
from windlass.store.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(sys.argv[1], StoreSettings(), clock=lambda: 1_800_000_000_000)
    await store.open()
    await store.listen("w", lambda items: None)
    await store.beat(Presence(id="w", queues=["q"], declares={"t": Declared()}), 0, [])
    print(len((await store.exchange("w", 1, [], Want([("q", 5)], 5))).claims), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_worker_is_found_before_its_lease_is_over(store: SQLiteStore, short_folder: Path) -> None:
    clock = store._database.clock
    assert isinstance(clock, Clock)
    await store.insert(jobs(3))
    env = {**os.environ, "TMPDIR": str(short_folder)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LISTENER, store.url, stdout=asyncio.subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"3\n"
    clock.now += 6_000  # later than a third of the lease, far from its end
    assert (await store.sweep()).dead_workers == []
    process.send_signal(signal.SIGKILL)
    await process.wait()
    reply = await store.sweep()
    assert (reply.dead_workers, reply.recovered) == (["w"], 3)
    assert await count(store, "mailboxes") == 0


async def count(store: SQLiteStore, table: str) -> int:
    from windlass.store.machine.ops import Kind

    found: int = await store._database.run(Kind.READ, lambda tx: tx.value(f"SELECT count(*) FROM {table}"))
    return found
