"""Guessing passwords and tokens: soon slow, wherever and however often the dashboard runs, and no way to keep users out
for long or to fill the store.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
import pytest

from tests.web.kit import AWAY, LOCAL, audited, basic, bearer, everything, make_app, tokens, visiting
from windlass import Windlass
from windlass.console.audit import LOGIN_PLACES
from windlass.web import Basic, guessing, windlass_dashboard
from windlass.web.guessing import ADDRESSES, BY_ADDRESS, BY_NAME, NAMES, SHELF, network_of

USERS = {"ann": ("secret", ["*"]), "bob": ("secret2", ["read", "audit"])}


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("windlass.web.auth.FAILURE_SECONDS", 0)
    monkeypatch.setattr(guessing, "now_ms", clock)
    monkeypatch.setattr(guessing, "FRESH", 0)
    return clock


def site_of(app: Windlass) -> Any:
    return windlass_dashboard(app, auth=[Basic(USERS), tokens({"ci": ["*"]})])


async def try_at(visitor: httpx2.AsyncClient, user: str, number: object) -> httpx2.Response:
    return await visitor.get("/api/me", headers=basic(user, f"wrong {number}"))


async def exhaust(visitor: httpx2.AsyncClient, user: str = "ann") -> None:
    for n in range(BY_ADDRESS.free):
        assert (await try_at(visitor, user, n)).status_code == 401


async def test_guesses_get_slower_and_slower(any_app: Windlass, clock: Clock) -> None:
    async with visiting(site_of(any_app), client=AWAY) as visitor:
        await exhaust(visitor)
        for n, wait in enumerate([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]):
            refused = await try_at(visitor, "ann", f"no look {n}")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, str(wait))
            assert refused.headers["content-type"] == "application/problem+json"
            assert "www-authenticate" not in refused.headers
            assert (await visitor.get("/", headers=basic("ann", "secret"))).status_code == 429, "the right one as well"
            clock.ms += wait * 1_000
            assert (await try_at(visitor, "ann", f"look {n}")).status_code == 401
        clock.ms += 900_000
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200


async def test_another_process_and_one_that_was_restarted_know(any_app: Windlass) -> None:
    async with visiting(site_of(any_app), client=AWAY) as one, visiting(site_of(any_app), client=AWAY) as other:
        for n in range(BY_ADDRESS.free):
            assert (await try_at((one, other)[n % 2], "ann", n)).status_code == 401
        for visitor in (one, other):
            assert (await try_at(visitor, "ann", "more")).status_code == 429
    async with visiting(site_of(any_app), client=AWAY) as later:
        assert (await try_at(later, "ann", "more")).status_code == 429


async def test_many_at_once_are_no_way_around(any_app: Windlass) -> None:
    async with visiting(site_of(any_app), client=AWAY) as visitor:
        answers = await asyncio.gather(*(try_at(visitor, "ann", n) for n in range(60)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(401), statuses.count(429)) == (BY_ADDRESS.free, 60 - BY_ADDRESS.free)


async def test_tokens_too_and_apart_from_passwords(any_app: Windlass) -> None:
    async with visiting(site_of(any_app), client=AWAY) as visitor:
        for n in range(BY_ADDRESS.free):
            wrong = {"authorization": f"Bearer {n} {'x' * 20}"}
            assert (await visitor.get("/api/me", headers=wrong)).status_code == 401
        assert (await visitor.get("/api/me", headers={"authorization": "Bearer more"})).status_code == 429
        assert (await visitor.get("/api/me", headers=bearer("ci"))).status_code == 429
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200


async def test_a_script_with_an_old_password_keeps_nobody_out(app: Windlass) -> None:
    async with visiting(site_of(app), client=AWAY) as visitor:
        for _ in range(4 * BY_ADDRESS.free):
            assert (await try_at(visitor, "ann", "the old one")).status_code == 401
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200


async def test_an_unknown_name_is_treated_as_a_known_one(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers after as many tries, and the same work for the store."""
    told: dict[str, Any] = {}
    store = (await app.client()).store
    for address, user in (("203.0.113.1", "ann"), ("203.0.113.2", "nobody")):
        calls: list[str] = []
        for name in ("items", "commit"):
            real = getattr(type(store), name)

            async def counted(*args: Any, name: str = name, real: Any = real, to: list[str] = calls) -> Any:
                to.append(name)
                return await real(store, *args)

            monkeypatch.setattr(store, name, counted)
        async with visiting(site_of(app), client=(address, 1)) as visitor:
            answers = [await try_at(visitor, user, n) for n in range(BY_ADDRESS.free + 2)]
            told[user] = [(answer.status_code, answer.headers.items(), answer.text) for answer in answers], calls
    assert told["ann"] == told["nobody"]


async def test_guessing_at_a_name_from_everywhere_is_slow_and_keeps_its_user_not_out(
    app: Windlass, clock: Clock
) -> None:
    site = site_of(app)
    looked_at = 0
    for n in range(400):
        async with visiting(site, client=(f"198.51.{n % 100}.1", 1)) as visitor:
            looked_at += (await try_at(visitor, "ann", n)).status_code == 401
    assert looked_at <= 100 + BY_NAME.free, "the first of each address, and what the name allows"
    assert looked_at > 90, "few of these addresses share a place"
    async with visiting(site, client=("203.0.113.77", 1)) as visitor:
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200
        assert (await try_at(visitor, "ann", "a slip")).status_code == 401
        refused = await visitor.get("/api/me", headers=basic("ann", "secret"))
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) <= BY_NAME.most // 1_000
        clock.ms += BY_NAME.most
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200
        assert (await visitor.get("/api/me", headers=basic("bob", "secret2"))).status_code == 200


async def test_who_guesses_keeps_nobody_out_elsewhere(app: Windlass) -> None:
    site = site_of(app)
    async with visiting(site, client=AWAY) as visitor:
        await exhaust(visitor)
        assert (await try_at(visitor, "ann", "more")).status_code == 429
    async with visiting(site, client=LOCAL) as visitor:
        assert (await visitor.get("/api/me", headers=basic("ann", "secret"))).status_code == 200


async def test_neither_names_nor_addresses_fill_the_store(app: Windlass) -> None:
    site = site_of(app)
    places, store = set[str](), (await app.client()).store
    commit = store.commit

    async def noted(commits: Any) -> Any:
        places.update(put.key for step in commits for put in step.items if put.shelf == SHELF)
        return await commit(commits)

    store.commit = noted  # type: ignore[method-assign]
    for n in range(300):
        async with visiting(site, client=(f"2001:db8:{n:x}::1", 1)) as visitor:
            await try_at(visitor, f"user {n} {'x' * 500}", n)
    assert all(int(place.rpartition(":")[2]) < max(ADDRESSES, NAMES) and len(place) < 40 for place in places)
    records = await audited(store)
    assert 0 < len(records) <= 2 * LOGIN_PLACES  # of one window, or of two
    assert len(msgspec.json.encode(records)) < 400 * len(records)


async def test_failures_are_in_the_audit_log(any_app: Windlass) -> None:
    site = site_of(any_app)
    before = await everything((await any_app.client()).store)
    async with visiting(site, client=AWAY) as visitor:
        await try_at(visitor, "ann", 1)
        await visitor.get("/api/me", headers=basic("my-password-by-mistake", "ann"))
        await visitor.get("/api/me", headers={"authorization": "Bearer wrong"})
        seen = (await visitor.get("/api/audit", headers=basic("bob", "secret2"))).json()["rows"]
    assert {(row["user"], row["via"]) for row in seen} >= {("ann", "web")}
    for row in seen:
        assert (row["action"], row["target"]) == ("sign_in", AWAY[0])
        assert row["outcome"] == "refused: wrong name, password or token"
        assert row["user"] in ("ann", "")
    assert await everything((await any_app.client()).store) == before


async def test_while_the_store_is_away_each_process_counts_for_itself(app: Windlass) -> None:
    away = make_app("redis://127.0.0.1:1?timeout=0.2s&connect_timeout=0.2s")
    async with visiting(site_of(away), client=AWAY) as visitor:
        await exhaust(visitor)
        assert (await try_at(visitor, "ann", "more")).status_code == 429
    await away.close()


async def test_another_way_that_lets_the_same_request_in_counts_nothing(app: Windlass) -> None:
    def own(request: Any) -> Any:
        from windlass.web import make_access

        return make_access("guest", ["read"])

    site = windlass_dashboard(app, auth=[Basic(USERS), own])
    async with visiting(site, client=AWAY) as visitor:
        for n in range(3 * BY_ADDRESS.free):
            assert (await try_at(visitor, "ann", n)).json()["user"] == "guest"


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2345::1", "2001:db8:1:2300::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_addresses_are_counted_by_who_has_them(host: str, network: str) -> None:
    assert network_of(host) == network
