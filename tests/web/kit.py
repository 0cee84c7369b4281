"""What the tests of the web layer share: an app with something of everything, clients for it, and the whole store as
one value to compare.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any, NamedTuple
from uuid import uuid4

import httpx2
import msgspec

from windlass import Windlass, every
from windlass.core.access import RIGHTS
from windlass.core.job import ErrorInfo, Meta, NewJob, Progress, State
from windlass.core.lifecycle import Failed, Succeeded
from windlass.core.mute import Mute
from windlass.core.terms import Terms
from windlass.operate.timetable import read_all
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.store.jobs import Declared, Presence, Query
from windlass.testing.conformance.bench import Hand
from windlass.web import Access, Token, make_access, windlass_dashboard

ALL = frozenset(RIGHTS)
LOCAL = ("127.0.0.1", 40_000)
AWAY = ("203.0.113.9", 40_000)


def token_of(name: str) -> str:
    return f"token-of-{name}-{'x' * 16}"


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token_of(name)}"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def tokens(users: Mapping[str, Access | Iterable[str]]) -> Token:
    """A Bearer token for each of these users."""
    made: dict[str, tuple[str, Any]] = {}
    for name, rights in users.items():
        access = rights if isinstance(rights, Access) else make_access(name, rights)
        made[token_of(name)] = (name, access)
    return Token(made)


def make_app(url: str = "", name: str = "shop") -> Windlass:
    """Two queues, ``mail`` and ``bill``; a breaker; a schedule."""
    app = Windlass(name, url or f"memory://{uuid4().hex}")
    app.queue("mail", rate="1000/s")

    @app.task(name="mail.send", queue="mail", breaker="smtp")
    async def send(to: str, password: str = "", nested: Any = None) -> None:
        """Send a mail."""

    @app.task(name="bill.charge", queue="bill")
    async def charge(order: int) -> int:
        return order

    @app.task(name="mail.digest", queue="mail")
    async def digest(to: str) -> None: ...

    app.breaker("smtp")
    return app


def new_job(id: str, task: str = "mail.send", queue: str = "mail", **fields: Any) -> NewJob:
    return NewJob(**{"id": id, "task": task, "queue": queue, "payload": b'{"to":"ann"}', **fields})


def hand(store: Store, app: Windlass, id: str = "worker-1", queues: Iterable[str] = ("mail", "bill")) -> Hand:
    """A worker that does what the test says."""
    declares = {name: Declared() for name in app.tasks}
    presence = Presence(id=id, queues=list(queues), declares=declares, lease=600_000, host="host", pid=7, concurrency=4)
    return Hand(store, presence)


class World(NamedTuple):
    """``flow``: a workflow under way, ``broken``: one that failed."""

    store: Store
    worker: Hand
    flow: str
    broken: str


async def populate(app: Windlass) -> World:
    """A job in each state, a workflow under way and one that failed, a schedule, a breaker, a view, tuned gates."""
    store = (await app.client()).store
    await app.schedules.put("hourly", every("1h"), app.tasks["mail.digest"], args=["ann"])
    worker = hand(store, app)
    await worker.start()
    charge = app.tasks["bill.charge"]
    broken = await (charge.si(1) | charge.si(2)).enqueue()
    await worker.settle(
        (await worker.claim(10))[0], Failed(ErrorInfo(type="ValueError", message="no", fingerprint="f2"))
    )
    meta = Meta(headers={"x-tenant": "7", "password": "hunter2"}, tags=("vip", "password:hunter2")).encode()
    await store.insert([
        new_job("failed-1", meta=meta, payload=b'{"to":"ann","password":"hunter2"}'),
        new_job("done-1"), new_job("running-1"),
    ])  # fmt: skip
    claims = {claim.id: claim for claim in await worker.claim(10)}
    error = ErrorInfo(type="builtins.ValueError", message="no such host", traceback="Traceback …", fingerprint="f1")
    await worker.settle(claims["failed-1"], Failed(error))
    await worker.settle(claims["done-1"], Succeeded(b'{"sent":true}'))
    progress = msgspec.json.encode(Progress(40.0, "half way", {"password": "hunter2", "part": 2}))
    await worker.note(claims["running-1"], "a logged line", progress=progress)
    await store.insert([
        new_job("ready-1", priority=3), new_job("ready-2", terms=Terms(key="k1")),
        new_job("later-1", delay=3_600_000), new_job("bill-1", "bill.charge", "bill", payload=b'{"order":1}'),
    ])  # fmt: skip
    flow = await (charge.si(1) | charge.si(2)).enqueue()
    await put_all(store, [Put(shelf="views", key="fresh", body=b'{"name":"fresh","filter":"since:1h","user":"ann"}')])
    mute = msgspec.json.encode(Mute(code="stuck", where="mail", until=2**52, by="ann", reason="known"))
    await put_all(store, [Put(shelf="mutes", key="stuck/mail", body=mute)])
    await app.queue("bill").tune(limit=5)
    return World(store, worker, flow.id, broken.id)


KEPT = ("views", "more", "orders", "mutes")
"""Shelves that actions write to."""


async def everything(store: Store) -> bytes:
    """All that actions could change, as one value: records, gates, schedules, views, notes; not the audit log."""
    jobs, after = [], ""
    while True:
        page = await store.find(Query(after=after, limit=1_000))
        jobs += page.jobs
        after = page.cursor
        if not after:
            break
    gates = sorted(await store.gates(), key=lambda gate: gate.name)
    plain = [msgspec.structs.replace(gate, opens_in=0, closed_for=min(gate.closed_for, 1)) for gate in gates]
    rows = await read_all(store)
    graphs = (await store.graphs()).graphs
    shelves = [[msgspec.structs.replace(item, ttl=0) for item in await store.shelf(name)] for name in KEPT]
    counts = [(queue.name, queue.counts) for queue in await store.queues()]
    return msgspec.json.encode([sorted(jobs, key=lambda job: job.id), plain, rows, graphs, shelves, sorted(counts)])


async def audited(store: Store) -> list[dict[str, Any]]:
    """The audit log, newest first."""
    return [msgspec.json.decode(item.body or b"") for item in await store.shelf("audit", newest_first=True)]


async def states(store: Store, *ids: str) -> list[State | None]:
    return [job.state if job else None for job in await store.get(ids)]


@asynccontextmanager
async def visiting(site: Any, client: tuple[str, int] = LOCAL, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an application in this process."""
    transport = httpx2.ASGITransport(app=site, client=client, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", **options) as visitor:
        if key := client == LOCAL and getattr(getattr(site, "state", None), "key", ""):
            await visitor.get("/", params={"key": key})
        yield visitor


def dashboard(app: Windlass, users: Mapping[str, Access | Iterable[str]], **settings: Any) -> Any:
    return windlass_dashboard(app, auth=tokens(users), **settings)


# -- pages


class Page(HTMLParser):
    """What a page is made of, as a browser would read it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def named(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def links(self) -> list[str]:
        """Wherever a browser would go by itself or by a click."""
        return [
            value
            for _, attributes in self.tags
            for name, value in attributes.items()
            if name in ("href", "src", "action", "formaction", "data-href", "xlink:href", "srcset", "poster")
        ]
