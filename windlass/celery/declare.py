"""How a function becomes a task: its options are checked, and it gets a class of its own, as Celery makes it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.task import Task

if TYPE_CHECKING:
    from windlass.celery.app import Celery

OPTIONS = frozenset(
    {"name", "bind", "base", "max_retries", "default_retry_delay", "rate_limit", "ignore_result", "trail",
     "send_events", "store_errors_even_if_ignored", "serializer", "time_limit", "soft_time_limit", "backend",
     "track_started", "acks_late", "acks_on_failure_or_timeout", "acks_on_failure", "acks_on_timeout",
     "reject_on_worker_lost", "throws", "expires", "priority", "queue", "autoretry_for", "dont_autoretry_for",
     "retry_kwargs", "retry_backoff", "retry_backoff_max", "retry_jitter", "typing", "pydantic", "shared", "lazy",
     "abstract", "resultrepr_maxsize", "on_failure", "on_success", "on_retry", "after_return", "before_start"}
)  # fmt: skip
_NO_OPTION = {
    "routing_key": "there are no exchanges; give queue",
    "exchange": "there are no exchanges; give queue",
    "exchange_type": "there are no exchanges; give queue",
    "compression": "nothing is compressed",
    "Strategy": "a worker's parts are its own",
    "Request": "a worker's parts are its own",
    "retry_on_worker_lost": "use acks_late: a job whose worker died runs again, three times at most",
}


def check_options(options: Mapping[str, Any], base: type[Task], where: str) -> None:
    """Check options. Any other attribute is the user's own, as in Celery, unless it looks like a misspelling."""
    for name in options:
        if name in _NO_OPTION:
            raise ImproperlyConfigured(f"{where}: {name} has no counterpart: {_NO_OPTION[name]}")
        near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.8)
        if near and name not in OPTIONS and not hasattr(base, name):
            raise ImproperlyConfigured(f"{where} got an unknown option {name!r} (did you mean {near[0]!r}?)")


def make_task(app: Celery, fun: Callable[..., Any], options: Mapping[str, Any]) -> Task:
    """The task of a function: a class of its own, as Celery makes it, and its one instance."""
    settings = dict(options)
    base: type[Task] = settings.pop("base", None) or app.Task
    bind = settings.pop("bind", False)
    for name in ("shared", "lazy"):
        settings.pop(name, None)
    where = f"task {getattr(fun, '__qualname__', fun)}"
    check_options(settings, base, where)
    attributes = {
        **settings,
        "name": settings.get("name") or app.gen_task_name(fun.__name__, fun.__module__),
        "run": fun if bind else staticmethod(fun),
        "__doc__": fun.__doc__, "__module__": fun.__module__, "__wrapped__": fun, "__qualname__": fun.__qualname__,
    }  # fmt: skip
    task: Task = type(fun.__name__, (base,), attributes)()
    return task
