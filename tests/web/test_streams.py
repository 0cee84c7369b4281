"""Event streams behind a real server: what they tell, where they go on, and that nothing of them stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from tests.web.kit import World, bearer, dashboard, new_job, visiting
from tests.web.serving import Reader, reading, serving
from tests.worker.helpers import eventually
from windlass import ConfigError, Windlass
from windlass.core.job import ErrorInfo, Progress
from windlass.core.lifecycle import Failed, Succeeded
from windlass.web import job_events, make_access
from windlass.web.streams import Gauge


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the store in quick succession: nobody waits for a second to pass."""
    monkeypatch.setattr("windlass.web.jobfeed.Watch.__init__.__defaults__", (0.02,))


@pytest.fixture
def site(app: Windlass) -> Any:
    users = {
        "all": ["*"], "bare": ["read"], "billing": make_access("billing", ["*"], ["bill"]),
        "blind": make_access("blind", ["*"], redact=["password"]),
    }  # fmt: skip
    return dashboard(app, users, refresh=0.2)


@pytest.fixture
async def visitor(site: Any, world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(site, headers=bearer("all")) as visitor:
        yield visitor


def gauge(site: Any) -> Gauge:
    found: Gauge = site.state.site.feeds.gauge
    return found


# -- ticks


async def test_a_page_is_told_that_something_happened(visitor: httpx2.AsyncClient, world: World) -> None:
    async with reading(visitor, "/live") as reader:
        hello = await reader.next()
        assert (hello.event, hello.id) == ("hello", str(hello.data))
        await world.store.insert([new_job("new-1")])
        tick = await reader.next()
        assert tick.event == "tick"
        assert tick.data > hello.data
    async with reading(visitor, "/live", **{"last-event-id": hello.id}) as reader:
        assert (await reader.next()).event == "tick"  # something happened meanwhile
    async with reading(visitor, "/live", **{"last-event-id": tick.id}) as reader:
        assert (await reader.next()).event == "hello"


async def test_streams_are_let_go_when_their_readers_leave(site: Any, visitor: httpx2.AsyncClient) -> None:
    urls = ("/live", "/api/events", "/api/jobs/running-1/events")
    for url in urls:
        async with reading(visitor, url) as reader:
            if url == "/live":
                await reader.next()
            await eventually(lambda: gauge(site).open == 1)
        await eventually(lambda: gauge(site).open == 0)
    feeds = site.state.site.feeds
    await eventually(lambda: feeds.pulses.here().poll._task is None)
    await eventually(lambda: feeds.watches.here().poll._task is None)
    assert not feeds.watches.here()._wanted


async def test_there_is_a_most_of_streams(site: Any, visitor: httpx2.AsyncClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(gauge(site), "_most", 1)
    async with reading(visitor, "/live") as reader:
        await reader.next()
        answer = await visitor.get("/api/events")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
    await eventually(lambda: gauge(site).open == 0)


async def test_a_stream_ends_after_a_while_by_itself(visitor: httpx2.AsyncClient, monkeypatch: Any) -> None:
    """Its reader comes back and is asked anew who it is."""
    monkeypatch.setattr("windlass.web.streams.EventStream.__init__.__defaults__", (0.2,))
    async with reading(visitor, "/live") as reader:
        assert (await reader.rest())[0].event == "hello"


async def test_a_stream_is_never_silent_for_long(visitor: httpx2.AsyncClient, monkeypatch: Any) -> None:
    monkeypatch.setattr("windlass.web.poll.Poll.turn.__defaults__", (0.05,))
    async with visitor.stream("GET", "/api/events") as answer:
        async for line in answer.aiter_lines():
            if line.startswith(":"):
                break


# -- the events of the store


async def test_events_are_told_as_they_happen_and_resumed(visitor: httpx2.AsyncClient, world: World) -> None:
    (newest,) = await world.store.events(-1)
    async with reading(visitor, f"/api/events?since={newest.seq}") as reader:
        await world.store.insert([new_job("a")])
        first = await reader.next()
        assert (first.event, first.data["job"], first.data["queue"]) == ("enqueued", "a", "mail")
    await world.store.insert([new_job("b"), new_job("c")])
    async with reading(visitor, "/api/events", **{"last-event-id": first.id}) as reader:
        assert [(await reader.next()).data["job"] for _ in range(2)] == ["b", "c"]
    async with reading(visitor, f"/api/events?since={first.id}&kind=enqueued&task=mail.send") as reader:
        b = await reader.next()
        assert b.data["job"] == "b"
    async with reading(visitor, "/api/events", **{"last-event-id": b.id}) as reader:
        assert (await reader.next()).data["job"] == "c"  # in the middle of one write


async def test_from_the_oldest_on(visitor: httpx2.AsyncClient) -> None:
    async with reading(visitor, "/api/events?since=0&queue=mail&kind=failed,succeeded") as reader:
        told = [await reader.next() for _ in range(2)]
    assert {(each.event, each.data["job"]) for each in told} == {("failed", "failed-1"), ("succeeded", "done-1")}


@pytest.mark.parametrize("last", ["x", "9" * 40, "-1", "1-", "²", "over", "1.2.3", "<script>"])
async def test_an_id_that_is_not_ours_begins_anew(visitor: httpx2.AsyncClient, last: str) -> None:
    headers = {"last-event-id": last.encode()}
    for url in ("/live", "/api/events?since=0", "/api/jobs/running-1/events"):
        async with visitor.stream("GET", url, headers=headers) as answer:
            if last == "over" and "running" in url:
                assert answer.status_code == 204
                continue
            assert answer.status_code == 200
            assert (await Reader(answer).next()).event in ("hello", "tick", "enqueued", "log", "state", "worker_up")


async def test_events_of_other_queues_are_not_told(site: Any, world: World) -> None:
    async with serving(site, headers=bearer("billing")) as visitor, reading(visitor, "/api/events?since=0") as reader:
        await world.store.insert([new_job("last", "bill.charge", "bill")])
        told = await reader.next()
        while told.data["job"] != "last":
            assert told.data["queue"] == "bill"
            told = await reader.next()


async def test_events_without_what_is_not_for_these_eyes(site: Any, world: World) -> None:
    for user, seen in (("bare", None), ("blind", "[redacted]")):
        url = "/api/events?since=0&kind=progress"
        async with serving(site, headers=bearer(user)) as visitor, reading(visitor, url) as reader:
            data = (await reader.next()).data.get("data")
            assert (data if seen is None else data["data"]["password"]) == seen


# -- one job


async def finish(world: World, id: str, outcome: Any) -> None:
    await world.worker.settle(world.worker.held[id], outcome)


async def test_one_job_from_its_start_to_its_end(visitor: httpx2.AsyncClient, world: World) -> None:
    url = "/api/jobs/running-1/events"
    claim = world.worker.held["running-1"]
    async with reading(visitor, url) as reader:
        log, state = await reader.next(), await reader.next()
        assert (log.event, log.data["text"]) == ("log", "a logged line")
        assert (state.event, state.data["state"], state.data["progress"]) == ("state", "running", 40.0)
        await world.worker.note(claim, "another", progress=msgspec.json.encode(Progress(80.0, "nearly")))
        log, state = await reader.next(), await reader.next()
        assert (log.data["text"], state.data["message"]) == ("another", "nearly")
    async with reading(visitor, url, **{"last-event-id": log.id}) as reader:
        assert await reader.next() == state  # the line is known, the state is not
        await finish(world, "running-1", Succeeded(b"1"))
        *_, end = await reader.rest()
        assert (end.event, end.id, end.data["state"]) == ("end", "over", "succeeded")
    answer = await visitor.get(url, headers={"last-event-id": end.id})
    assert answer.status_code == 204


async def test_a_job_that_goes_away(visitor: httpx2.AsyncClient, world: World) -> None:
    async with reading(visitor, "/api/jobs/ready-1/events") as reader:
        assert (await reader.next()).data["state"] == "ready"
        body = {"action": "delete", "ids": ["ready-1"]}
        assert (await visitor.post("/api/jobs/actions", json=body)).status_code == 200
        assert [told.event for told in await reader.rest()] == ["gone"]


async def test_a_job_that_leaves_the_scope(site: Any, world: World) -> None:
    url = "/api/jobs/bill-1/events"
    async with serving(site, headers=bearer("billing")) as visitor, reading(visitor, url) as reader:
        assert (await reader.next()).data["state"] == "ready"
        body = {"action": "move", "ids": ["bill-1"], "params": {"queue": "mail"}}
        answer = await visitor.post("/api/jobs/actions", json=body, headers=bearer("all"))
        assert answer.json()["changed"] == ["bill-1"]
        await world.store.insert([new_job("news")])  # a move is no event: it is seen with the next one
        assert [told.event for told in await reader.rest()] == ["gone"]


async def test_a_job_for_eyes_that_see_less(site: Any, world: World) -> None:
    for user in ("bare", "blind"):
        url = "/api/jobs/running-1/events"
        async with serving(site, headers=bearer(user)) as visitor, reading(visitor, url) as reader:
            told = (await reader.until("state"))[-1]
            assert told.data["progress"] == 40.0
            assert "hunter2" not in str(told.data)
            assert ("message" in told.data) == (user == "blind")


# -- job_events: for the users of an application


async def test_job_events_ask_the_application_about_each_job(app: Windlass, world: World) -> None:
    asked: list[tuple[str, str]] = []

    async def may(request: Request, id: str) -> bool:
        asked.append((request.headers.get("x-user", ""), id))
        return request.headers.get("x-user") == "ann" and id == "failed-1"

    outer = Starlette(routes=[Mount("/progress", job_events(app, may, show=["progress", "error", "logs"]))])
    async with serving(outer) as visitor:
        for id, user in (("failed-1", "bob"), ("done-1", "ann"), ("nothing", "ann"), ("failed-1", "")):
            answer = await visitor.get(f"/progress/{id}", headers={"x-user": user})
            assert answer.status_code == 404
            assert asked.pop() == (user, id)
        async with reading(visitor, "/progress/failed-1", **{"x-user": "ann"}) as reader:
            state, end = await reader.rest()
        assert state.data["error"] == "builtins.ValueError: no such host"
        assert end.event == "end"
        again = await visitor.get("/progress/failed-1", headers={"x-user": "ann", "last-event-id": end.id})
        assert again.status_code == 204
        assert (await visitor.get("/progress/failed-1", headers={"last-event-id": "over"})).status_code == 404
        assert (await visitor.post("/progress/failed-1", headers={"x-user": "ann"})).status_code == 405


@pytest.mark.parametrize("verdict", [False, None, 1, "yes", [True]], ids=repr)
async def test_only_true_lets_in(app: Windlass, world: World, verdict: Any) -> None:
    async with visiting(job_events(app, lambda request, id: verdict)) as visitor:
        assert (await visitor.get("/failed-1")).status_code == 404


async def test_an_authorize_that_fails_lets_nobody_in(app: Windlass, world: World) -> None:
    def broken(request: Request, id: str) -> bool:
        raise RuntimeError(f"no database for {id}")

    async with visiting(job_events(app, broken)) as visitor:
        answer = await visitor.get("/failed-1")
        assert answer.status_code == 500
        assert "database" not in answer.text


async def test_job_events_show_only_what_they_are_told_to(app: Windlass, world: World) -> None:
    error = ErrorInfo("E", "secret words")
    await finish(world, "running-1", Failed(error))
    for show, seen in ((("progress",), False), (("error",), True), ((), False)):
        async with visiting(job_events(app, lambda request, id: True, show=show, streams=False)) as visitor:
            text = (await visitor.get("/running-1")).text
            assert ("secret words" in text) == seen
            assert ("half way" in text) == ("progress" in show)
            assert "a logged line" not in text


def test_job_events_say_what_is_wrong(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="did you mean 'result'"):
        job_events(app, lambda request, id: True, show=["reslt"])
    with pytest.raises(ConfigError, match="authorize"):
        job_events(app, None)  # type: ignore[arg-type]
