"""Requests that nobody sends by accident: strange paths, methods, bodies and queries; and headers on every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.web.cases import PAGES
from tests.web.kit import Page, World, bearer, dashboard, everything, make_app, visiting
from windlass import Windlass
from windlass.web.api import TABLE
from windlass.web.csrf import BODY_MAX
from windlass.web.headers import CSP


@pytest.fixture
async def visitor(app: Windlass, world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with visiting(dashboard(app, {"all": ["*"]}, streams=False), headers=bearer("all")) as visitor:
        yield visitor


async def raw(site: Any, path: str, method: str = "GET", query: bytes = b"", root: str = "") -> tuple[int, str]:
    """A request as a server would pass it on, with a path that no client would send."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode("utf-8", "surrogateescape"), "query_string": query, "root_path": root,
        "headers": [(b"host", b"127.0.0.1"), *((k.encode(), v.encode()) for k, v in bearer("all").items())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "asgi": {"version": "3.0"}, "state": {},
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await site(scope, receive, send)
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:]).decode()


@pytest.mark.parametrize(
    "path",
    [
        "//", "//evil.example", "//evil.example/jobs", "/jobs//", "/../jobs", "/static/../app.py",
        "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/", "/static/../templates/base.html",
        "/static//etc/passwd", "/api/../jobs", "/api//jobs", "/api/jobs/", "/api/jobs/..", "/api/jobs/%2e%2e/me",
        "/jobs/..", "/jobs/\x00", "/jobs/\udcff", "/jobs/" + "x" * 5_000, "/queues/\r\nset-cookie: a=b",
        "/api/jobs/\x00", "/api/jobs/" + "x" * 5_000, "/api/queues/\r\nx", "/api/views/\u202e", "/JOBS", "/api/JOBS",
        "/windlass", "/.git/config", "", "/tasks/{{7*7}}", "/workflows/'\"><script>",
    ],
)  # fmt: skip
async def test_paths(app: Windlass, world: World, path: str) -> None:
    site = dashboard(app, {"all": ["*"]})
    before = await everything(world.store)
    for method in ("GET", "POST", "DELETE"):
        status, text = await raw(site, path, method)
        assert 400 <= status < 500 or (method == "GET" and path == "/api/jobs/.."), (method, status)
        assert "Traceback" not in text
        assert "<script>" not in text
        assert "def " not in text
        assert path != "/tasks/{{7*7}}" or method != "GET" or "{{7*7}}" in text
    assert await everything(world.store) == before


async def test_nothing_redirects_to_another_site(visitor: httpx2.AsyncClient) -> None:
    answer = await visitor.get("/jobs", params={"queue": "//evil.example", "filter": "state:failed"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/jobs?filter=")
    for path in ("/jobs/", "/queues/"):
        assert (await visitor.get(path)).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
async def test_methods(visitor: httpx2.AsyncClient, world: World, method: str) -> None:
    before = await everything(world.store)
    for operation in TABLE:
        path = operation.path.replace("{id}", "ready-1").replace("{name}", "mail")
        answer = await visitor.request(method, f"/api{path}")
        assert answer.status_code == 405, operation.name
        assert answer.headers["content-type"] == "application/problem+json"
        assert "access-control-allow-origin" not in answer.headers
    assert await everything(world.store) == before


async def test_headers_are_on_every_answer(visitor: httpx2.AsyncClient, world: World) -> None:
    urls = ["/nowhere", "/api/nowhere", "/api/me", "/static/base.css", "/health", "/jobs?filter=x:y", *PAGES]
    for url in urls:
        answer = await visitor.get(url.replace("FLOW", world.flow).replace("BROKEN", world.broken))
        assert answer.headers["content-security-policy"] == CSP, url
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == ("no-cache" if "static" in url else "no-store")
    bare = await visitor.get("/", headers={"authorization": ""})
    assert (bare.status_code, bare.headers["content-security-policy"]) == (401, CSP)


# -- bodies


async def send(visitor: httpx2.AsyncClient, path: str, body: bytes, **headers: str) -> httpx2.Response:
    return await visitor.post(path, content=body, headers={"content-type": "application/json", **headers})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"x"', 422),
        (b"\xff\xfe", 422),
        (b'{"task":"mail.send","args":{"to":"\\ud800"}}', 422),
        (b"[" * 100_000, 422),
        (b'{"task":"mail.send","args":' + b'{"to":' * 5_000 + b"1" + b"}" * 5_001, 422),
        (b'{"task":"mail.send","args":{"to":1e999}}', 422),
        (b'{"task":"mail.send","args":{"to":NaN}}', 422),
        (b'{"task":"mail.send","args":{"to":"a","more":1}}', 422),
        (b'{"task":"mail.send","args":{"to":' + b"9" * 5_000 + b"}}", 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"qeue":"x"}}', 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"delay":{}}}', 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"delay":"-1s"}}', 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"queue":"<b>"}}', 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"tags":[[1]]}}', 422),
        (b'{"task":"mail.send","args":{"to":"a"},"options":{"at":"tomorrow"}}', 422),
        (b'{"task":"mail.sand","args":{"to":"a"}}', 404),
        (b'{"task":"mail.send","args":{"to":"[redacted]"}}', 422),
        (b'{"task":"' + b"x" * 200 + b'"}', 422),
        (b'{"task":"mail.send","args":{"to":"' + b"x" * BODY_MAX + b'"}}', 413),
    ],
    ids=lambda value: repr(value)[:50],
)
async def test_bodies_of_a_call(visitor: httpx2.AsyncClient, world: World, body: bytes, status: int) -> None:
    before = await everything(world.store)
    answer = await send(visitor, "/api/jobs", body)
    assert answer.status_code == status, answer.text
    assert len(answer.content) < 5_000
    assert await everything(world.store) == before


async def test_a_body_too_large_is_not_read_to_its_end(app: Windlass, world: World) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield b"x" * 65_536

    async with visiting(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        answer = await visitor.post("/api/jobs", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/jobs/actions", b'{"action":"retry"}'),
        ("/api/jobs/actions", b'{"action":"retry","ids":[]}'),
        ("/api/jobs/actions", b'{"action":"retry","ids":["a"],"filter":""}'),
        ("/api/jobs/actions", b'{"action":"explode","ids":["a"]}'),
        ("/api/jobs/actions", b'{"action":"retry","ids":["a"],"params":{"priority":1}}'),
        ("/api/jobs/actions", b'{"action":"move","ids":["a"]}'),
        ("/api/jobs/actions", b'{"action":"move","ids":["ready-1"],"params":{"queue":"../x y"}}'),
        ("/api/jobs/actions", b'{"action":"reschedule","ids":["ready-1"],"params":{"delay":"soon"}}'),
        ("/api/jobs/actions", b'{"action":"reschedule","ids":["ready-1"],"params":{"at":"9999999-01-01"}}'),
        ("/api/jobs/actions", b'{"action":"reprioritise","ids":["a"],"params":{"priority":10}}'),
        ("/api/jobs/actions", b'{"action":"delete","filter":"state:faild"}'),
        ("/api/jobs/actions", b'{"action":"delete","filter":"","after":"zzz"}'),
        ("/api/jobs/actions", b'{"action":"delete","filter":"","after":"0000000000000-000000000000~1"}'),
        ("/api/jobs/actions", b'{"action":"delete","filter":"","limit":100000}'),
        ("/api/jobs/actions", b'{"action":"retry","ids":[' + b'"a",' * 500 + b'"a"]}'),
        ("/api/queues/mail/tune", b'{"limit":0}'),
        ("/api/queues/mail/tune", b'{"limit":99999999999999999999999}'),
        ("/api/queues/mail/tune", b'{"limit":true}'),
        ("/api/queues/mail/tune", b'{"rate":"fast"}'),
        ("/api/queues/mail/tune", b'{"rate":"1/0s"}'),
        ("/api/queues/mail/tune", b'{"limt":1}'),
        ("/api/queues/<b>/tune", b'{"limit":1}'),
        ("/api/queues/mail/purge", b"{}"),
        ("/api/queues/mail/purge", b'{"confirm":"bill"}'),
        ("/api/queues/mail/purge", b'{"confirm":"mail","states":["running"]}'),
        ("/api/queues/mail/purge", b'{"confirm":"mail","states":[]}'),
        ("/api/queues/mail/purge", b'{"confirm":"mail","states":[' + b'"ready",' * 8 + b'"ready"]}'),
        ("/api/queues/mail/move", b'{"to":"mail"}'),
        ("/api/queues/mail/move", b'{"to":"a b"}'),
        ("/api/breakers/smtp/open", b'{"seconds":-1}'),
        ("/api/breakers/smtp/open", b'{"seconds":1e300}'),
        ("/api/schedules/hourly/edit", b'{"spec":"sometimes"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"cron * * *"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"at 2001-01-01T00:00"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"at 999999-01-01"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"every 0s"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"every 5m","tz":"Mars/Base"}'),
        ("/api/schedules/hourly/edit", b'{"spec":"every 5m","tz":"../../etc/passwd"}'),
        ("/api/views", b'{"name":"  ","filter":""}'),
        ("/api/views", b'{"name":"a\\u0000b","filter":""}'),
        ("/api/views", b'{"name":"a","filter":"state:nope"}'),
        ("/api/views", b'{"name":"a","filter":"\\"open"}'),
        ("/api/jobs/ready-1/edit", b'{"args":{"nope":1}}'),
        ("/api/jobs/ready-1/edit", b'{"args":[]}'),
        ("/api/queues/mail/pause?x=1", b""),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else repr(value)[:60],
)  # fmt: skip
async def test_bodies_of_actions(visitor: httpx2.AsyncClient, world: World, path: str, body: bytes) -> None:
    before = await everything(world.store)
    answer = await send(visitor, path, body)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert (problem["status"], problem["title"]) == (422, "Unprocessable Entity")
    assert problem["detail"]
    assert await everything(world.store) == before


async def test_did_you_mean(visitor: httpx2.AsyncClient) -> None:
    told = [
        (await send(visitor, "/api/queues/mail/tune", b'{"limt":1}')).text,
        (await send(visitor, "/api/jobs", b'{"task":"mail.sand"}')).text,
        (await send(visitor, "/api/jobs/actions", b'{"action":"delete","filter":"stat:failed"}')).text,
        (await visitor.get("/api/jobs?filtr=x")).text,
        (await visitor.get("/api/count?filter=state:faild")).text,
        (await visitor.get("/api/events?kind=enqeued")).text,
    ]
    for text, meant in zip(told, ("limit", "mail.send", "state", "filter", "failed", "enqueued"), strict=True):
        assert f"did you mean '{meant}'" in text


# -- queries


@pytest.mark.parametrize(
    "url",
    [
        "/api/jobs?limit=1&limit=2", "/api/jobs?filter=a&filter=b", "/api/jobs?limit=0", "/api/jobs?limit=201",
        "/api/jobs?limit=x", "/api/jobs?after=x", "/api/jobs?after=9999999999999999999", "/api/jobs?after=%00",
        "/api/jobs?filter=" + "a" * 3_000, "/api/jobs?filter=" + "a" * 5_000, "/api/jobs?filter=%22",
        "/api/jobs?nope=1",
        "/api/jobs?filter=args:1", "/api/jobs?filter=since:yesterday", "/api/jobs?filter=queue.x:1",
        "/api/overview?span=2h", "/api/chart?span=", "/api/audit?limit=1000", "/api/audit?after=" + "9" * 50,
        "/api/export?limit=1000000", "/api/export?filter=x:y", "/api/count?filter=x:y", "/api/workflows?state=nope",
        "/api/workflows?limit=500", "/api/workflows?after=x", "/api/events?since=x", "/api/events?since=%C2%B2",
        "/api/events?kind=nope", "/api/jobs/ready-1/logs?limit=5000",
        "/api/jobs/ready-1/logs?after=99999999999999999999",
        "/api/jobs/ready-1?whole=maybe", "/api/me?x=1", "/health?x=1", "/ready?x=1", "/autoscale", "/autoscale?queue=",
        "/autoscale?queue=a&queue=b",
    ],
)  # fmt: skip
async def test_queries(visitor: httpx2.AsyncClient, url: str) -> None:
    answer = await visitor.get(url)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 6_000


@pytest.mark.parametrize(
    "url",
    [
        "/?span=nope", "/?span=1h&span=2h", "/jobs?after=0&after=1", "/jobs?nope=1", "/dead?queue=%00",
        "/audit?nope=%ff", "/dead?queue=" + "x" * 3_000,
    ],
)  # fmt: skip
async def test_pages_take_any_query(visitor: httpx2.AsyncClient, url: str) -> None:
    assert (await visitor.get(url)).status_code in (200, 422)


@pytest.mark.parametrize(
    "url", ["/jobs?filter=%22", "/jobs?after=zzz", "/workflows?state=nope", "/audit?after=" + "9" * 99]
)
async def test_a_page_says_what_is_wrong(visitor: httpx2.AsyncClient, url: str) -> None:
    answer = await visitor.get(url)
    assert answer.status_code == 422
    assert answer.headers["content-type"].startswith("text/html")


# -- below another application


async def test_mounted_below_a_path_all_links_are_right(app: Windlass, world: World) -> None:
    outer = Starlette(routes=[Mount("/admin/jobs", dashboard(app, {"all": ["*"]}))])
    async with visiting(outer, headers=bearer("all")) as visitor:
        for path in PAGES:
            url = "/admin/jobs" + path.replace("FLOW", world.flow).replace("BROKEN", world.broken)
            answer = await visitor.get(url)
            assert answer.status_code == 200, url
            page = Page(answer.text)
            for link in page.links:
                assert link.startswith(("/admin/jobs/", "#", "?")), link
            assert page.named("html")[0]["data-base"] == "/admin/jobs"
        for link in {each["href"] for each in page.named("link")}:
            assert (await visitor.get(link)).status_code == 200
        moved = await visitor.get("/admin/jobs/jobs?queue=mail")
        assert moved.headers["location"] == "/admin/jobs/jobs?filter=queue%3Amail"
        cookie = (await visitor.get("/admin/jobs/")).headers.get("set-cookie", "")
        assert "Path=/admin/jobs" in cookie or not cookie
        described = (await visitor.get("/admin/jobs/api/openapi.json")).json()
        assert described["servers"] == [{"url": "/admin/jobs"}]
        missing = await visitor.get("/admin/jobs/api/nowhere")
        assert missing.headers["content-type"] == "application/problem+json"


async def test_a_proxy_that_takes_the_path_off(app: Windlass, world: World) -> None:
    """As uvicorn's root_path has it: in front of the path, or not."""
    site = dashboard(app, {"all": ["*"]})
    for path in ("/tools/jobs", "/jobs"):
        status, text = await raw(site, path, root="/tools")
        assert status == 200
        assert 'href="/tools/jobs/failed-1"' in text


async def test_two_dashboards_at_once(world: World, app: Windlass) -> None:
    other = make_app()
    outer = Starlette(routes=[
        Mount("/one", dashboard(app, {"all": ["*"]})), Mount("/two", dashboard(other, {"all": ["*"]}, title="second")),
    ])  # fmt: skip
    async with visiting(outer, headers=bearer("all")) as visitor:
        assert (await visitor.get("/one/api/jobs/failed-1")).status_code == 200
        assert (await visitor.get("/two/api/jobs/failed-1")).status_code == 404
        assert (await visitor.post("/two/api/queues/mail/pause")).status_code == 200
        assert [row["paused"] for row in (await visitor.get("/one/api/queues")).json()] == [False] * 2
        assert "second" in (await visitor.get("/two/")).text
    await other.close()
