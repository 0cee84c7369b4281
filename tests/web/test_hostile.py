"""Whatever is in a record: every page and answer is made, is inert, and has an end. Nothing redacted comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from tests.web.cases import PAGES, READS
from tests.web.kit import Page, bearer, dashboard, hand, make_app, new_job, populate, visiting
from windlass import Windlass, every
from windlass.core.job import AttemptInfo, ErrorInfo, Meta, Progress, State
from windlass.core.lifecycle import Failed, Succeeded, decide
from windlass.core.terms import Terms
from windlass.operate import timetable
from windlass.store.base import Store
from windlass.store.flow import Tuning
from windlass.store.items import Put, put_all
from windlass.store.jobs import Declared, Query
from windlass.web import Basic, make_access, windlass_dashboard
from windlass.web.headers import CSP

TEXTS = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "attribute": "' onmouseover='alert(1)' x=\"",
    "url": "javascript:alert(1)",
    "outside": "//evil.example/",
    "template": "{{7*7}}${7*7}{%raw%}<%= 7*7 %>",
    "closing": "</textarea></title></pre></bdi></script><svg/onload=alert(1)>-->",
    "controls": "\x1b[31mred\x1b[0m\x07\x00\x08\r\n\x85\u2028",
    "bidi": "\u202eevil\u2066\u200f",
    "huge": "<b>" + "x" * 1_000_000,
    "words": 'a:b,c \\ "d" * ? [e]',
}
BYTES = {
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "deeper": b'{"a":' * 100_000,
    "nan": b'{"x":NaN,"y":Infinity}',
    "digits": b'{"x":' + b"9" * 10_000 + b"}",
    "latin": b'{"x":"\xff\xfe\x00"}',
    "surrogate": b'{"x":"\\ud800"}',
    "nothing": b"",
    "binary": bytes(range(256)),
    "wide": b"[" + b"{}," * 60_000 + b"{}]",
}
TYPED = (
    ("/jobs", "filter"), ("/jobs", "after"), ("/dead", "queue"), ("/dead", "task"), ("/audit", "after"),
    ("/workflows", "state"), ("/", "span"),
)  # fmt: skip
LARGEST = 4_000_000
"""Bytes of a page or an answer with a value of a megabyte in it."""


@pytest.fixture
async def app() -> AsyncIterator[Windlass]:
    app = make_app()
    yield app
    await app.close()


async def hostile(store: Store, app: Windlass, text: str, data: bytes) -> list[str]:
    """A record of each kind with a text wherever one fits, and bytes wherever they do; the ids of its jobs."""
    worker = hand(store, app, f"w{text[:100]}", ["mail", text[:100]])
    worker.presence.host = text
    worker.presence.declares[text[:200]] = Declared()
    worker.presence.load = {"version": text, "cpu": "x", "memory": float("inf"), "lag": None, "done": [1]}
    await worker.start()
    meta = Meta(
        source=text, correlation_id=text, headers={text[:200]: text, "traceparent": text}, tags=(text, f"tag:{text}")
    ).encode()
    short = text[:200]
    broken = new_job("broken", payload=data, meta=meta)
    done = new_job(f"done{short}"[:200], task=short, payload=msgspec.json.encode({short: text}), meta=meta)
    under = new_job("under-way", payload=data, terms=Terms(key=short, unique=f"u{short}"), meta=data)
    await store.insert([broken, done, under])
    claims = {claim.id: claim for claim in await worker.claim(10)}
    earlier = AttemptInfo(1, text, text)
    error = ErrorInfo(text, text, text, short, [earlier], worker=text)
    await worker.settle(claims["broken"], Failed(error, reason=text))
    await worker.settle(claims[done.id], Succeeded(data))
    progress = msgspec.json.encode(Progress(1e308, text, {short: text}))
    halves = ["\ud800 half"] if app.url.startswith("memory") else []  # no other engine could keep it
    await worker.note(claims["under-way"], text, *halves, progress=progress)
    unread = new_job("unread", queue="mail", payload=b"{}")
    await store.insert([unread])
    (claim,) = await worker.claim(1)
    move = decide(claim, Failed(error))
    move.error, move.fingerprint = data, short
    await worker.exchange([move])
    await store.insert([new_job(f"ready{short}"[:200], queue=f"q{short}"[:100], task=short, payload=data)])
    (row,) = await timetable.read_rows(store, ["hourly"])
    await timetable.put(store, [msgspec.structs.replace(row, name=f"s{short}", paused=text, version=0)])
    view = msgspec.json.encode({"name": text, "filter": text, "user": text})
    record = {
        "at": 1,
        "user": text,
        "via": text,
        "action": text,
        "target": text,
        "details": {short: text},
        "outcome": text,
    }
    await put_all(store, [
        Put(shelf="views", key=f"v{short}"[:100], body=view), Put(shelf="views", key="raw", body=data),
        Put(shelf="audit", key="0000000000001-a", body=msgspec.json.encode(record)),
        Put(shelf="audit", key="0000000000002-a", body=data), Put(shelf="minutes", key="x", body=data),
    ])  # fmt: skip
    await store.tune([Tuning(name=f"breaker:b{short}"[:100], closed_for=1_000, note=data)])
    jobs = (await store.find(Query(limit=1_000))).jobs
    return [job.id for job in jobs]


def inert(text: str) -> None:
    """Nothing that came from data is an element, an attribute that runs, or a link to elsewhere."""
    page = Page(text)
    assert {each.get("src", "") for each in page.named("script")} == {"/static/theme.js", "/static/app.js"}
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base", "style", "foreignobject"), tag
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("style", "srcdoc", "formaction", "xlink:href"), (tag, name)
            assert tag != "meta" or name != "http-equiv", value
    for link in page.links:
        assert link.startswith(("/", "#", "?")), link[:100]
        assert not link.startswith(("//", "/\\")), link[:100]


async def look_at_all(visitor: httpx2.AsyncClient, ids: list[str]) -> None:
    urls = [page for page in PAGES if "FLOW" not in page and "BROKEN" not in page and "-1" not in page]
    urls += [f"/jobs/{quote(id, safe='')}" for id in ids]
    urls += ["/jobs?filter=state:failed", "/jobs?filter=alert", "/jobs?filter=error:x", "/dead?queue=mail"]
    for url in urls:
        answer = await visitor.get(url)
        printable = all(id.isprintable() for id in ids if quote(id, safe="") in url)
        assert answer.status_code in ((200, 422) if printable else (200, 404)), (url[:100], answer.text[:500])
        assert len(answer.content) < LARGEST, (url[:100], len(answer.content))
        assert answer.headers["content-security-policy"] == CSP
        inert(answer.text)
    reads = [case.path for case in READS if "FLOW" not in case.path and "-1" not in case.path]
    for id in ids:
        name = quote(id, safe="")
        reads += [f"/jobs/{name}", f"/jobs/{name}/logs", f"/jobs/{name}?whole=true", f"/jobs/{name}/events"]
    reads += ["/export", "/jobs?limit=200", "/jobs?filter=args.x:1", "/jobs?filter=tag:x", "/count?filter=xyz"]
    for path in reads:
        answer = await visitor.get(f"/api{path}")
        assert answer.status_code in (200, 404, 422), (path[:100], answer.text[:500])
        assert len(answer.content) < 2 * LARGEST, (path[:100], len(answer.content))
        assert answer.headers["x-content-type-options"] == "nosniff"
        if answer.headers["content-type"] == "application/json":
            msgspec.json.decode(answer.content)
    for probe in ("/health", "/autoscale?queue=mail"):
        assert (await visitor.get(probe)).status_code in (200, 503)


@pytest.mark.parametrize("kind", TEXTS)
async def test_texts(app: Windlass, kind: str) -> None:
    store = (await populate(app)).store
    text = TEXTS[kind]
    ids = await hostile(store, app, text, msgspec.json.encode({text[:200]: text}))
    site = dashboard(app, {"all": ["*"]}, streams=False)
    async with visiting(site, headers=bearer("all")) as visitor:
        await look_at_all(visitor, ids)


@pytest.mark.parametrize(("text", "data"), [("script", "deep"), ("words", "binary")])
async def test_on_every_engine(any_app: Windlass, text: str, data: str) -> None:
    store = (await populate(any_app)).store
    ids = await hostile(store, any_app, TEXTS[text], BYTES[data])
    async with visiting(dashboard(any_app, {"all": ["*"]}, streams=False), headers=bearer("all")) as visitor:
        await look_at_all(visitor, ids)


@pytest.mark.parametrize("redact", [(), ("secret",)], ids=["plain", "redacted"])
@pytest.mark.parametrize("kind", BYTES)
async def test_bytes(app: Windlass, kind: str, redact: tuple[str, ...]) -> None:
    store = (await populate(app)).store
    ids = await hostile(store, app, "text", BYTES[kind])
    site = dashboard(app, {"all": make_access("all", ["*"], redact=redact)}, streams=False)
    async with visiting(site, headers=bearer("all")) as visitor:
        await look_at_all(visitor, ids)


@pytest.mark.parametrize("kind", [kind for kind in TEXTS if kind != "huge"])
async def test_names_of_users_and_of_the_site(app: Windlass, kind: str) -> None:
    await populate(app)
    text = TEXTS[kind]
    access = make_access(text, ["*"])
    site = windlass_dashboard(app, auth=lambda request: access, title=text, environment=text)
    async with visiting(site) as visitor:
        for page in ("/", "/jobs", "/nowhere"):
            inert((await visitor.get(page)).text)
        assert (await visitor.post("/api/queues/mail/pause", headers={"authorization": "Bearer x"})).status_code == 200
        inert((await visitor.get("/audit")).text)


@pytest.mark.parametrize("kind", TEXTS)
async def test_what_was_typed_comes_back_as_text(app: Windlass, kind: str) -> None:
    await populate(app)
    text = TEXTS[kind][:1_500]
    async with visiting(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        for page, name in TYPED:
            answer = await visitor.get(page, params={name: text})
            assert answer.status_code in (200, 422), (page, answer.text[:300])
            inert(answer.text)
        for page in ("/jobs/", "/queues/", "/tasks/", "/workflows/", "/nowhere/"):
            answer = await visitor.get(page + quote(text, safe=""))
            assert answer.status_code in (404, 422)
            inert(answer.text)
        typed = {"name": text[:80], "filter": text}
        assert (await visitor.post("/api/views", json=typed)).status_code in (201, 422)
        reason = {"reason": text[:900]}
        assert (await visitor.post("/api/schedules/hourly/pause", json=reason)).status_code == 200
        body = {"action": "cancel", "ids": ["ready-1"], "params": reason}
        assert (await visitor.post("/api/jobs/actions", json=body)).status_code == 200
        call = {
            "task": "mail.send",
            "args": {"to": text, "nested": {text: [text]}},
            "options": {"tags": [text[:50]], "key": text[:50]},
        }
        assert (await visitor.post("/api/jobs", json=call)).status_code in (201, 422)
        for page in ("/", "/jobs", "/jobs/ready-1", "/schedules", "/audit"):
            answer = await visitor.get(page)
            assert answer.status_code == 200
            inert(answer.text)


async def test_template_code_is_only_text(app: Windlass) -> None:
    await populate(app)
    call = {"task": "mail.send", "args": {"to": "{{7*7}}"}, "options": {"id": "templated"}}
    async with visiting(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        assert (await visitor.post("/api/jobs", json=call)).status_code == 201
        assert '"{{7*7}}"' in Page((await visitor.get("/jobs/templated")).text).text


# -- redaction


SECRET = "hunter2"
NAMES = ("*password*", "x-tenant")


@pytest.mark.parametrize("where", ["user", "site"])
async def test_nothing_redacted_comes_out(app: Windlass, where: str) -> None:
    """Of arguments, results, headers, progress, tags and events, by every way there is."""
    world = await populate(app)
    store = world.store
    data = msgspec.json.encode({"to": "ann", "password": SECRET, "nested": [{"Db_Password": {"a": SECRET}}]})
    meta = Meta(headers={"Password": SECRET, "x-tenant": SECRET}, tags=(f"password:{SECRET}",)).encode()
    await store.insert([new_job("secret-1", payload=data, meta=meta), new_job("secret-2", payload=data)])
    (claim, other) = [claim for claim in await world.worker.claim(10) if claim.id.startswith("secret")]
    await world.worker.settle(claim, Succeeded(data))
    await world.worker.note(other, "line", progress=msgspec.json.encode(Progress(1, "m", msgspec.json.decode(data))))
    await app.schedules.put("with", every("2h"), app.tasks["mail.send"], kwargs={"to": "a", "password": SECRET})
    access = make_access("all", ["*"], redact=NAMES if where == "user" else ())
    site = dashboard(app, {"all": access}, streams=False, redact=() if where == "user" else NAMES)
    async with visiting(site, headers=bearer("all")) as visitor:
        edit = {"args": {"to": "eve", "password": "[redacted]"}, "requeue": False}
        assert (await visitor.post("/api/jobs/ready-1/edit", json=edit)).status_code == 200
        urls = [*PAGES, *(f"/api{case.path}" for case in READS), "/api/export", "/jobs/secret-1", "/jobs/secret-2"]
        urls += [f"/api/jobs/secret-{n}{more}" for n in (1, 2) for more in ("", "?whole=true", "/logs", "/events")]
        urls += ["/api/events?since=0", "/api/jobs?limit=200", "/jobs?filter=secret"]
        for url in urls:
            answer = await visitor.get(url.replace("FLOW", world.flow).replace("BROKEN", world.broken))
            assert answer.status_code == 200, url
            assert SECRET not in answer.text, url
        for oracle in (f"args.password:{SECRET}", "args.password:hunter*", "args.nested.Db_Password.a:hunt*", SECRET,
                       f"tag:password:{SECRET}", 'tag:"password:hunter2"', "tag:pass*", f'"{SECRET}"'):  # fmt: skip
            for way in ("jobs", "count"):
                answer = await visitor.get(f"/api/{way}", params={"filter": oracle})
                assert answer.status_code == 200
                assert not answer.json().get("jobs"), oracle
                assert not answer.json().get("count"), oracle
            assert (await visitor.get("/api/export", params={"filter": oracle})).text == ""
            bulk = {"action": "cancel", "filter": oracle}
            assert (await visitor.post("/api/jobs/actions", json=bulk)).json()["count"] == 0
        assert (await visitor.get("/api/jobs", params={"filter": "args.to:ann id:secret-1"})).json()["jobs"]


async def test_an_edit_keeps_what_was_hidden(app: Windlass) -> None:
    world = await populate(app)
    site = dashboard(app, {"all": make_access("all", ["*"], redact=["password"])})
    async with visiting(site, headers=bearer("all")) as visitor:
        seen = msgspec.json.decode((await visitor.get("/api/jobs/failed-1")).json()["args"]["text"])
        assert seen == {"to": "ann", "password": "[redacted]"}
        answer = await visitor.post("/api/jobs/failed-1/edit", json={"args": {**seen, "to": "eve"}})
        assert answer.json()["changed"] == ["failed-1"]
        sent = await visitor.post("/api/jobs", json={"task": "mail.send", "args": seen})
        assert sent.status_code == 422
    (job,) = await world.store.get(["failed-1"])
    assert job is not None
    assert job.state is State.READY
    assert msgspec.json.decode(job.payload)["password"] == SECRET
    assert msgspec.json.decode(job.payload)["to"] == "eve"


async def test_arguments_are_not_in_the_audit_log(app: Windlass) -> None:
    """Also not in what it says of calls that went wrong."""
    await populate(app)
    calls: list[dict[str, object]] = [
        {"task": "mail.send", "args": {"to": SECRET, "password": SECRET}},
        {"task": "mail.send", "args": {"to": {"x": SECRET}}},
        {"task": "mail.send", "args": {"to": "a", "wrong": SECRET}},
        {"task": "bill.charge", "args": {"order": SECRET}},
    ]
    async with visiting(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        for call in calls:
            await visitor.post("/api/jobs", json=call)
            await visitor.post("/api/jobs/ready-1/edit", json={"args": call["args"]})
        log = await visitor.get("/api/audit")
        assert len(log.json()["rows"]) == 2 * len(calls)
        assert SECRET not in log.text


async def test_a_reader_without_values_sees_none(app: Windlass) -> None:
    world = await populate(app)
    canary = "no such host"
    site = windlass_dashboard(app, auth=Basic({"ann": ("secret", ["read", "audit"])}), streams=False)
    async with visiting(site, auth=("ann", "secret")) as visitor:
        reads = [f"/api{case.path}" for case in READS if "values" not in case.needs]
        for url in [*PAGES, *reads, "/jobs?filter=state:failed", "/api/jobs/running-1/events", "/api/events?since=0"]:
            answer = await visitor.get(url.replace("FLOW", world.flow).replace("BROKEN", world.broken))
            assert answer.status_code == 200, (url, answer.text)
            for secret in (SECRET, canary, "half way", "a logged line", '"to":"ann"', "vip", "x-tenant"):
                assert secret not in answer.text.replace("&#34;", '"'), (url, secret)
        for filter in ("args.to:ann", "word", "error:host", "key:k1", "tag:vip"):
            for way in ("jobs", "count"):
                assert (await visitor.get(f"/api/{way}", params={"filter": filter})).status_code == 403
