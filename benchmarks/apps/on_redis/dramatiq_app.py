"""dramatiq with its default middleware, and its result backend where results are kept."""

from importlib.metadata import version
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.apps import settings, work

_s = settings.read()
broker = RedisBroker(url=_s.wide_url)
if _s.results:
    broker.add_middleware(Results(backend=RedisBackend(url=_s.wide_url), result_ttl=3_600_000))
dramatiq.set_broker(broker)
_options = {"store_results": True} if _s.results else {}
noop = dramatiq.actor(actor_name="noop", **_options)(work.PLAIN[_s.work])


def enqueue(value: int) -> Any:
    return noop.send(value)


def call(value: int) -> None:
    work.check(noop.send(value).get_result(block=True, timeout=30_000), value)


def pending() -> int:
    return int(broker.client.hlen("dramatiq:default.msgs"))


def versions() -> dict[str, str]:
    return {"dramatiq": version("dramatiq"), "redis-py": version("redis")}
