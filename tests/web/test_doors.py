"""Who is let in: names and passwords, tokens, the user's own functions; and the probes."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

from tests.web.kit import AWAY, basic, bearer, hand, make_app, new_job, populate, token_of, tokens, visiting
from windlass import ConfigError, Windlass
from windlass.console.recent_reads import shared_of
from windlass.testing import Harness
from windlass.web import Access, Basic, Token, make_access, windlass_dashboard


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.web.auth.FAILURE_SECONDS", 0)


# -- ways in


async def test_names_and_passwords(app: Windlass) -> None:
    users = {
        "ann": ("secret", ["*"]), "bob": ("pass:word", ["read"]), "zoë": ("pässwörd", ["read"]),
        "eve": ("secret", Access(queues=("mail",))),
    }  # fmt: skip
    async with visiting(windlass_dashboard(app, auth=Basic(users)), client=AWAY) as visitor:
        for user, (password, _) in users.items():
            me = await visitor.get("/api/me", headers=basic(user, password))
            assert (me.status_code, me.json()["user"]) == (200, user)
        assert (await visitor.get("/api/me", headers=basic("eve", "secret"))).json()["queues"] == ["mail"]
        for user, password in (("ann", "pass:word"), ("ann", ""), ("", "secret"), ("Ann", "secret"), ("x", "")):
            assert (await visitor.get("/api/me", headers=basic(user, password))).status_code == 401


async def test_several_ways_at_once(app: Windlass) -> None:
    site = windlass_dashboard(app, auth=[Basic({"ann": ("secret", ["*"])}), tokens({"ci": ["enqueue"]})])
    async with visiting(site, client=AWAY) as visitor:
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).json()["user"] == "ann"
        call = {"task": "mail.send", "args": {"to": "a"}}
        made = await visitor.post("/api/jobs", json=call, headers=bearer("ci"))
        assert made.status_code == 201, made.text
        assert (await visitor.get("/api/jobs", headers=bearer("ci"))).status_code == 403
        nobody = await visitor.get("/api/me")
        assert nobody.headers["www-authenticate"].count("realm") == 2


async def test_a_failure_costs_the_asker_a_moment(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("windlass.web.auth.FAILURE_SECONDS", 0.3)
    monkeypatch.setattr("windlass.web.auth.asyncio.sleep", sleep)
    async with visiting(windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"])}))) as visitor:
        await visitor.get("/")
        await visitor.get("/", headers=basic("ann", "secret"))
        assert slept == []
        await visitor.get("/", headers=basic("ann", "wrong"))
        assert slept == [0.3]


ANN = make_access("ann", ["*"])


async def later(verdict: Any) -> Any:
    return verdict


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (ANN, 200),
        (None, 401),
        (RedirectResponse("/login"), 307),
        (PlainTextResponse("go away", 418), 418),
        (False, 500),
        (True, 500),
        ("ann", 500),
    ],
    ids=["access", "none", "redirect", "answer", "false", "true", "text"],
)
@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_function_of_the_user(app: Windlass, verdict: Any, status: int, way: str) -> None:
    def plain(request: Request) -> Any:
        return verdict if way == "sync" else later(verdict)

    async with visiting(windlass_dashboard(app, auth=plain), client=AWAY) as visitor:
        for url in ("/", "/api/me", "/static/base.css", "/health"):
            answer = await visitor.get(url)
            assert answer.status_code == status, url
            assert "Traceback" not in answer.text
            assert "content-security-policy" in answer.headers


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_function_that_fails_lets_nobody_in(app: Windlass, way: str) -> None:
    def broken(request: Request) -> Any:
        raise RuntimeError("the database at db.internal is down")

    async def broken_later(request: Request) -> Any:
        raise RuntimeError("the database at db.internal is down")

    site = windlass_dashboard(app, auth=broken if way == "sync" else broken_later)
    async with visiting(site) as visitor:
        for url in ("/", "/api/me"):
            answer = await visitor.get(url)
            assert answer.status_code == 500
            assert "db.internal" not in answer.text


def test_what_cannot_be_meant_is_said_at_once(app: Windlass) -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: Basic({"ann": "secret"}), "give \\(password, rights\\)"),  # type: ignore[dict-item]
        (lambda: Basic({"ann": ("", ["*"])}), "give \\(password, rights\\)"),
        (lambda: Basic({"a:b": ("secret", ["*"])}), "not usable"),
        (lambda: Basic({"ann": ("secret", ["reed"])}), "did you mean 'read'"),
        (lambda: Basic({"ann": ("secret", "read")}), "are a list"),
        (lambda: Token({"short": ("ci", ["read"])}), "could be guessed"),
        (lambda: windlass_dashboard(app, auth=[]), "lets nobody in"),
        (lambda: windlass_dashboard(app, auth="ann:secret"), "not usable"),
        (lambda: windlass_dashboard(app, trace_url="javascript:x"), "web address"),
        (lambda: windlass_dashboard(app, refresh=0), "0.2 to 60"),
    ]
    for make, text in wrong:
        with pytest.raises(ConfigError, match=text):
            make()


async def test_mounted_in_fastapi(app: Windlass) -> None:
    outer = FastAPI()
    outer.mount("/jobs", windlass_dashboard(app, auth=tokens({"all": ["*"]})))

    @outer.get("/own")
    async def own() -> str:
        return "mine"

    await populate(app)
    async with visiting(outer, headers=bearer("all")) as visitor:
        assert (await visitor.get("/own")).json() == "mine"
        assert (await visitor.get("/jobs/api/me")).json()["user"] == "all"
        assert 'href="/jobs/jobs/failed-1"' in (await visitor.get("/jobs/jobs")).text
        assert (await visitor.post("/jobs/api/queues/mail/pause")).json()["paused"] is True


async def test_nobody_comes_in_by_a_web_socket(app: Windlass) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    site: Any = windlass_dashboard(app)
    await site({"type": "websocket", "path": "/live", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1003}]


# -- probes


async def test_health_says_whether_work_is_flowing() -> None:
    app = make_app("memory://")
    async with Harness(app) as h, visiting(windlass_dashboard(app)) as visitor:

        async def health() -> tuple[int, dict[str, Any]]:
            shared_of(app).forget()
            answer = await visitor.get("/health")
            return answer.status_code, answer.json()

        status, told = await health()
        assert (status, told["ok"], told["text"]) == (200, True, "work is flowing")
        store = (await app.client()).store
        await store.insert([new_job("one")])
        status, told = await health()
        assert (status, told["queues"][-1]["flow"]) == (200, "no_worker")  # a deployment takes a moment
        h.clock.advance("31s")
        status, told = await health()
        assert (status, told["ok"]) == (503, False)
        assert told["text"] == "queue mail: 1 job ready and no live worker"
        worker = hand(store, app)
        await worker.start()
        status, told = await health()
        assert (status, told["workers"]) == (200, 1)
        h.clock.advance("61s")
        await worker.beat()
        status, told = await health()
        assert status == 503
        assert "none is being done" in told["text"]
        assert (await visitor.post("/api/queues/mail/pause")).status_code == 403
        await app.queue("mail").pause()
        status, told = await health()
        assert (status, told["queues"][-1]["flow"]) == (200, "paused")  # somebody's wish, and no illness
        await app.queue("mail").resume()
        (claim,) = await worker.claim(1)
        status, told = await health()
        assert (status, told["queues"][-1]["flow"]) == (200, "flowing")
        assert claim.id == "one"


async def test_autoscale(app: Windlass) -> None:
    await populate(app)
    users = {"all": ["*"], "bill": make_access("bill", ["read"], queues=["bill"])}
    async with visiting(windlass_dashboard(app, auth=tokens(users))) as visitor:
        told = (await visitor.get("/autoscale?queue=mail", headers=bearer("all"))).json()
        assert (told["ready"], told["running"], told["scheduled"], told["backlog"]) == (2, 1, 1, 3)
        assert told["slots"] == 4
        nothing = {"queue": "none", "ready": 0, "running": 0, "scheduled": 0, "backlog": 0, "age": 0.0, "slots": 0}
        assert (await visitor.get("/autoscale?queue=none", headers=bearer("all"))).json() == nothing
        other = (await visitor.get("/autoscale?queue=mail", headers=bearer("bill"))).json()
        assert other == {**nothing, "queue": "mail"}


async def test_open_probes_tell_no_details(app: Windlass) -> None:
    await populate(app)
    site = windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"])}), open_probes=True)
    async with visiting(site, client=AWAY) as visitor:
        for probe in ("/health", "/ready"):
            answer = await visitor.get(probe)
            assert (answer.status_code, answer.json()) == (200, {"ok": True})
        for url in ("/", "/api/me", "/metrics", "/autoscale?queue=mail", "/live", "/health/", "/healthy", "/ready/x"):
            assert (await visitor.get(url)).status_code == 401, url
        assert (await visitor.post("/health")).status_code in (403, 405)


async def test_a_token_is_not_in_what_is_told(app: Windlass) -> None:
    site = windlass_dashboard(app, auth=tokens({"all": ["*"]}))
    async with visiting(site, headers=bearer("all")) as visitor:
        for url in ("/", "/api/me", "/audit", "/api/openapi.json", "/nowhere"):
            assert token_of("all") not in (await visitor.get(url)).text
