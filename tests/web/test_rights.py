"""Nothing changes without the right: every operation, page and probe, asked by everybody who may come to the door."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from tests.web.cases import PAGES, PROBES, READS, WRITES, Case
from tests.web.kit import (
    ALL,
    AWAY,
    World,
    audited,
    basic,
    bearer,
    dashboard,
    everything,
    populate,
    visiting,
)
from windlass import Windlass
from windlass.core.access import RIGHTS
from windlass.web import Basic, make_access, pages, windlass_dashboard
from windlass.web.api import TABLE


async def ask(visitor: httpx2.AsyncClient, case: Case, world: World, **options: Any) -> httpx2.Response:
    if case.operation.sends == "text/event-stream":
        options["params"] = None
    return await visitor.request(case.operation.method, case.url(world), json=case.body, **options)


def test_every_operation_has_a_case() -> None:
    assert {case.operation.name for case in (*WRITES, *READS)} == {operation.name for operation in TABLE}
    assert all(case.operation.method != "GET" for case in WRITES)
    assert all(case.operation.method == "GET" for case in READS)


def test_the_table_says_the_right_that_the_console_asks_for() -> None:
    for case in (*WRITES, *READS):
        assert case.operation.right in {*case.needs, "read"}, case.id
        assert case.operation.right in RIGHTS


def everybody_else(case: Case) -> dict[str, Any]:
    """Users that lack something: one right of those needed, every right but one, or the queue."""
    users: dict[str, Any] = {f"alone-{right}": [right] for right in RIGHTS if {right} != case.needs}
    users |= {f"without-{right}": sorted(ALL - {right}) for right in case.needs}
    users["reader"] = ["read", "values"]
    users["nothing"] = []
    if case.queue:
        users["elsewhere"] = make_access("elsewhere", ["*"], queues=["other.*"])
        users["elsewhere-redacted"] = make_access("elsewhere-redacted", ["*"], ["other"], ["*"])
    return {name: rights for name, rights in users.items() if name == "elsewhere" or not enough(case, rights)}


def enough(case: Case, rights: Any) -> bool:
    return not hasattr(rights, "queues") and case.needs <= set(rights)


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.id)
async def test_an_action_needs_its_rights(app: Windlass, world: World, case: Case) -> None:
    users = everybody_else(case)
    before = await everything(world.store)
    async with visiting(dashboard(app, {**users, "entitled": case.needs})) as visitor:
        for user in users:
            answer = await ask(visitor, case, world, headers=bearer(user))
            in_bulk = answer.status_code == 200 and user.startswith("elsewhere")
            if in_bulk:  # nothing there for these eyes, which is no error
                assert answer.json()["count"] == 0, (user, answer.text)
            else:
                assert answer.status_code in (403, 404), (user, answer.text)
                assert answer.headers["content-type"] == "application/problem+json"
            assert await everything(world.store) == before, user
            (record,) = [one for one in await audited(world.store) if one["user"] == user]
            assert record["via"] == "api"
            if not user.startswith("elsewhere"):
                assert record["outcome"].startswith("refused: "), record
        answer = await ask(visitor, case, world, headers=bearer("entitled"))
    assert answer.status_code == case.operation.status, answer.text
    assert [one["outcome"] for one in await audited(world.store) if one["user"] == "entitled"] == ["done"]
    idle = {"resume_queue", "resume_task", "untune_task", "auto_breaker", "resume_schedule"}
    if case.operation.name not in idle:
        assert await everything(world.store) != before


async def test_nothing_changes_without_the_right_on_any_engine(any_app: Windlass) -> None:
    """A part of the above: what each action needs is taken away, one right after the other."""
    world = await populate(any_app)
    users: dict[str, Any] = {f"without-{right}": sorted(ALL - {right}) for right in RIGHTS}
    users["elsewhere"] = make_access("elsewhere", ["*"], queues=["other.*"])
    before = await everything(world.store)
    async with visiting(dashboard(any_app, users)) as visitor:
        for case in WRITES:
            for user in [*(f"without-{right}" for right in case.needs), *(["elsewhere"] if case.queue else [])]:
                answer = await ask(visitor, case, world, headers=bearer(user))
                assert answer.status_code in (403, 404) or answer.json()["count"] == 0, (case.id, user, answer.text)
    assert await everything(world.store) == before


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.id)
async def test_an_action_within_a_scope(app: Windlass, world: World, case: Case) -> None:
    scoped = make_access("scoped", case.needs, queues=[f"{case.queue}*"])
    async with visiting(dashboard(app, {"scoped": scoped}), headers=bearer("scoped")) as visitor:
        answer = await ask(visitor, case, world)
    assert answer.status_code == case.operation.status, answer.text


@pytest.mark.parametrize("case", READS, ids=lambda case: case.id)
async def test_a_read_needs_its_rights(app: Windlass, world: World, case: Case) -> None:
    users = {name: rights for name, rights in everybody_else(case).items() if not name.startswith("elsewhere")}
    before = await everything(world.store)
    site = dashboard(app, {**users, "entitled": case.needs | {"read"}}, streams=False)
    async with visiting(site) as visitor:
        for user, rights in users.items():
            answer = await ask(visitor, case, world, headers=bearer(user))
            assert answer.status_code == 403, (user, rights, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        answer = await ask(visitor, case, world, headers=bearer("entitled"))
        assert answer.status_code == 200, answer.text
        head = await visitor.head(case.url(world), headers=bearer("entitled"))
        assert (head.status_code, head.content) == (200, b"")
    assert await everything(world.store) == before


@pytest.mark.parametrize("case", [case for case in READS if case.queue], ids=lambda case: case.id)
async def test_what_is_out_of_scope_is_not_there(app: Windlass, world: World, case: Case) -> None:
    users = {"elsewhere": make_access("elsewhere", ["*"], queues=["other.*"])}
    async with visiting(dashboard(app, users), headers=bearer("elsewhere")) as visitor:
        answer = await ask(visitor, case, world)
    assert answer.status_code == 404, answer.text


async def test_a_list_out_of_scope_is_empty(app: Windlass, world: World) -> None:
    """Nothing of the other queues is in any answer, be it a name, an id or a count."""
    users = {"elsewhere": make_access("elsewhere", ["*"], queues=["other.*"])}
    site = dashboard(app, users, streams=False)
    async with visiting(site, headers=bearer("elsewhere")) as visitor:
        told = {case.id: (await ask(visitor, case, world)).text for case in READS if not case.queue}
        told |= {page: (await visitor.get(page)).text for page in PAGES if page.count("/") == 1}
    for what, text in told.items():
        for secret in ("failed-1", "done-1", "mail.send", "bill.charge", "hourly", "hunter2", world.flow):
            assert secret not in text.replace("mail.*", ""), (what, secret)


# -- pages and probes


def test_every_page_has_a_case() -> None:
    routes = {route.path.replace("{id:path}", "…").replace("{name:path}", "…") for route in pages.ROUTES}
    asked = {page.partition("?")[0] for page in PAGES}
    found = {page if page.count("/") == 1 else f"/{page.split('/')[1]}/…" for page in asked}
    assert found == routes


@pytest.mark.parametrize("path", [*PAGES, *PROBES])
async def test_pages_and_probes(app: Windlass, world: World, path: str) -> None:
    url = path.replace("FLOW", world.flow).replace("BROKEN", world.broken)
    needed = {"/audit": {"read", "audit"}, "/ready": set(), "/health": set()}.get(path, {"read"})
    users = {
        "entitled": needed, "nothing": [], "all": ["*"], "no-values": sorted(ALL - {"values"}),
        **{f"without-{right}": sorted(ALL - {right}) for right in needed},
    }  # fmt: skip
    before = await everything(world.store)
    async with visiting(dashboard(app, users)) as visitor:
        for user in users:
            answer = await visitor.get(url, headers=bearer(user))
            lacks = user.startswith("without") or (user == "nothing" and needed)
            assert answer.status_code == (403 if lacks else 200), (user, answer.text)
            if user == "no-values":
                assert "hunter2" not in answer.text
                assert "no such host" not in answer.text
            assert (await visitor.head(url, headers=bearer(user))).status_code == answer.status_code
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            answer = await visitor.request(method, url, headers=bearer("all"))
            assert answer.status_code == 405, (method, answer.text)
        nobody = await visitor.get(url)
    assert nobody.status_code == 401
    assert "windlass" not in nobody.text.lower()
    assert await everything(world.store) == before


# -- nobody, and wrong passwords


async def test_without_auth_this_machine_may_look(app: Windlass, world: World) -> None:
    before = await everything(world.store)
    async with visiting(windlass_dashboard(app)) as visitor:
        assert (await visitor.get("/jobs")).status_code == 200
        token = await page_token(visitor)
        for case in WRITES:
            answer = await ask(visitor, case, world, headers={"x-windlass-token": token})
            assert answer.status_code == 403, (case.id, answer.text)
    assert await everything(world.store) == before


async def test_without_auth_nobody_else_comes_in(app: Windlass, world: World) -> None:
    before = await everything(world.store)
    async with visiting(windlass_dashboard(app), client=AWAY) as visitor:
        for url in ("/", "/api/me", "/health", "/ready", "/static/base.css", "/nowhere"):
            assert (await visitor.get(url)).status_code == 403, url
        for case in WRITES:
            assert (await ask(visitor, case, world)).status_code == 403
    assert await everything(world.store) == before
    assert await audited(world.store) == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ann", "wrong"),
        basic("nobody", "secret"),
        basic("", ""),
        {"authorization": "Basic !!!"},
        {"authorization": "Basic"},
        {"authorization": "Basic " + "A" * 5_000},
        {"authorization": "Bearer secret"},
        {"authorization": "Digest secret"},
        {"authorization": "\xff\xfe"},
    ],
)
async def test_wrong_passwords(app: Windlass, world: World, headers: dict[str, str], monkeypatch: Any) -> None:
    monkeypatch.setattr("windlass.web.auth.FAILURE_SECONDS", 0)
    before = await everything(world.store)
    async with visiting(windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"])}))) as visitor:
        for url in ("/", "/api/me", "/health", "/static/base.css"):
            answer = await visitor.get(url, headers=latin(headers))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic ")
        for case in WRITES:
            assert (await ask(visitor, case, world, headers=latin(headers))).status_code == 401
    assert await everything(world.store) == before
    assert {record["action"] for record in await audited(world.store)} <= {"sign_in"}


def latin(headers: dict[str, str]) -> dict[str, bytes]:
    return {name: value.encode("latin-1") for name, value in headers.items()}


# -- other sites


async def page_token(visitor: httpx2.AsyncClient, **headers: str) -> str:
    text = (await visitor.get("/", headers=headers)).text
    return text.partition('name="windlass-token" content="')[2].partition('"')[0]


PAUSE = "/api/queues/mail/pause"
ANN = basic("ann", "secret")


async def test_a_page_of_ours_may_act(app: Windlass, world: World) -> None:
    async with visiting(windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"])})), headers=ANN) as visitor:
        token = await page_token(visitor)
        for more in ({}, {"origin": "http://127.0.0.1"}, {"sec-fetch-site": "same-origin"}):
            answer = await visitor.post(PAUSE, headers={"x-windlass-token": token, **more})
            assert answer.status_code == 200, answer.text
        assert (await audited(world.store))[0]["via"] == "web"


@pytest.mark.parametrize(
    "change",
    [
        {"x-windlass-token": ""},
        {"x-windlass-token": "0" * 64},
        {"x-windlass-token": "é"},
        {"cookie": "windlass-token=other"},
        {"cookie": "windlass-token=" + "A" * 43},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://[evil"},
        {"origin": "http://127.0.0.1:81"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1"},
    ],
    ids=str,
)
async def test_other_sites_may_not(app: Windlass, world: World, change: dict[str, str]) -> None:
    before = await everything(world.store)
    async with visiting(windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"])})), headers=ANN) as visitor:
        token = await page_token(visitor)
        headers = {"x-windlass-token": token.encode(), **{name: value.encode() for name, value in change.items()}}
        for path in (PAUSE, "/api/jobs/actions", "/api/views/fresh"):
            method = "DELETE" if "views" in path else "POST"
            answer = await visitor.request(method, path, headers=headers)
            assert answer.status_code == 403, answer.text
    assert await everything(world.store) == before


async def test_a_page_left_open_does_not_act_for_the_next_user(app: Windlass, world: World) -> None:
    site = windlass_dashboard(app, auth=Basic({"ann": ("secret", ["*"]), "bob": ("secret", ["*"])}))
    async with visiting(site) as visitor:
        token = await page_token(visitor, **ANN)
        answer = await visitor.post(PAUSE, headers={**basic("bob", "secret"), "x-windlass-token": token})
        assert answer.status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_is_json_and_says_so(app: Windlass, world: World, kind: str) -> None:
    before = await everything(world.store)
    async with visiting(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        body = msgspec.json.encode({"limit": 3})
        answer = await visitor.post("/api/queues/mail/tune", content=body, headers={"content-type": kind})
        assert answer.status_code == 415, answer.text
    assert await everything(world.store) == before
