"""Celery with Redis as broker and, where results are kept, as result backend."""

from importlib.metadata import version
from typing import Any

from celery import Celery, chain, chord, group

from benchmarks.apps import settings, work

_s = settings.read()
app = Celery("bench", broker=_s.url, backend=_s.url)
app.conf.update(
    task_ignore_result=not _s.results,
    worker_prefetch_multiplier=16,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    redis_max_connections=1000,
)
noop = app.task(name="noop")(work.PLAIN[_s.work])


def enqueue(value: int) -> Any:
    return noop.delay(value)


def call(value: int) -> None:
    work.check(noop.delay(value).get(timeout=30), value)


total = app.task(name="total")(work.total)


def _tree(fans: tuple[int, ...]) -> Any:
    if not fans:
        return noop.si(1)
    return chord([_tree(fans[1:]) for _ in range(fans[0])], total.s())


def workflow(shape: str, size: int) -> None:
    if shape == "chain":
        built, value = chain(noop.s(1), *[noop.s() for _ in range(size - 1)]), 1
    elif shape == "group":
        built, value = group(noop.s(number) for number in range(size)), list(range(size))
    elif shape == "chord":
        built, value = chord([noop.s(1) for _ in range(size)], total.s()), size + 1
    else:
        built, value = _tree(work.fans(size)), size
    work.check(built.apply_async().get(timeout=300), value)


def pending() -> int:
    with app.connection_for_read() as connection:
        return int(connection.default_channel.client.llen("celery"))


def versions() -> dict[str, str]:
    return {"celery": version("celery"), "redis-py": version("redis")}
