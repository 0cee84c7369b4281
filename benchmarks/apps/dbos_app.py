"""DBOS with its system database on SQLite: a workflow without steps, enqueued on a DBOS queue."""

import sqlite3
import threading
import time
from importlib.metadata import version
from typing import Any

from dbos import DBOS, DBOSClient

from benchmarks.apps import settings
from benchmarks.apps.marks import mark

_s = settings.read()
_url = f"sqlite:///{_s.directory}/dbos.db"
_options = {"workflow_name": "noop", "queue_name": "bench", "app_version": "1"}
_client: DBOSClient | None = None
_connecting = threading.Lock()


@DBOS.workflow(name="noop")
def noop(value: int) -> int:
    mark()
    return value


def _start() -> None:
    DBOS(config={"name": "bench", "system_database_url": _url, "application_version": "1", "log_level": "ERROR"})
    DBOS.launch()
    DBOS.register_queue("bench", polling_interval_sec=0.005)


def _connect() -> DBOSClient:
    global _client
    with _connecting:
        if _client is None:
            if not (_s.directory / "dbos.db").exists():
                _start()  # a client never makes the tables
                DBOS.destroy()
            _client = DBOSClient(system_database_url=_url)
    return _client


def enqueue(value: int) -> Any:
    return _connect().enqueue(_options, value)


def call(value: int) -> None:
    if _connect().enqueue(_options, value).get_result(polling_interval_sec=0.001) != value:
        raise AssertionError("wrong result")


def pending() -> int:
    with sqlite3.connect(_s.directory / "dbos.db") as db:
        return int(db.execute("select count(*) from workflow_status where status = 'ENQUEUED'").fetchone()[0])


def versions() -> dict[str, str]:
    return {"dbos": version("dbos"), "sqlite": sqlite3.sqlite_version}


if __name__ == "__main__":
    _start()
    while True:
        time.sleep(60)
