"""The module that children of a prefork pool import: each task of the app has a name here.

Importing it in a child imports the app, so that no task's time limit runs during the import. See ``prefork``.
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
