"""Huey on Redis. The consumer blocks for work; a result is looked for every 0.1 ms, or announced by a list."""

from importlib.metadata import version
from typing import Any

from huey import RedisHuey

from benchmarks.apps import settings, work

_s = settings.read()
_notify = {"notify_result": True} if _s.store == "redis, notify" else {}
huey = RedisHuey("bench", url=_s.url, results=_s.results, **_notify)
noop = huey.task(name="noop")(work.PLAIN[_s.work])


def enqueue(value: int) -> Any:
    return noop(value)


def call(value: int) -> None:
    # max_delay caps the first sleep too: without it Huey looks for a result every 50 ms.
    work.check(noop(value).get(blocking=True, timeout=30, max_delay=0.0001), value)


def pending() -> int:
    return int(huey.pending_count())


def versions() -> dict[str, str]:
    return {"huey": version("huey"), "redis-py": version("redis")}
