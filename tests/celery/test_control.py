"""``app.control``: what is asked and told of workers, answered by the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.celery.kit import WAIT, soon, working
from windlass.celery import Celery
from windlass.celery.exceptions import ImproperlyConfigured


@pytest.fixture(params=["memory", "sqlite", "redis"])
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """An app with a worker, and a task that stays until it is let go."""
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    app = Celery(f"control-{id(request)}", broker=url or request.getfixturevalue("redis7").url)
    started, go = threading.Event(), threading.Event()

    @app.task(name="stay")
    def stay(who, key=None):  # type: ignore[no-untyped-def]
        started.set()
        go.wait(WAIT)
        return who

    with working(app):
        yield SimpleNamespace(app=app, stay=stay, started=started, go=go, inspect=app.control.inspect())
        go.set()


def only(answer: Any) -> Any:
    """What the one worker there is says."""
    assert len(answer) == 1
    [[name, said]] = answer.items()
    assert name.startswith("celery@")
    return said


def test_what_workers_do(running: SimpleNamespace) -> None:
    inspect = running.inspect
    assert only(inspect.ping()) == {"ok": "pong"}
    assert only(inspect.registered()) == ["celery.map", "celery.starmap", "celery.together", "stay"]
    assert [queue["name"] for queue in only(inspect.active_queues())] == ["celery"]
    assert only(inspect.active()) == only(inspect.reserved()) == only(inspect.scheduled()) == []
    result = running.stay.apply_async(("me",), {"key": b"x"}, priority=7)
    running.started.wait(WAIT)
    [active] = soon(lambda: only(inspect.active()))
    assert (active["id"], active["name"], active["worker_pid"] > 0) == (result.id, "stay", True)
    assert (active["args"], active["kwargs"]) == ([], {"who": "me", "key": b"x"})
    assert active["delivery_info"]["priority"] == 7
    assert only(inspect.query_task(result.id, "unknown")) == {result.id: ["active", active]}
    stats = only(inspect.stats())
    assert stats["pool"]["max-concurrency"] == 10
    assert only(inspect.conf())["worker_pool"] == "prefork" if running.app.conf.is_set("worker_pool") else True
    assert "queues ['celery']" in only(inspect.report())["ok"]
    running.go.set()
    assert result.get(timeout=WAIT) == "me"


def test_what_waits_and_what_was_revoked(running: SimpleNamespace) -> None:
    result = running.stay.apply_async(("later",), countdown=3600)
    [waiting] = only(running.inspect.scheduled())
    assert waiting["request"]["id"] == result.id
    assert "T" in waiting["eta"]
    running.app.control.revoke(result.id)
    assert only(running.inspect.revoked()) == [result.id]
    assert only(running.inspect.scheduled()) == []


def test_who_is_asked(running: SimpleNamespace) -> None:
    [name] = running.inspect.ping()
    [pong] = running.app.control.ping(timeout=0.5)
    assert pong == {name: {"ok": "pong"}}
    host = name.removeprefix("celery@").rsplit("-", 2)[0]
    for destination in (name, [name], f"celery@{host}", [f"celery@{host}", "celery@elsewhere"]):
        assert list(running.app.control.inspect(destination=destination, timeout=1).ping()) == [name]
    assert running.app.control.inspect(["celery@elsewhere"]).active() is None
    assert running.app.control.ping(destination=["celery@elsewhere"]) == []


def test_queues_come_and_go(running: SimpleNamespace) -> None:
    running.go.set()
    result = running.stay.apply_async(("there",), queue="other")
    [answer] = running.app.control.add_consumer("other", reply=True, exchange="other")
    assert list(answer.values()) == [{"ok": "serves other"}]
    assert result.get(timeout=WAIT) == "there"
    soon(lambda: [queue["name"] for queue in only(running.inspect.active_queues())] == ["celery", "other"])
    running.app.control.cancel_consumer("other")
    soon(lambda: [queue["name"] for queue in only(running.inspect.active_queues())] == ["celery"])


def test_broadcast_is_the_same_by_name(running: SimpleNamespace) -> None:
    control = running.app.control
    [pong] = control.broadcast("ping", reply=True)
    assert list(pong.values()) == [{"ok": "pong"}]
    assert control.broadcast("enable_events") is None
    result = running.stay.apply_async(("later",), countdown=3600)
    control.broadcast("revoke", {"task_id": result.id})
    assert result.state == "REVOKED"
    with pytest.raises(ImproperlyConfigured, match="did you mean 'revoke'"):
        control.broadcast("revok")
    with pytest.raises(ImproperlyConfigured, match="--autoscale"):
        control.broadcast("pool_grow", {"n": 2})


def test_waiting_tasks_are_purged(running: SimpleNamespace) -> None:
    for number in range(3):
        running.stay.apply_async((number,), countdown=3600)
    assert running.app.control.purge() == 3
    assert running.app.control.discard_all() == 0


def test_a_worker_is_shut_down(running: SimpleNamespace) -> None:
    running.app.control.shutdown(destination=["celery@elsewhere"])
    assert running.inspect.ping()
    running.app.control.shutdown()
    soon(lambda: running.inspect.ping() is None)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("autoscale", "--autoscale"),
        ("pool_shrink", "when a worker starts"),
        ("pool_restart", "SIGHUP"),
        ("time_limit", r"apply_async\(time_limit=...\)"),
        ("election", "elect nobody"),
        ("rate_limits", "did you mean 'rate_limit'"),
    ],
)
def test_what_has_no_counterpart_says_so(app: Celery, name: str, why: str) -> None:
    with pytest.raises(AttributeError, match=why):
        getattr(app.control, name)
    with pytest.raises(AttributeError, match="did you mean 'active'"):
        _ = app.control.inspect().activ
