"""Celery's prefork pool: tasks run in the children of a worker's process pool, each of which can be killed alone.

A child is a clean interpreter and imports by name what it runs, but Celery's tasks need not have such a name. So every
task has one in the module ``child``: ``task_<hex of its name>``. The worker tells its children in the environment which
app that is, and what the command line set.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.celery import signals
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.request import node_name

if TYPE_CHECKING:
    from windlass import Task
    from windlass.celery.app import Celery

CHILD = "windlass.celery.child"
VARIABLE = "WINDLASS_CELERY_PREFORK"
_PREFIX = "task_"
_used: list[Celery] = []


class Orders(msgspec.Struct):
    """What a child must know: where the app is, the settings from the command line, and further modules with tasks."""

    app: str
    conf: dict[str, Any] = {}
    include: list[str] = []


def use(app: Celery, conf: dict[str, Any], include: list[str]) -> None:
    """Run the tasks of this app in children from now on. Call it before the Windlass app is made."""
    os.environ[VARIABLE] = msgspec.json.encode(Orders(_place_of(app), conf, include)).decode()
    _used[:] = [app]


def is_used_by(app: Celery) -> bool:
    return app in _used


def name_for(task: str) -> str:
    """The attribute of the module ``child`` that stands for the task."""
    return _PREFIX + task.encode().hex()


def _place_of(app: Celery) -> str:
    """The "module:attribute" by which a child finds the app."""
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name.startswith("windlass."):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return f"{name}:{attribute}"
    raise ImproperlyConfigured(
        f"{app!r} is in no module, so that a child process could not find it; use -P threads, or put it into one"
    )


def task_of(name: str) -> Task[Any, Any] | None:
    """The task that such an attribute stands for, in the worker and in its children."""
    try:
        task = bytes.fromhex(name.removeprefix(_PREFIX)).decode() if name.startswith(_PREFIX) else ""
    except ValueError:
        return None
    return ready().windlass.tasks.get(task) if task else None


def ready() -> Celery:
    """The app these tasks belong to; a child imports it now."""
    return _used[0] if _used else _become_child()


def _become_child() -> Celery:
    if VARIABLE not in os.environ:
        raise ImproperlyConfigured("a child process of a prefork pool was started by something else than its worker")
    orders = msgspec.json.decode(os.environ[VARIABLE], type=Orders)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what tasks print is seen when they print it
    module, _, attribute = orders.app.partition(":")
    app: Celery = getattr(import_module(module), attribute)
    app.conf.update(orders.conf)
    app.windlass.load(orders.include)
    _used[:] = [app]
    signals.worker_process_init.send(sender=SimpleNamespace(hostname=node_name(), app=app))
    atexit.register(signals.worker_process_shutdown.send, sender=None, pid=os.getpid(), exitcode=0)
    return app
