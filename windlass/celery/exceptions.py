"""Celery's exceptions. If Windlass has one for the same thing, Celery's name is that very class or, where Celery's
takes more arguments, a subclass: an ``except`` for either catches what both raise.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from windlass.errors import (
    Cancel,
    ConfigError,
    JobCancelled,
    Reject,
    Signal,
    StoreUnavailable,
    TaskTimeout,
    UnknownTask,
    WorkerCrashed,
)
from windlass.errors import ResultTimeout as TimeoutError
from windlass.errors import Retry as WindlassRetry
from windlass.errors import SoftTimeout as SoftTimeLimitExceeded

__all__ = [
    "AlreadyRegistered",
    "BackendError",
    "CeleryError",
    "CeleryWarning",
    "ChordError",
    "Ignore",
    "ImproperlyConfigured",
    "IncompleteStream",
    "InvalidTaskError",
    "MaxRetriesExceededError",
    "NotConfigured",
    "NotRegistered",
    "OperationalError",
    "QueueNotFound",
    "Reject",
    "Retry",
    "SecurityError",
    "SoftTimeLimitExceeded",
    "TaskError",
    "TaskPredicate",
    "TaskRevokedError",
    "Terminated",
    "TimeLimitExceeded",
    "TimeoutError",
    "WorkerLostError",
    "reraise",
]

TimeLimitExceeded = TaskTimeout
WorkerLostError = WorkerCrashed
OperationalError = StoreUnavailable
TaskPredicate = Signal


class CeleryWarning(UserWarning):
    """Something of Celery that has no effect here."""


class NotConfigured(CeleryWarning):
    """No configuration was found."""


class CeleryError(Exception):
    """Base of Celery's errors."""


class ImproperlyConfigured(ConfigError, CeleryError):
    """A setting or option is wrong, or has no counterpart."""


class SecurityError(CeleryError):
    """Something unsafe was asked for."""


class BackendError(CeleryError):
    """A result could not be read or written."""


# -- what a task raises about itself


class Retry(WindlassRetry, CeleryError):
    """The task is to run again; ``self.retry()`` raises it. ``when`` is a number of seconds or an instant."""

    def __init__(
        self, message: str | None = None, exc: BaseException | None = None, when: float | datetime | None = None,
        is_eager: bool = False, sig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(message, delay=max(0, when) if isinstance(when, int | float) else None)
        self.message, self.exc, self.when, self.is_eager, self.sig = message, exc, when, is_eager, sig

    def humanize(self) -> str:
        return f"in {self.when}s" if isinstance(self.when, int | float) else f"at {self.when}"

    def __str__(self) -> str:
        if self.message:
            return self.message
        return f"Retry {self.humanize()}" + (f": {self.exc!r}" if self.exc is not None else "")


class Ignore(Cancel, CeleryError):
    """Nothing is to be recorded of this run: what ``update_state`` said last stands."""


# -- what became of a task


class TaskError(CeleryError):
    """Base of errors about tasks."""


class QueueNotFound(KeyError, TaskError):
    """The queue is not one of ``task_queues``."""


class IncompleteStream(TaskError):
    """Results were asked for that are not there yet."""


class NotRegistered(UnknownTask, TaskError, KeyError):
    """No task of this name is declared."""

    def __str__(self) -> str:
        return f"no task {self.args[0] if self.args else ''!r} is declared; is its module imported?"


class AlreadyRegistered(TaskError):
    """The name is taken by another task."""


class MaxRetriesExceededError(TaskError):
    """The task was retried as often as it may be."""

    def __init__(self, *args: Any, task_args: Any = (), task_kwargs: Any = None) -> None:
        super().__init__(*args)
        self.task_args, self.task_kwargs = task_args, task_kwargs or {}


class TaskRevokedError(JobCancelled, TaskError):
    """The task was revoked, or expired before it started."""


class InvalidTaskError(TaskError):
    """The task's data cannot be used."""


class ChordError(TaskError):
    """A task of a chord's header failed, so its body was not run."""


class Terminated(Exception):
    """The process that ran the task was ended."""


def reraise(tp: type[BaseException], value: BaseException, tb: Any = None) -> None:
    """Raise ``value`` with this traceback."""
    raise value.with_traceback(tb)
