"""Sync callers of an engine that takes jobs directly: at once when it is free, together with others when it is not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.servers.redis import fresh_prefix
from windlass import IdConflict, Windlass
from windlass.store.base import Direct


@pytest.fixture(params=["memory", "sqlite", "redis"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Windlass:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    if request.param == "redis":
        urls["redis"] = f"{request.getfixturevalue('redis7').url}?prefix={fresh_prefix()}"
    app = Windlass("shop", urls[request.param])

    @app.task(name="add")
    def add(x: int) -> int:
        return x

    return app


def test_the_portals_client_is_called_directly_once_it_is_open(app: Windlass) -> None:
    assert app.connections.for_threads() is None
    app.tasks["add"].delay(1)
    here = app.connections.for_threads()
    assert here is not None
    assert isinstance(here._store, Direct)
    app.tasks["add"].delay(2)
    assert app.sync.counts("default") == {"ready": 2}
    app.sync.close()
    assert app.connections.for_threads() is None


def test_many_threads_at_once_lose_nothing(app: Windlass) -> None:
    def call() -> None:
        for x in range(50):
            app.tasks["add"].delay(x)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert app.sync.counts("default") == {"ready": 400}
    app.sync.close()


def test_a_refusal_reaches_the_caller(app: Windlass) -> None:
    add = app.tasks["add"]
    add.options(id="one").delay(1)
    assert add.options(id="one").delay(1).id == "one"
    with pytest.raises(IdConflict, match="other arguments"):
        add.options(id="one").delay(2)
    app.sync.close()


def test_enqueue_middleware_keeps_calls_on_the_loop(app: Windlass) -> None:
    seen: list[str] = []

    @app.around_enqueue
    async def watch(drafts, call_next):  # type: ignore[no-untyped-def]
        seen.extend(draft.task for draft in drafts)
        return await call_next(drafts)

    app.tasks["add"].delay(1)
    app.tasks["add"].delay(2)
    assert seen == ["add", "add"]
    app.sync.close()
