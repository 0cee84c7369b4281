"""persist-queue's SQLiteAckQueue, a bare queue: no tasks, no results, no worker, so the loop below is ours."""

import sqlite3
from importlib.metadata import version

from persistqueue import SQLiteAckQueue

from benchmarks.apps import settings
from benchmarks.apps.marks import mark

_s = settings.read()
queue = SQLiteAckQueue(str(_s.directory), multithreading=True)


def enqueue(value: int) -> None:
    queue.put(value)


def pending() -> int:
    return int(queue.ready_count())


def versions() -> dict[str, str]:
    return {"persist-queue": version("persist-queue"), "sqlite": sqlite3.sqlite_version}


def work() -> None:
    """Takes, runs and acknowledges one item at a time."""
    while True:
        item = queue.get(raw=True)
        mark()
        queue.ack(id=item["pqid"])


if __name__ == "__main__":
    work()
