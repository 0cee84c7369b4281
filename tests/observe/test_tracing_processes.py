"""Traces over the edges of processes: an HTTP request, a worker, its children, and their log lines."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from tests.observe import traced
from tests.observe.collected import Book
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import ROOT, SHORT, Fleet, soon, within
from windlass import Windlass
from windlass.calls.context import JobIdFilter
from windlass.observe.tracing import trace
from windlass.support.logs import JsonFormatter, TextFormatter


@pytest.fixture(params=["sqlite", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes of ``tests.observe.traced:app``."""
    sqlite = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    url = sqlite if request.param == "sqlite" else f"{request.getfixturevalue('redis7').url}?prefix={fresh_prefix()}"
    fleet = Fleet("tests.observe.traced:app", tmp_path, {"TRACED_URL": url, "TRACED_SPANS": str(tmp_path / "spans")})
    yield fleet
    fleet.end()


def shop(app: Windlass, book: Book) -> FastAPI:
    """A server that traces its requests, as an instrumentation of FastAPI would."""
    api = FastAPI()

    @api.middleware("http")
    async def traced_request(request: Request, call_next: Any) -> Any:
        with book.tracer.start_as_current_span("request"):
            return await call_next(request)

    @api.post("/orders/{number}")
    async def take(number: int) -> str:
        return (await app.queue("default").add("tests.observe.traced.order", {"number": number})).id

    return api


def test_from_a_request_to_a_worker_its_thread_and_its_child(fleet: Fleet, book: Book) -> None:
    app = Windlass("traced", fleet.env["TRACED_URL"], **SHORT)
    trace(app, tracer_provider=book.provider)
    worker = fleet.start(children=1)
    with TestClient(shop(app, book)) as client:
        assert client.post("/orders/1").status_code == 200
        soon(book.has(1, "process", task="label"), 60)
        client.portal.call(app.close) if client.portal else None
    worker.term()
    assert worker.wait() == 0, worker.logged()
    path = [
        book.one("request"), book.one("send", task="order"), book.one("process", task="order"), book.one("look up"),
        book.one("send", task="pack"), book.one("process", task="pack"), book.one("wrap"),
        book.one("send", task="draw"), book.one("process", task="draw"), book.one("draw"),
        book.one("send", task="label"), book.one("process", task="label"),
    ]  # fmt: skip
    assert [span.parent for span in path] == ["", *(span.id for span in path[:-1])]
    assert len({span.trace for span in path}) == 1
    assert [path[0].pid, path[2].pid] == [os.getpid(), worker.pid]
    assert path[9].pid not in (os.getpid(), worker.pid), "the child's own span"
    assert path[9].pid == path[10].pid, "and what it enqueued"
    settled = sum(span.said.get("messaging.batch.message_count", 1) for span in book.find("settle"))
    assert settled == 4


async def test_children_are_told_the_trace_in_coroutines_and_functions(
    solo: Windlass, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACED_SPANS", str(book.path))
    trace(solo, tracer_provider=book.provider)
    for task in (traced.draw, traced.draw_async, traced.in_part):
        solo.declared.add_task(task.fn, {"name": task.name, "runs_in": task.runs_in})
    async with solo.worker(children=1):
        for name in ("draw", "draw_async", "in_part"):
            handle = await solo.tasks[f"tests.observe.traced.{name}"].enqueue(1)
            assert await within(handle, 60) == 1
    for inside, name in (("draw", "draw"), ("draw async", "draw_async"), ("shade", "in_part")):
        process = book.one("process", task=f".{name}")
        assert (book.one(inside).parent, book.one(inside).trace) == (process.id, process.trace)


async def test_a_child_of_an_unsampled_job_records_nothing(
    solo: Windlass, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACED_SPANS", str(book.path))
    trace(solo, tracer_provider=book.provider, sample=0)
    solo.declared.add_task(traced.draw.fn, {"name": traced.draw.name, "runs_in": "process"})
    async with solo.worker(children=1):
        await within(await solo.tasks[traced.draw.name].enqueue(1), 60)
    assert not book.all()


# -- log lines


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """Every record of the logger "shop", tagged as a worker's handlers tag them."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    found: list[logging.LogRecord] = []
    handler, logger = Kept(), logging.getLogger("shop")
    handler.addFilter(JobIdFilter())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


async def test_log_lines_name_the_trace_and_the_innermost_span(
    solo: Windlass, book: Book, lines: list[logging.LogRecord]
) -> None:
    trace(solo, tracer_provider=book.provider)

    @solo.task(name="talks")
    def talks() -> None:
        with book.tracer.start_as_current_span("user"):
            logging.getLogger("shop").info("hello")

    async with solo.worker():
        await within(await talks.enqueue())
    logging.getLogger("shop").info("outside")
    inside, outside = lines
    user = book.one("user")
    said = json.loads(JsonFormatter().format(inside))
    assert (said["trace_id"], said["span_id"]) == (user.trace, user.id)
    assert TextFormatter().format(inside).endswith(f"trace {user.trace}]")
    assert "trace" not in JsonFormatter().format(outside) + TextFormatter().format(outside)


@pytest.mark.parametrize(("sample", "kept"), [(0.0, ["careful", "outside"]), (1.0, ["note", "careful", "outside"])])
async def test_sampled_logs_are_those_of_recorded_traces_and_warnings(
    solo: Windlass, book: Book, lines: list[logging.LogRecord], sample: float, kept: list[str]
) -> None:
    trace(solo, tracer_provider=book.provider, sample=sample, logs="sampled")

    @solo.task(name="talks")
    async def talks() -> None:
        logging.getLogger("shop").info("note")
        logging.getLogger("shop").warning("careful")

    async with solo.worker():
        await within(await talks.enqueue())
    logging.getLogger("shop").info("outside")
    assert [record.getMessage() for record in lines] == kept
    assert getattr(lines[-2], "trace_id", ""), "one that is not recorded has an id as well"


def test_a_worker_writes_trace_ids_as_json(tmp_path: Path, book: Book) -> None:
    env = {"TRACED_URL": f"sqlite:///{tmp_path}/jobs.db?durability=normal", "TRACED_SPANS": str(book.path)}
    app = Windlass("traced", env["TRACED_URL"], **SHORT)
    trace(app, tracer_provider=book.provider)
    app.sync.add("tests.observe.traced.order", {"number": 1})
    log = tmp_path / "log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "windlass", "worker", "tests.observe.traced:app", "--log-format", "json"]
        worker = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, stderr=file, stdout=file)
    try:
        soon(lambda: "packing 1" in log.read_text(), 60)
        soon(book.has(1, "process", task="label"), 60)
    finally:
        worker.terminate()
        worker.wait(30)
        app.sync.close()
    found = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (order,) = [line for line in found if line["message"] == "order 1"]
    assert (order["trace_id"], order["span_id"]) == (book.one("look up").trace, book.one("look up").id)
    assert not any("trace_id" in line for line in found if line["logger"] == "windlass.worker")
