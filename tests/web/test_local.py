"""Without auth: who has the link looks, from this machine and no other way, whatever stands in between."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.servers.nginx import nginx
from tests.web.kit import AWAY, LOCAL, World, bearer, dashboard, visiting
from tests.web.serving import serving
from windlass import ConfigError, Windlass
from windlass.web import windlass_dashboard

PAGES = ("/", "/jobs", "/api/me", "/api/jobs", "/static/base.css", "/health", "/ready", "/metrics", "/live", "/nowhere")


@pytest.fixture
def site(app: Windlass) -> Any:
    return windlass_dashboard(app)


async def stranger(site: Any, client: tuple[str, int] = LOCAL) -> httpx2.AsyncClient:
    """A client that was not given the link."""
    transport = httpx2.ASGITransport(app=site, client=client, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


def with_key(site: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {site.state.key}"}


# -- the key


async def test_nobody_comes_in_without_the_key(site: Any) -> None:
    async with await stranger(site) as visitor:
        for page in PAGES:
            for headers in ({}, {"authorization": "Bearer " + "x" * 32}, {"cookie": "windlass-key-00000000=x"}):
                answer = await visitor.get(page, headers=headers)
                assert answer.status_code == 403, page
                assert "open the link with the key" in answer.text
                assert site.state.key not in answer.text
            assert (await visitor.get(page, params={"key": "é" * 32})).status_code == 403


async def test_the_link_leads_to_the_first_page_and_is_remembered(site: Any, world: World) -> None:
    async with await stranger(site) as visitor:
        came = await visitor.get("/", params={"key": site.state.key})
        assert (came.status_code, came.headers["location"]) == (303, "/")
        cookie = came.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Secure" not in cookie
        assert came.headers["cache-control"] == "no-store"
        assert came.headers["referrer-policy"] == "same-origin"
        assert (await visitor.get("/jobs")).status_code == 200
        assert (await visitor.get("/api/me")).json()["user"] == "anonymous"
        assert (await visitor.post("/api/queues/mail/pause")).status_code == 403
    async with await stranger(site) as script:
        assert (await script.get("/api/me", headers=with_key(site))).status_code == 200
        assert (await script.post("/api/queues/mail/pause", headers=with_key(site))).status_code == 403
        assert (await script.post("/", params={"key": site.state.key})).status_code == 403


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example", "/jobs/../..//evil.example", "/%2f/evil.example"]
)
async def test_the_link_leads_nowhere_else(site: Any, path: str) -> None:
    async with await stranger(site) as visitor:
        answer = await visitor.get(f"http://127.0.0.1{path}", params={"key": site.state.key, "next": "//evil.example"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_the_log_says_the_link_once_where_it_is_mounted(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    outer = Starlette(routes=[Mount("/ops/jobs", site)])
    with caplog.at_level(logging.WARNING, "windlass.web"):
        async with await stranger(outer) as visitor:
            for _ in range(3):
                assert (await visitor.get("/ops/jobs/")).status_code == 403
            (link,) = re.findall(r"http://\S+", caplog.text)
            assert link == f"http://127.0.0.1/ops/jobs/?key={site.state.key}"
            came = await visitor.get(link)
            assert came.headers["location"] == "/ops/jobs/"
            assert "Path=/ops/jobs" in came.headers["set-cookie"]
            assert (await visitor.get("/ops/jobs/api/me")).status_code == 200


async def test_two_dashboards_of_one_machine_have_cookies_of_their_own(app: Windlass) -> None:
    one, two = windlass_dashboard(app), windlass_dashboard(app)
    outer = Starlette(routes=[Mount("/jobs", two), Mount("/", one)])
    async with await stranger(outer) as visitor:
        await visitor.get("/", params={"key": one.state.key})
        await visitor.get("/jobs/", params={"key": two.state.key})
        assert len({cookie.name for cookie in visitor.cookies.jar}) == 2
        for page in ("/api/me", "/jobs/api/me"):
            assert (await visitor.get(page)).status_code == 200


def test_several_processes_may_share_a_key(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    assert windlass_dashboard(app).state.key != windlass_dashboard(app).state.key
    monkeypatch.setenv("WINDLASS_WEB_KEY", "a-key-of-our-own")
    assert windlass_dashboard(app).state.key == "a-key-of-our-own"
    for unusable in ("short", "a key with blanks in it"):
        monkeypatch.setenv("WINDLASS_WEB_KEY", unusable)
        with pytest.raises(ConfigError, match="WINDLASS_WEB_KEY"):
            windlass_dashboard(app)


def test_with_auth_there_is_no_key(app: Windlass) -> None:
    assert windlass_dashboard(app, auth=lambda request: None).state.key == ""


# -- where a request comes from


FAMILIES = {
    "forwarded": "for=127.0.0.1", "x-forwarded-for": "127.0.0.1", "x-forwarded-host": "localhost",
    "x-forwarded-proto": "https", "x-forwarded-port": "443", "x-forwarded-server": "edge", "x-forwarded": "1",
    "x-forwarded-prefix": "/jobs", "x-real-ip": "127.0.0.1", "via": "1.1 proxy", "cf-connecting-ip": "127.0.0.1",
    "cf-ray": "1", "cf-visitor": "{}", "cdn-loop": "cloudflare", "true-client-ip": "127.0.0.1",
    "x-client-ip": "127.0.0.1", "client-ip": "127.0.0.1", "x-cluster-client-ip": "127.0.0.1", "fly-client-ip": "::1",
    "fly-forwarded-proto": "https", "fastly-client-ip": "127.0.0.1", "x-envoy-external-address": "127.0.0.1",
    "x-original-host": "localhost", "x-original-forwarded-for": "127.0.0.1", "x-original-url": "/", "x-azure-ref": "1",
    "x-azure-clientip": "127.0.0.1", "x-arr-ssl": "1", "x-appengine-user-ip": "127.0.0.1", "x-amzn-trace-id": "1",
    "x-cloud-trace-context": "1", "akamai-origin-hop": "1", "incap-client-ip": "127.0.0.1", "x-scheme": "https",
    "ali-cdn-real-ip": "127.0.0.1", "wl-proxy-client-ip": "127.0.0.1", "proxy-client-ip": "127.0.0.1", "x-varnish": "1",
    "do-connecting-ip": "127.0.0.1", "x-vercel-id": "1", "x-nf-client-connection-ip": "::1", "x-request-id": "1",
    "max-forwards": "1", "ssl-client-cert": "x", "remote-addr": "127.0.0.1", "a-header-of-tomorrow": "1",
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_sign_of_a_proxy_is_refused_key_or_not(site: Any, name: str) -> None:
    async with visiting(site) as visitor:
        for page in ("/", "/api/me"):
            answer = await visitor.get(page, headers={name: FAMILIES[name]})
            assert answer.status_code == 403
            assert "a proxy is in between" in answer.text


CHROMIUM = {
    "sec-ch-ua": '"Chromium";v="140"', "sec-ch-ua-mobile": "?0", "sec-ch-ua-platform": '"Linux"', "dnt": "1",
    "upgrade-insecure-requests": "1", "user-agent": "Mozilla/5.0", "accept": "text/html", "sec-fetch-site": "none",
    "sec-fetch-mode": "navigate", "sec-fetch-user": "?1", "sec-fetch-dest": "document", "sec-gpc": "1",
    "accept-encoding": "gzip, deflate, br, zstd", "accept-language": "en", "cache-control": "no-cache",
    "pragma": "no-cache", "connection": "keep-alive", "priority": "u=0, i", "referer": "http://127.0.0.1/jobs",
    "if-none-match": '"x"', "if-modified-since": "x", "origin": "http://127.0.0.1", "sec-purpose": "prefetch",
    "last-event-id": "1", "te": "trailers", "range": "bytes=0-",
}  # fmt: skip


async def test_what_browsers_send_is_none(site: Any) -> None:
    async with visiting(site, headers=CHROMIUM) as visitor:
        assert (await visitor.get("/api/me")).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::1", "::1",
        "127.1", "2130706433", "0.0.0.0", "10.0.0.1", "[fe80::1]", "user@localhost", "localhost, evil.example",
        "localhost:x", "localhost:", "localhost:999999", "127.0.0.1:8080", "[::1]:8080", "localhost:443",
    ],
)  # fmt: skip
async def test_another_name_or_port_is_refused_key_or_not(site: Any, host: str) -> None:
    async with visiting(site) as visitor:
        assert (await visitor.get("/api/me", headers={"host": host})).status_code == 403
        assert (await visitor.get("/api/me", headers={"host": host, **with_key(site)})).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "localhost.", "127.0.0.1", "127.8.8.8:80", "[::1]", "[::ffff:127.0.0.1]:80"]
)
async def test_this_machine_has_several_names(site: Any, host: str) -> None:
    async with visiting(site, headers=with_key(site)) as visitor:
        assert (await visitor.get("/api/me", headers={"host": host})).status_code == 200


@pytest.mark.parametrize("client", [AWAY, ("10.0.0.1", 1), ("::ffff:10.0.0.1", 1), ("fe80::1", 1), ("", 0), None])
async def test_who_is_elsewhere_is_refused_key_or_not(site: Any, client: Any) -> None:
    async with await stranger(site, client) as visitor:
        for page in PAGES:
            assert (await visitor.get(page, headers=with_key(site))).status_code == 403, page
        assert (await visitor.get("/", params={"key": site.state.key})).status_code == 403


@pytest.mark.parametrize("client", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_has_several_addresses(site: Any, client: str) -> None:
    async with await stranger(site, (client, 1)) as visitor:
        assert (await visitor.get("/api/me", headers=with_key(site))).status_code == 200


# -- behind a real proxy


@pytest.fixture(params=["127.0.0.1", "::1"], ids=["IPv4", "IPv6"])
async def upstream(request: pytest.FixtureRequest, site: Any) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(site, host=request.param) as visitor:
        yield visitor


async def asked(port: int, path: str = "/api/me", **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as visitor:
        return await visitor.get(path, headers=headers)


async def test_straight_from_this_machine(site: Any, upstream: httpx2.AsyncClient) -> None:
    assert (await upstream.get("/api/me")).status_code == 403
    assert (await upstream.get("/api/me", headers=with_key(site))).status_code == 200
    assert (await upstream.get("/", params={"key": site.state.key})).status_code == 303
    assert (await upstream.get("/jobs")).status_code == 200
    rebound = {"host": f"evil.example:{upstream.base_url.port}"}
    assert (await upstream.get("/jobs", headers=rebound)).status_code == 403


@pytest.mark.parametrize(
    "more",
    ["", 'proxy_http_version 1.1; proxy_set_header Connection "";', "proxy_pass_request_headers off;"],
    ids=["bare", "keeps connections", "no headers"],
)
async def test_a_proxy_that_says_nothing_of_itself_lets_nobody_in(
    site: Any, upstream: httpx2.AsyncClient, tmp_path: Path, more: str
) -> None:
    with nginx(tmp_path, str(upstream.base_url), more) as port:
        for page in PAGES:
            assert (await asked(port, page)).status_code == 403, page
        assert (await asked(port, host="evil.example")).status_code == 403
        assert (await asked(port, origin="http://localhost")).status_code == 403
        # Only the key itself says otherwise: whoever was given it was meant to look.
        assert (await asked(port, **with_key(site))).status_code == (403 if "off" in more else 200)


@pytest.mark.parametrize(
    "more",
    [
        "proxy_set_header Host $host;", "proxy_set_header Host $http_host;", "proxy_set_header Host jobs.example.com;",
        "proxy_set_header X-Forwarded-Proto $scheme;", "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "proxy_set_header X-Real-IP $remote_addr;", "proxy_set_header Forwarded for=$remote_addr;",
        "proxy_set_header Via nginx;", "proxy_set_header CF-Connecting-IP $remote_addr;",
        "proxy_set_header X-Request-ID $request_id;",
    ],
)  # fmt: skip
async def test_a_proxy_that_shows_is_refused_key_or_not(
    site: Any, upstream: httpx2.AsyncClient, tmp_path: Path, more: str
) -> None:
    with nginx(tmp_path, str(upstream.base_url), more) as port:
        for headers in ({}, with_key(site)):
            assert (await asked(port, **headers)).status_code == 403
        assert (await asked(port, host="evil.example", **with_key(site))).status_code == 403


async def test_auth_works_behind_it(app: Windlass, tmp_path: Path) -> None:
    async with serving(dashboard(app, {"all": ["*"]})) as upstream:
        with nginx(tmp_path, str(upstream.base_url), "proxy_set_header X-Forwarded-Proto $scheme;") as port:
            assert (await asked(port, **bearer("all"))).status_code == 200
            assert (await asked(port)).status_code == 401
