"""Huey on SQLite, with the standard library's driver or with cysqlite."""

import sqlite3
from importlib.metadata import version
from typing import Any

from huey import CySqliteHuey, SqliteHuey

from benchmarks.apps import settings
from benchmarks.apps.marks import mark

_s = settings.read()
_class = CySqliteHuey if _s.store == "cysqlite" else SqliteHuey
huey = _class("bench", filename=str(_s.directory / "huey.db"), results=_s.results, fsync=_s.full)


@huey.task()
def noop(value: int) -> int:
    mark()
    return value


def enqueue(value: int) -> Any:
    return noop(value)


def call(value: int) -> None:
    # max_delay caps the first sleep too: without it Huey looks for a result every 50 ms.
    if noop(value).get(blocking=True, timeout=30, max_delay=0.0001) != value:
        raise AssertionError("wrong result")


def pending() -> int:
    return int(huey.pending_count())


def versions() -> dict[str, str]:
    found = {"huey": version("huey"), "sqlite": sqlite3.sqlite_version}
    if _s.store == "cysqlite":
        import cysqlite

        found["sqlite"] = cysqlite.sqlite_version
    return found
