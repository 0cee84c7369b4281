"""Notifications with real workers: every way to die is told, once, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.servers.process import free_port
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT, Fleet, Ledger, WorkerProcess, eventually
from windlass import DeadLetter, Email, Notice, Webhook, Windlass, every
from windlass.console import Console
from windlass.core import health
from windlass.core.notice import NoticeBook
from windlass.core.options import parse_options
from windlass.core.schedule import GONE
from windlass.errors import WindlassError
from windlass.handles.handle import JobInfo
from windlass.store.items import read_one
from windlass.store.jobs import Query
from windlass.worker import notifier


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    url = f"sqlite:///{tmp_path}/noticed.db?durability=normal"
    if request.param == "redis":
        url = request.getfixturevalue("redis7").url
    return {"E2E_URL": url, "E2E_NAME": fresh_prefix(), "E2E_LEDGER": str(tmp_path / "ledger")}


@pytest.fixture
def workers(place: dict[str, str], tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet("tests.worker.noticed:app", tmp_path, place)
    yield fleet
    fleet.end()


@pytest.fixture
async def caller(place: dict[str, str]) -> AsyncIterator[Windlass]:
    app = Windlass(place["E2E_NAME"], place["E2E_URL"], **SHORT)
    yield app
    await app.close()


async def call(app: Windlass, task: str, **options: Any) -> str:
    args = options.pop("args", {})
    return (await app.queue("work").add(task, args, **options)).id


async def test_every_way_to_die_is_told(caller: Windlass, workers: Fleet, ledger: Ledger) -> None:
    workers.start()
    await eventually(lambda: caller.workers())
    by_exception = await call(caller, "fails", args={"n": 1})
    by_expiry = await call(caller, "fails", args={"n": 2}, delay="1h", expires="0.2s", on_expire="fail")
    by_name = await call(caller, "nobody.knows")
    await eventually(lambda: {by_exception, by_expiry, by_name} <= {line.job for line in ledger.lines()}, 40)
    workers.start()
    await eventually(lambda: caller.workers())
    by_crash = await call(caller, "dies", max_crashes=1)
    expected = {
        ("letter Reject", by_exception), ("letter JobExpired", by_expiry), ("letter UnknownTask", by_name),
        ("letter WorkerCrashed", by_crash),
    }  # fmt: skip
    expected |= {("notice dead", job) for _, job in expected}
    # What was being delivered by the worker that died is delivered again: each is counted once.
    await eventually(lambda: expected <= {(line.what, line.job) for line in ledger.lines()}, 40)
    assert {(line.what, line.job) for line in ledger.lines()} == expected


async def test_dead_letters_of_a_muted_queue_are_handled_and_told_to_nobody(
    caller: Windlass, workers: Fleet, ledger: Ledger
) -> None:
    console = Console(caller)
    await console.mute_warning("dead_growing", "work", "1h", "the bank is down")
    workers.start()
    await eventually(lambda: caller.workers())
    quiet = await call(caller, "fails", args={"n": 1})
    await eventually(lambda: quiet in {line.job for line in ledger.lines()}, 40)
    await eventually(lambda: is_all_told(caller), 40)
    await console.unmute_warning("dead_growing", "work")
    loud = await call(caller, "fails", args={"n": 2})
    await eventually(lambda: ("notice dead", loud) in {(line.what, line.job) for line in ledger.lines()}, 40)
    told = {(line.what, line.job) for line in ledger.lines()}
    assert ("letter Reject", quiet) in told
    assert ("notice dead", quiet) not in told


async def leader(app: Windlass, workers: Fleet) -> WorkerProcess | None:
    """The live worker that sees to notices, as far as there is one."""
    kept = await read_one((await app.client()).store, notifier.SHELF, notifier.LEASE)
    pid = int(kept.body.split()[0].rpartition(b":")[2]) if kept.version else 0
    return next((worker for worker in workers if worker.pid == pid and worker.alive), None)


async def is_all_told(app: Windlass) -> bool:
    """Whether the book is past the last death there was, and nothing is left to send."""
    store = (await app.client()).store
    kept = await read_one(store, notifier.SHELF, notifier.BOOK)
    book = msgspec.json.decode(kept.body or b"{}", type=NoticeBook)
    deaths = await store.events(0, 10_000, ("failed",))
    return not book.outbox and book.cursor >= max((entry.seq for entry in deaths), default=0)


async def test_leaders_killed_in_the_middle_lose_nothing_and_tell_nothing_twice(
    caller: Windlass, workers: Fleet, ledger: Ledger
) -> None:
    for _ in range(2):
        workers.start(concurrency=4)
    chance = random.Random(7)
    ids: list[str] = []
    for _ in range(4):
        leads = await eventually(lambda: leader(caller, workers), 40)
        for n in range(25):
            ids.append(await call(caller, "fails", args={"n": n}))
        await eventually(lambda: len(ledger.lines()) >= len(ids))
        await asyncio.sleep(chance.uniform(0, 1.0))  # to meet it anywhere in what it does
        leads.kill()
        workers.start(concurrency=4)
    await eventually(lambda: set(ids) <= ledger.jobs("letter Reject").keys(), 60)
    await eventually(lambda: set(ids) <= ledger.jobs("notice dead").keys(), 60)
    await eventually(lambda: is_all_told(caller), 40)
    store = (await caller.client()).store
    for task, jobs in (("told", len(ids)), ("windlass.notice", len(ids))):
        found = (await store.find(Query(task=task, limit=1000))).jobs
        assert len(found) == jobs, task


async def test_a_rate_holds_over_all_workers(caller: Windlass, workers: Fleet, ledger: Ledger) -> None:
    for _ in range(3):
        workers.start({"E2E_EVERY": "4s"})
    await eventually(lambda: caller.workers())
    began = time.monotonic()
    ids = [await call(caller, "fails", args={"n": n}) for n in range(20)]

    def told() -> set[tuple[str, int]]:
        """Each notice once, however often a busy machine made it be delivered, with how many it holds back."""
        return {(line.job, line.attempt) for line in ledger.lines("notice dead")}

    await eventually(lambda: sum(held + 1 for _, held in told()) >= 20, 60)
    assert set(ids) <= ledger.jobs("letter Reject").keys()
    assert len(told()) <= 2 + (time.monotonic() - began) / 4


async def test_a_queue_that_nobody_serves_stands_still_and_is_told_once(
    caller: Windlass, workers: Fleet, ledger: Ledger
) -> None:
    workers.start(queues=["elsewhere"])
    await call(caller, "fails", args={"n": 1})
    (line,) = await eventually(lambda: ledger.lines("notice stuck"), 30)
    assert line.job == "work"
    await caller.queue("working").add("fails", {"n": 2})
    await eventually(lambda: ledger.jobs("notice stuck")["working"], 30)
    assert ledger.jobs("notice stuck") == {"work": 1, "working": 1}, "a later look told of the other only"


@pytest.fixture(params=["sqlite", "redis"])
async def own(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    """An app whose workers are in this process."""
    url = f"sqlite:///{tmp_path}/own.db?durability=normal"
    app = Windlass(fresh_prefix(), request.getfixturevalue("redis7").url if request.param == "redis" else url, **SHORT)
    yield app
    await app.close()


async def test_a_schedule_whose_job_fails_is_told_as_such(own: Windlass) -> None:
    got: list[Notice] = []
    own.notify(got.append, on=["schedule"], every=0)

    @own.schedule(every("1s"), name="each second", limit=1)
    @own.task(retries=0)
    async def report() -> None:
        raise OSError("disk full")

    @own.task(retries=0)
    async def other() -> None:
        raise OSError("of no schedule")

    async with own.worker():
        await other.enqueue()
        await eventually(lambda: got)
    assert {(notice.kind, notice.schedule, notice.error) for notice in got} == {("schedule", "each second", "OSError")}
    assert f"{own.name}: schedule each second: " in got[0].title


async def test_slots_that_came_with_nobody_there_are_told(own: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.core.notice.LATE", 500)
    got: list[Notice] = []
    own.notify(got.append, on=["schedule"], every=0)

    @own.task
    async def report() -> None: ...

    async with own.worker():
        pass  # the first worker ever: what is before it is no news
    info = await own.schedules.put("often", every("1s"), report)
    await eventually(lambda: (datetime.now(UTC) - info.next_at).total_seconds() > 1.5)
    async with own.worker():
        await eventually(lambda: got)
    assert (got[0].kind, got[0].schedule) == ("schedule", "often")
    assert "was missed" in got[0].title


async def test_a_schedule_that_no_worker_declares_any_more_is_told(
    own: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.worker.notifier.LOOK", 0.2)
    got: list[Notice] = []
    own.notify(got.append, on=["schedule"], every=0)

    @own.task
    async def report() -> None: ...

    async with own.worker():
        info = await own.schedules.put("old", every("1h"), report)
        await own.schedules.pause(info.name, GONE)
        await eventually(lambda: got)
    assert (got[0].kind, got[0].schedule) == ("schedule", "old")


async def test_a_webhook_that_never_answers_well_is_a_dead_letter_of_which_nothing_is_told(own: Windlass) -> None:
    letters: list[str] = []
    async with Hook(refuses=1_000_000) as hook:
        own.notify(Webhook(hook.url, allow_private=True), on=["dead"], every=0)

        @own.on_dead()
        async def told(letter: DeadLetter) -> None:
            letters.append(letter.task)

        @own.task(name="breaks", retries=0)
        async def breaks() -> None:
            raise OSError("broken")

        own.tasks["windlass.notice"].layer.update(retry_at_once())
        async with own.worker():
            await breaks.enqueue()
            (dead,) = await eventually(lambda: dead_letters(own, "windlass.notice"), 40)
            await eventually(lambda: is_all_told(own), 40)
    assert dead.attempts == len(hook.requests) == 11
    assert letters == ["breaks"]
    assert len((await own.jobs(task="windlass.notice")).jobs) == 1


def retry_at_once() -> dict[str, Any]:
    return parse_options({"backoff": 0, "retries": 10}, ("backoff", "retries"), "here")


async def dead_letters(app: Windlass, task: str) -> list[JobInfo]:
    return (await app.dead.list(task=task)).jobs


async def test_a_queue_whose_workers_do_nothing_is_stuck(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE", 500)
    monkeypatch.setattr("windlass.worker.notifier.LOOK", 0.2)
    got: list[Notice] = []
    app.notify(got.append, on=["stuck"], stuck_after="0.5s", every=0)

    @app.task(name="slow", queue="work")
    async def slow() -> None: ...

    async with app.worker(queues=["work"], concurrency=2):
        await slow.pause()  # nobody paused the queue, and its workers are free
        await slow.enqueue()
        await eventually(lambda: got)
        await slow.resume()
        await eventually(lambda: app.jobs(state="succeeded", task="slow"))
        await eventually(lambda: app.jobs(state="succeeded", task="windlass.notice"))
    assert [(notice.kind, notice.queue) for notice in got] == [("stuck", "work")]
    assert "stands still: 1 job ready" in got[0].title


# -- targets


class Hook:
    """A small HTTP server that refuses the first requests."""

    def __init__(self, refuses: int = 2) -> None:
        self._refuses = refuses
        self.requests: list[tuple[dict[str, str], bytes]] = []

    async def __aenter__(self) -> Hook:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/in"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = "503 Busy" if len(self.requests) <= self._refuses else "204 No Content"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


async def test_a_webhook_that_fails_twice_gets_the_same_notice_again(caller: Windlass, workers: Fleet) -> None:
    async with Hook() as hook:
        workers.start({"E2E_HOOK": hook.url})
        await eventually(lambda: caller.workers())
        id = await call(caller, "fails", args={"n": 1})
        await eventually(lambda: len(hook.requests) == 3, 30)
    bodies = [body for _, body in hook.requests]
    assert bodies[0] == bodies[1] == bodies[2]
    told = json.loads(bodies[0])
    assert (told["kind"], told["job"], told["queue"]) == ("dead", id, "work")
    for headers, body in hook.requests:
        assert headers["webhook-id"] == told["id"]
        signed = f"{told['id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(b"secret", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"


class Inbox:
    """What a mail server got."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], bytes]] = []
        self.logins: list[tuple[bytes, bytes]] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append((list(envelope.rcpt_tos), envelope.content))
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=True)


@pytest.fixture
def inbox() -> Iterator[tuple[Inbox, str]]:
    inbox = Inbox()
    controller = Controller(
        inbox, hostname="127.0.0.1", port=free_port(), authenticator=inbox.authenticate, auth_require_tls=False
    )
    controller.start()
    yield inbox, f"smtp://jobs:p%40ss@127.0.0.1:{controller.port}"
    controller.stop()


async def test_a_mail_is_sent(caller: Windlass, workers: Fleet, inbox: tuple[Inbox, str]) -> None:
    box, url = inbox
    workers.start({"E2E_MAIL": url})
    await eventually(lambda: caller.workers())
    id = await call(caller, "fails", args={"n": 4})
    await eventually(lambda: box.mails, 30)
    (to, content), mail = box.mails[0], message_from_bytes(box.mails[0][1])
    assert to == ["ops@example.com", "b@example.com"]
    assert mail["Subject"].endswith("fails is a dead letter: Reject: number 4")
    assert mail["Message-ID"]
    assert id.encode() in content
    assert box.logins == [(b"jobs", b"p@ss")]


async def test_no_password_goes_to_another_machine_without_tls() -> None:
    class Server:
        def ehlo(self) -> None: ...

        def has_extn(self, name: str) -> bool:
            return False

        def login(self, *args: str) -> None:
            raise AssertionError("it was sent")

    mail = Email("a@b.example", "c@d.example", "smtp://me:secret@mail.example.com")
    with pytest.raises(WindlassError, match="no TLS"):
        mail._log_in(Server())  # type: ignore[arg-type]
    assert ssl.create_default_context().check_hostname
