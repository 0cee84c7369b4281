"""What workers log about jobs: one record for each end that is worth it, wherever the job ran and whoever decided."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import fresh_prefix
from tests.worker.helpers import SHORT, eventually, within
from tests.worker.jobs import adopt, child_dies, child_fails
from windlass import Cancel, Snooze, Windlass, WindlassError
from windlass.store.jobs import Declared, Presence, Want
from windlass.support.logs import JsonFormatter, TextFormatter
from windlass.worker.worker_options import check_worker_options


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Windlass]:
    """On every engine."""
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db?durability=normal"}.get(request.param)
    app = Windlass(fresh_prefix(), url or request.getfixturevalue("redis7").url, **SHORT, unknown_after=1)
    yield app
    await app.close()


class Heard(logging.Handler):
    """What an error tracker hears: the records themselves."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, id: str) -> list[logging.LogRecord]:
        return [record for record in self.records if getattr(record, "job_id", "") == id]


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard, logger = Heard(), logging.getLogger("windlass.job")
    logger.addHandler(heard)
    before = logger.level
    logger.setLevel(logging.INFO)
    yield heard
    logger.removeHandler(heard)
    logger.setLevel(before)


async def one(heard: Heard, id: str) -> logging.LogRecord:
    """The only record of a job."""
    (record,) = await eventually(lambda: heard.of(id))
    return record


def broken() -> None:
    raise ValueError("no such address\nand more")


def declare(app: Windlass, place: str, **options: Any) -> Any:
    if place == "process":
        return adopt(app, child_fails)[0]
    if place == "async":

        @app.task(name="broken", **options)
        async def fails() -> None:
            broken()

        return fails
    return app.task(name="broken", **options)(broken)


@pytest.mark.parametrize("place", ["async", "thread", "process"])
async def test_a_dead_letter_is_one_error_with_its_traceback(app: Windlass, heard: Heard, place: str) -> None:
    task = declare(app, place)
    async with app.worker(children=1) as worker:
        handle = await task.options(headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}).enqueue()
        with pytest.raises(WindlassError):
            await within(handle)
        record = await one(heard, handle.id)
    info = await handle.info()
    assert info is not None
    assert info.error is not None
    assert (record.name, record.levelname) == ("windlass.job", "ERROR")
    said = record.getMessage()
    assert said.startswith(f"job {handle.id} ({task.name}) failed: ValueError: no such address")
    assert "and more" not in said
    fields = vars(record)
    assert fields["fingerprint"] == info.error.fingerprint
    expected = {
        "task": task.name, "queue": "default", "attempt": 1, "run": 1, "worker": worker.id, "state": "failed",
        "error_type": "ValueError", "trace_id": "ab" * 16,
    }  # fmt: skip
    assert {name: fields[name] for name in expected} == expected
    assert fields["duration_ms"] >= 0
    text = logging.Formatter().format(record)
    assert 'raise ValueError("no such address' in text
    assert "/windlass/worker/" not in text
    assert record.exc_info is not None
    if place != "process":  # the exception itself, for those who look into it
        assert record.exc_info[0] is ValueError
        assert record.exc_info[2] is not None


async def test_a_retry_is_a_warning_that_says_when(app: Windlass, heard: Heard) -> None:
    task = declare(app, "async", retries=3, backoff=60)
    async with app.worker():
        handle = await task.enqueue()
        record = await one(heard, handle.id)
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert "failed, is tried again in " in record.getMessage()
    assert 0 < vars(record)["retry_in_ms"] <= 60_000
    assert vars(record)["state"] == "scheduled"


async def test_success_is_told_only_where_asked(app: Windlass, heard: Heard) -> None:
    @app.task
    async def fine(n: int) -> None:
        if n == 1:
            raise Snooze(60)
        if n == 2:
            raise Cancel("not today")

    async with app.worker():
        first = await fine.enqueue(0)
        await within(first)
        await fine.enqueue(1)
        gone = await fine.enqueue(2)
        record = await one(heard, gone.id)
        assert (record.levelname, record.getMessage().rpartition(": ")[2]) == ("INFO", "not today")
        assert heard.records == [record]
    async with app.worker(log_success=True):
        second = await fine.enqueue(0)
        record = await one(heard, second.id)
        assert (record.levelname, vars(record)["state"]) == ("INFO", "succeeded")
    assert not heard.of(first.id)


def test_log_success_is_a_setting_too() -> None:
    app = Windlass("told", "memory://", log_success=True)
    app.task(broken)
    assert check_worker_options(app, {}).log_success
    assert not check_worker_options(app, {"log_success": False}).log_success


async def test_a_killed_child_is_told_of(app: Windlass, heard: Heard) -> None:
    (task,) = adopt(app, child_dies)
    async with app.worker(children=1):
        handle = await task.enqueue()
        with pytest.raises(WindlassError):
            await within(handle)
        records = await eventually(lambda: len(heard.of(handle.id)) >= 3 and heard.of(handle.id))
    assert [record.levelname for record in records] == ["WARNING", "WARNING", "ERROR"]
    assert "SIGKILL" in records[-1].getMessage()


@pytest.mark.parametrize("place", ["async", "thread"])
async def test_a_time_out_is_told_once_and_in_one_voice(app: Windlass, heard: Heard, place: str) -> None:
    go_on = threading.Event()

    @app.task(name="slow_async", timeout=0.05)
    async def slow_async() -> None:
        await asyncio.sleep(60)

    @app.task(name="slow_thread", timeout=0.05)
    def slow_thread() -> None:
        with suppress(WindlassError):
            while not go_on.is_set():
                time.sleep(0.01)
        go_on.wait(20)

    task = slow_async if place == "async" else slow_thread
    async with app.worker():
        handle = await task.enqueue()
        record = await one(heard, handle.id)
        go_on.set()
    end = "and was stopped" if place == "async" else "; its job is over, and its thread goes on until it returns"
    assert f"its timeout of 0.05 s{'' if place == 'thread' else ' '}{end}" in record.getMessage()
    info = await handle.info()
    assert info is not None
    assert info.error is not None
    assert (info.error.message in record.getMessage(), len(heard.of(handle.id))) == (True, 1)


async def test_what_the_store_decides_alone_is_told_once_of_all_workers(app: Windlass, heard: Heard) -> None:
    async def run() -> None: ...

    known = app.task(name="known")(run)
    lost = app.task(name="lost", on_crash="fail")(run)
    late = app.task(name="late", expires=0.05, queue="nobody")(run)
    store = (await app.client()).store
    async with app.worker(queues=["default"]):
        await within(await known.enqueue())  # from here on failures are news
    dead = await lost.enqueue()
    await store.beat(Presence(id="w", queues=["default"], declares={"lost": Declared()}), 0, [])
    assert (await store.exchange("w", 1, [], Want([("default", 1)], 1))).claims
    await store.leave("w", crashed=True)
    expired = await late.enqueue()
    unknown = await app.queue("default").add("nobodys")
    async with app.worker(queues=["default"]), app.worker(queues=["default"]):
        records = [await one(heard, handle.id) for handle in (dead, expired, unknown)]
        assert [record.levelname for record in records] == ["ERROR", "INFO", "ERROR"]
        assert [vars(record)["reason"] for record in records] == ["worker crashed", "expired", "unknown task"]
        assert [getattr(record, "error_type", "").rpartition(".")[2] for record in records] == [
            "WorkerCrashed", "", "UnknownTask",
        ]  # fmt: skip
    assert len(heard.records) == 3


class Cruel(logging.Handler):
    """A tracker that fails at every record."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise SystemExit("the tracker is ill")


async def test_a_handler_that_raises_harms_no_job(app: Windlass, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [declare(app, "async"), app.task(name="threaded")(broken)]

    @app.task(name="fine")
    async def fine() -> str:
        return "fine"

    cruel, logger = Cruel(), logging.getLogger("windlass")
    logger.addHandler(cruel)
    try:
        async with app.worker(log_success=True) as worker:
            calls = [call for _ in range(5) for call in (*(task.s() for task in tasks), fine.s())]
            handles = await app.enqueue_many(calls)
            for handle in handles:
                with suppress(WindlassError):
                    await within(handle)
            await eventually(lambda: not worker.executor.held)
            assert worker.exit_code == 0
            assert not worker.stop_requested.is_set()
    finally:
        logger.removeHandler(cruel)
    states = [str(await handle.state()) for handle in handles]
    assert states == ["failed", "failed", "succeeded"] * 5
    assert "a log handler raised SystemExit: the tracker is ill" in capsys.readouterr().err


class Half(Exception):
    def __str__(self) -> str:
        return "half \udcff"


async def test_the_line_for_machines_carries_all_of_it(app: Windlass) -> None:
    @app.task(name="half")
    async def half() -> None:
        raise Half

    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("windlass.job")
    logger.addHandler(handler)
    try:
        async with app.worker():
            handle = await half.enqueue()
            await eventually(out.getvalue)
    finally:
        logger.removeHandler(handler)
    line = json.loads(out.getvalue())
    assert (line["level"], line["logger"], line["job_id"]) == ("error", "windlass.job", handle.id)
    assert {"run", "worker", "duration_ms", "state", "error_type", "fingerprint", "reason"} <= line.keys()
    assert "Half" in line["exception"]


def test_a_line_for_people_names_the_job_once() -> None:
    record = logging.makeLogRecord(
        {"name": "windlass.job", "msg": "job one (x) failed", "job_id": "one", "task": "x", "levelname": "ERROR"}
    )
    assert TextFormatter().format(record).count("one") == 1
