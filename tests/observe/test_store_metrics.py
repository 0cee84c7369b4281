"""The store's numbers for Prometheus, on each engine: exact, bounded, escaped, and there when the store is not."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.observe import shop as tasks
from tests.observe.metric_kit import Numbers, promtool, scrape
from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import eventually, within
from windlass import Windlass, __version__, every
from windlass.console.recent_reads import shared_of
from windlass.core.access import make_access
from windlass.core.chart import OTHER
from windlass.errors import JobFailed
from windlass.observe import metrics
from windlass.observe.families import CONTENT_TYPE
from windlass.observe.metrics import store_metrics, worker_metrics
from windlass.observe.names import STORE
from windlass.store.reads import QueueInfo, Total
from windlass.testing.failing import FailingStore, Faults
from windlass.web import Token, windlass_dashboard
from windlass.worker.service import Worker


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis7")
        url = f"{server.url}?prefix={fresh_prefix()}"
    else:
        url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db?durability=normal"
    async with tasks.caller(url) as app:
        yield app


async def told(app: Windlass) -> Numbers:
    """What is told now, and not what was read a moment ago."""
    shared_of(app).forget()
    return scrape(await store_metrics(app))


async def test_counters_are_what_happened(app: Windlass) -> None:
    async with app.worker(concurrency=10):
        for handle in [await app.tasks["on_loop"].enqueue() for _ in range(7)]:
            await within(handle)
        for _ in range(2):
            with pytest.raises(JobFailed):
                await within(await app.tasks["failing"].enqueue())
    kept = await app.tasks["one"].options(delay=60).enqueue(n=1)
    again = [await app.tasks["one"].enqueue(n=1) for _ in range(3)]
    assert {handle.id for handle in again} == {kept.id}
    numbers = await told(app)
    assert numbers["windlass_jobs_accepted_total", "default", "on_loop"] == 7
    assert numbers["windlass_jobs_started_total", "default", "on_loop"] == 7
    assert numbers["windlass_jobs_settled_total", "succeeded", "default", "on_loop"] == 7
    assert numbers["windlass_jobs_started_total", "bad", "failing"] == 6
    assert numbers["windlass_jobs_retried_total", "bad", "failing"] == 4
    assert numbers["windlass_job_failures_total", "bad", "failing"] == 6
    assert numbers["windlass_dead_letters_total", "bad", "failing"] == 2
    assert numbers["windlass_jobs_settled_total", "failed", "bad", "failing"] == 2
    assert numbers["windlass_jobs_accepted_total", "once", "one"] == 1
    assert numbers["windlass_jobs_deduplicated_total", "once", "one"] == 3
    assert numbers["windlass_queue_jobs", "once", "scheduled"] == 1
    assert numbers["windlass_queue_jobs", "bad", "failed"] == 2
    # Declared tasks are there before anything happens to them.
    assert numbers["windlass_dead_letters_total", "default", "in_thread"] == 0


async def test_gauges_are_how_things_are(app: Windlass) -> None:
    await app.queue("bad").pause()
    await app.tasks["failing"].enqueue()
    app.schedule(every("day at 03:00"), name="nightly")(app.tasks["on_loop"])
    await app.breaker("bank").open()
    worker: Worker
    async with app.worker(concurrency=4, queues=["default", "bad"]) as worker:
        running = await app.tasks["on_loop"].enqueue(pause=30)
        await eventually(lambda: worker.executor.active == 1)
        numbers = await eventually(lambda: _running(app))
        assert numbers["windlass_queue_jobs", "default", "running"] == 1
        assert numbers["windlass_queue_workers", "default"] == 1
        assert numbers["windlass_queue_slots", "bad"] == 4
        assert numbers["windlass_slots",] == 4
        assert numbers["windlass_slots_used",] == 1
        assert numbers["windlass_workers", "alive"] == 1
        assert numbers["windlass_queue_jobs", "bad", "ready"] == 1
        assert numbers["windlass_queue_oldest_ready_seconds", "bad"] >= 0
        assert numbers["windlass_queue_paused", "bad"] == 1
        assert numbers["windlass_queue_paused", "default"] == 0
        assert numbers["windlass_breaker_state", "bank", "open"] == 1
        assert numbers["windlass_breaker_state", "bank", "closed"] == 0
        assert numbers["windlass_schedule_fired_total", "nightly"] == 0
        assert numbers["windlass_schedule_next_slot_timestamp_seconds", "nightly"] > time.time()
        assert numbers["windlass_gate_limit", "task", "one"] == 1
        assert numbers["windlass_store_up",] == 1
        await running.cancel()
    assert numbers["windlass_build_info", app.url.partition(":")[0], __version__] == 1


async def _running(app: Windlass) -> Numbers | None:
    numbers = await told(app)
    return numbers if numbers["windlass_slots_used",] == 1 else None


async def test_lanes_that_wait_at_a_limit_are_told(app: Windlass) -> None:
    await app.task_gate("one").tune(limit=1, rate="1/h")
    for n in range(3):
        await app.tasks["one"].enqueue(n=n)
    async with app.worker(queues=["once"]):
        numbers = await eventually(lambda: _waiting(app))
    assert numbers["windlass_gate_opens_seconds", "task", "one"] > 0
    assert numbers["windlass_queue_lanes", "once"] >= 1


async def _waiting(app: Windlass) -> Numbers | None:
    numbers = await told(app)
    return numbers if numbers.get(("windlass_gate_waiting_lanes", "task", "one")) else None


async def test_every_metric_has_its_labels_and_its_kind(app: Windlass) -> None:
    await app.tasks["one"].enqueue()
    text = (await store_metrics(app)).decode()
    kinds = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE "))
    assert kinds == {name: spec.kind for name, spec in STORE.items()}
    assert all(name.endswith("_total") == (spec.kind == "counter") for name, spec in STORE.items())


async def test_they_are_as_prometheus_wants_them(app: Windlass) -> None:
    async with app.worker() as worker:
        await within(await app.tasks["on_loop"].enqueue())
        for text in (await store_metrics(app), worker_metrics(worker, registry=None)):
            argv = [promtool(), "check", "metrics"]
            answer = await asyncio.to_thread(subprocess.run, argv, input=text, capture_output=True, check=False)
            assert (answer.returncode, answer.stdout + answer.stderr) == (0, b"")


async def test_the_dashboard_tells_them_to_those_who_may_read_everything() -> None:
    reading, some = make_access("a", ["read"], []), make_access("b", ["read"], ["emails"])
    tokens = {
        "one that may read": ("a", reading),
        "one that sees some queues": ("b", some),
        "one without that right": ("c", make_access("c", ["retry"], [])),
    }
    async with tasks.caller("memory://") as app:
        web = windlass_dashboard(app, auth=[Token(tokens)])
        transport = httpx2.ASGITransport(web)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", trust_env=False) as client:
            codes = {}
            for token in (
                "one that may read",
                "one that sees some queues",
                "one without that right",
                "one that nobody knows",
            ):
                answer = await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
                codes[token] = answer.status_code
                if token == "one that may read":
                    assert answer.headers["content-type"] == CONTENT_TYPE
                    assert scrape(answer.text)["windlass_store_up",] == 1
    assert codes == {
        "one that may read": 200,
        "one that sees some queues": 403,
        "one without that right": 403,
        "one that nobody knows": 401,
    }


async def test_a_store_that_is_away_is_a_number() -> None:
    faults = Faults()
    app = Windlass("away", "memory://")
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    async with app:
        await app.client()
        faults.fail("totals", times=1)
        assert scrape(await store_metrics(app)) == {
            ("windlass_store_up",): 0, ("windlass_build_info", "", __version__): 1
        }  # fmt: skip
        assert scrape(await store_metrics(app))["windlass_store_up",] == 1


async def test_a_store_that_hangs_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "PATIENCE", 0.01)
    faults = Faults()
    app = Windlass("hangs", "memory://")
    plain = app.connections.new_store
    app.connections.new_store = lambda: FailingStore(plain(), faults)  # type: ignore[method-assign]
    async with app:
        await app.client()
        faults.delay("totals", 30, times=1)
        assert scrape(await store_metrics(app))["windlass_store_up",] == 0


def test_what_is_too_much_is_told_together_and_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "PAIRS", 3)
    app = Windlass("many", "memory://")
    totals = [Total("enqueued", "q", f"t{n}", n + 1) for n in range(5)]
    counted, folded = metrics._fold(app, totals)
    assert folded == 2
    assert counted == {("q", "t4"): {"enqueued": 5}, ("q", "t3"): {"enqueued": 4}, ("q", "t2"): {"enqueued": 3},
                       (OTHER, OTHER): {"enqueued": 3}}  # fmt: skip
    # One of the others has more than all by now, and stays with them.
    later, _ = metrics._fold(app, [Total("enqueued", "q", "t0", 100), *totals[1:]])
    assert later[OTHER, OTHER] == {"enqueued": 102}
    assert later["q", "t2"] == {"enqueued": 3}


def test_queues_beyond_the_cap_are_told_together() -> None:
    one, two = (
        QueueInfo(name="a", counts={"ready": 2}, oldest_ready=5, lanes=1),
        QueueInfo(name="b", counts={"ready": 1}),
    )
    whole = metrics._together([one, two])
    assert (whole.name, whole.counts, whole.oldest_ready, whole.lanes) == (OTHER, {"ready": 3}, 5, 1)
