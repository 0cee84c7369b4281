"""Huey on Redis. The consumer blocks for work; a result is looked for every 0.1 ms, or announced by a list."""

from benchmarks.apps import settings

_s = settings.read()
if _s.kind == "greenlet":
    from gevent import monkey

    monkey.patch_all()  # else a greenlet that waits for the server holds up all others

from importlib.metadata import version  # noqa: E402  (after the patch, here and below)
from typing import Any  # noqa: E402

from huey import RedisHuey  # noqa: E402

from benchmarks.apps import work  # noqa: E402

_notify = {"notify_result": True} if _s.store == "redis, notify" else {}
huey = RedisHuey("bench", url=_s.wide_url, results=_s.results, **_notify)
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
