"""litequeue, a bare queue on SQLite: no tasks, no results, no worker, so the loop below is ours."""

import sqlite3
import time
from importlib.metadata import version

from litequeue import LiteQueue

from benchmarks.apps import settings
from benchmarks.apps.marks import mark

_s = settings.read()
queue = LiteQueue(str(_s.directory / "queue.db"))
if _s.full:
    queue.conn.execute("pragma synchronous=full")


def enqueue(value: int) -> None:
    queue.put(str(value))


def pending() -> int:
    return int(queue.qsize())


def versions() -> dict[str, str]:
    return {"litequeue": version("litequeue"), "sqlite": sqlite3.sqlite_version}


def work() -> None:
    """Pops, runs and acknowledges one message at a time."""
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(0.001)
            continue
        int(message.data)
        mark()
        queue.done(message.message_id)


if __name__ == "__main__":
    work()
