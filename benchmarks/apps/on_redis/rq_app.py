"""RQ with its SimpleWorker, which runs jobs in its own process instead of forking for each."""

from importlib.metadata import version
from typing import Any

from redis import Redis
from rq import Queue

from benchmarks.apps import settings, work

_s = settings.read()
_TTL = 3600 if _s.results else 0
queue = Queue("bench", connection=Redis.from_url(_s.url))
_body = work.PLAIN[_s.work]


def enqueue(value: int) -> Any:
    return queue.enqueue(_body, value, result_ttl=_TTL)


def enqueue_many(values: range) -> None:
    queue.enqueue_many([Queue.prepare_data(_body, (value,), result_ttl=_TTL) for value in values])


def call(value: int) -> None:
    found = enqueue(value).latest_result(timeout=30)
    work.check(found and found.return_value, value)


def pending() -> int:
    return len(queue) + queue.started_job_registry.count


def versions() -> dict[str, str]:
    return {"rq": version("rq"), "redis-py": version("redis")}
