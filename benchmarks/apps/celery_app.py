"""Celery without a server: the SQLAlchemy transport on SQLite, or the filesystem transport."""

import sqlite3
from importlib.metadata import version
from typing import Any

from celery import Celery
from kombu.transport.sqlalchemy import Transport as SqlTransport

from benchmarks.apps import settings
from benchmarks.apps.marks import mark

_s = settings.read()
_dir = _s.directory
if _s.store == "filesystem":
    for _name in ("messages", "control", "results"):
        (_dir / _name).mkdir(exist_ok=True)
    _broker, _backend = "filesystem://", f"file://{_dir}/results"
    _transport = {
        "data_folder_in": str(_dir / "messages"),
        "data_folder_out": str(_dir / "messages"),
        "control_folder": str(_dir / "control"),
        "polling_interval": 0.005,
    }
else:
    _broker, _backend = f"sqla+sqlite:///{_dir}/broker.db", f"db+sqlite:///{_dir}/results.db"
    _transport = {}
    SqlTransport.polling_interval = 0.005  # as an option it would go to create_engine, which refuses it

app = Celery("bench", broker=_broker, backend=_backend)
app.conf.update(
    broker_transport_options=_transport,
    task_ignore_result=not _s.results,
    worker_prefetch_multiplier=16,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)


@app.task
def noop(value: int) -> int:
    mark()
    return value


def enqueue(value: int) -> Any:
    return noop.delay(value)


def call(value: int) -> None:
    if noop.delay(value).get(timeout=30, interval=0.001) != value:
        raise AssertionError("wrong result")


def pending() -> int:
    if _s.store == "filesystem":
        return sum(1 for _ in (_dir / "messages").iterdir())
    with sqlite3.connect(_dir / "broker.db") as db:
        return int(db.execute("select count(*) from kombu_message where visible").fetchone()[0])


def versions() -> dict[str, str]:
    return {"celery": version("celery"), "sqlite": sqlite3.sqlite_version}
