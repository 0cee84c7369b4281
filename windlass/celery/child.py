"""What children of a prefork pool import: each task of the app under a name made of its own.

Importing it there imports the app, so that no task's time limit runs meanwhile. See ``prefork``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.celery import prefork

if TYPE_CHECKING:
    from windlass import Task

prefork.ready()


def __getattr__(name: str) -> Task[Any, Any]:
    task = prefork.task_of(name)
    if task is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return task
