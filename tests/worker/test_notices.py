"""Notifications with real workers: every way to die is told, once, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import ssl
from collections.abc import AsyncIterator, Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.servers.process import free_port
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT, Fleet, Ledger, eventually
from windlass import Email, Notice, Windlass
from windlass.core import health
from windlass.errors import WindlassError
from windlass.store.base import Query


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
    await eventually(lambda: len(ledger.lines()) >= 8, 40)
    assert sorted((line.what, line.job) for line in ledger.lines()) == sorted(
        [*expected, *(("notice dead", job) for _, job in expected)]
    )


async def test_workers_killed_in_the_middle_lose_nothing_and_tell_nothing_twice(
    caller: Windlass, workers: Fleet, ledger: Ledger
) -> None:
    for _ in range(2):
        workers.start(concurrency=4)
    await eventually(lambda: caller.workers())
    chance = random.Random(7)
    ids: list[str] = []
    for round in range(4):
        for n in range(25):
            ids.append(await call(caller, "fails", args={"n": n}))
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        list(workers)[-2 if round % 2 else -1].kill()
        workers.start(concurrency=4)
    await eventually(lambda: set(ids) <= ledger.jobs("letter Reject").keys(), 60)
    await eventually(lambda: set(ids) <= ledger.jobs("notice dead").keys(), 60)
    await asyncio.sleep(1.5)  # for what would be told twice
    store = (await caller.client()).store
    for task, jobs in (("told", len(ids)), ("windlass.notice", len(ids))):
        found = (await store.find(Query(task=task, limit=1000))).jobs
        assert len(found) == jobs, task


async def test_a_rate_holds_over_all_workers(caller: Windlass, workers: Fleet, ledger: Ledger) -> None:
    for _ in range(3):
        workers.start({"E2E_EVERY": "4s"})
    await eventually(lambda: caller.workers())
    ids = [await call(caller, "fails", args={"n": n}) for n in range(20)]
    await eventually(lambda: sum(line.attempt + 1 for line in ledger.lines("notice dead")) == 20, 30)
    assert set(ids) <= ledger.jobs("letter Reject").keys()
    assert len(ledger.lines("notice dead")) <= 3


async def test_a_queue_that_nobody_serves_stands_still_and_is_told_once(
    caller: Windlass, workers: Fleet, ledger: Ledger
) -> None:
    workers.start(queues=["elsewhere"])
    await call(caller, "fails", args={"n": 1})
    (line,) = await eventually(lambda: ledger.lines("notice stuck"), 30)
    assert line.job == "work"
    await asyncio.sleep(6.0)  # another look or two
    assert len(ledger.lines()) == 1


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
    """A small HTTP server that refuses the first two requests."""

    def __init__(self) -> None:
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
        status = "503 Busy" if len(self.requests) <= 2 else "204 No Content"
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
