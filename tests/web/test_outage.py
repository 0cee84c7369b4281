"""The store goes away while somebody looks: pages say so, streams go on trying, and all of it comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tests.servers.fixtures import NewRedis
from tests.servers.redis import fresh_prefix
from tests.web.kit import bearer, dashboard, make_app, new_job, populate
from tests.web.serving import reading, serving
from tests.worker.helpers import eventually

HIDDEN = ("127.0.0.1:", "redis", "Connection")
"""Where the store is, and what went wrong inside, is nobody's business."""


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.web.jobfeed.Watch.__init__.__defaults__", (0.02,))


async def test_the_store_goes_away_and_comes_back(new_redis: NewRedis) -> None:
    server = await asyncio.to_thread(new_redis)
    app = make_app(f"{server.url}?timeout=1s&connect_timeout=1s", fresh_prefix())
    await populate(app)
    site = dashboard(app, {"all": ["*"]}, refresh=0.2)
    async with serving(site, headers=bearer("all")) as visitor, reading(visitor, "/live") as ticks:
        assert (await ticks.next()).event == "hello"
        async with reading(visitor, "/api/jobs/ready-1/events") as job:
            await job.until("state")
            await asyncio.to_thread(server.stop)
            await ticks.until("away")
            await all_say_so(visitor)
            await asyncio.to_thread(server.restart)
            await eventually(lambda: answers(visitor, "/ready", 200))
            await ticks.until("tick")
            for url in ("/", "/jobs", "/api/jobs", "/api/overview"):
                assert (await visitor.get(url)).status_code == 200, url
            store = (await app.client()).store
            if (await store.get(["ready-1"]))[0] is None:  # a server without a file forgets
                assert [told.event for told in await job.rest()] == ["gone"]
            await store.insert([new_job("new-1")])
        assert (await visitor.get("/api/jobs/new-1")).status_code == 200
    await app.close()


async def answers(visitor: httpx2.AsyncClient, url: str, status: int) -> bool:
    return (await visitor.get(url)).status_code == status


async def all_say_so(visitor: httpx2.AsyncClient) -> None:
    for url in ("/jobs", "/jobs/failed-1", "/audit", "/api/jobs", "/api/export", "/api/jobs/failed-1", "/ready"):
        answer = await visitor.get(url)
        assert answer.status_code == 503, url
        assert answer.headers["retry-after"] == "2"
        assert "the store cannot be reached now" in answer.text
        assert not any(word in answer.text for word in HIDDEN), url
    page: Any = await visitor.get("/jobs")
    assert page.headers["content-type"].startswith("text/html")
    assert "data-retry" in page.text
    health = await visitor.get("/health")
    assert (health.status_code, health.json()["store"]) == (503, False)
    action = await visitor.post("/api/queues/mail/pause")
    assert action.status_code == 503
    assert (await visitor.get("/api/me")).status_code == 200
    assert (await visitor.get("/static/app.js")).status_code == 200


async def test_a_dashboard_that_starts_before_its_store(new_redis: NewRedis) -> None:
    server = await asyncio.to_thread(new_redis)
    await asyncio.to_thread(server.stop)
    app = make_app(f"{server.url}?timeout=1s&connect_timeout=1s", fresh_prefix())
    async with serving(dashboard(app, {"all": ["*"]}), headers=bearer("all")) as visitor:
        assert (await visitor.get("/")).status_code == 503
        assert (await visitor.get("/health")).status_code == 503
        await asyncio.to_thread(server.restart)
        await eventually(lambda: answers(visitor, "/", 200))
    await app.close()
