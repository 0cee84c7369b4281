"""Every exception Windlass raises or understands, in one small tree.

A class's docstring is its default message. Nothing here imports anything else of Windlass, so every layer may raise
these. Driver exceptions never appear here: each store adapter maps its own, once.
"""

from __future__ import annotations

TOLD = "__windlass_told__"
"""Set on an exception by who has logged it."""


class WindlassError(Exception):
    """Something went wrong in Windlass."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


# -- mistakes in code or configuration, raised where they are written


class ConfigError(WindlassError):
    """A setting or option is wrong."""


class UnknownTask(ConfigError):
    """No task of this name is declared in this app."""


# -- enqueue did not accept a job


class EnqueueError(WindlassError):
    """The job was not accepted."""


class PayloadError(EnqueueError):
    """The arguments or the result cannot be carried as JSON within the caps."""


class IdConflict(EnqueueError):
    """This id belongs to a job with another task or other arguments."""


class QueueFull(EnqueueError):
    """The queue holds as many ready jobs as it may."""


class QueueDraining(EnqueueError):
    """The queue takes in no new jobs: it is being drained."""


# -- there is nothing of this name


class UnknownSchedule(WindlassError):
    """There is no schedule of this name."""


class NotFound(WindlassError):
    """There is nothing of this name, or nothing this user may see."""


# -- not allowed


class Forbidden(WindlassError):
    """This user may not do that. ``right``: the one that is missing."""

    def __init__(self, message: str | None = None, *, right: str = "") -> None:
        super().__init__(message)
        self.right = right


# -- held by somebody else


class Busy(WindlassError):
    """Somebody else is at it: the lock is taken, or the same block runs elsewhere."""


class LockLost(WindlassError):
    """The lock expired, or was taken away, while it was believed to be held."""


class BreakerOpen(WindlassError):
    """The circuit breaker is open: what it guards failed too often of late."""


# -- the store


class StoreError(WindlassError):
    """The store refused or failed an operation."""


class StoreUnavailable(StoreError):
    """The store cannot be reached in time, or cannot do it now; the call may have been done, and is safe to repeat."""


class StoreOutdated(StoreError):
    """A newer Windlass has migrated the store: this process must be restarted with that version."""


class StoreClosed(StoreError):
    """The store was closed."""


# -- what became of a job, raised to whoever waits for it


class JobError(WindlassError):
    """The job did not succeed."""


class JobFailed(JobError):
    """The job failed for good and is a dead letter.

    ``error_type``, ``error_message`` and ``traceback`` describe the last attempt as text; the original exception is
    never rebuilt from stored data.
    """

    def __init__(
        self, message: str | None = None, *, error_type: str = "", error_message: str = "", traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class JobCancelled(JobError):
    """The job was cancelled."""


class JobExpired(JobCancelled):
    """The job was not started before it expired."""


class JobSkipped(JobError):
    """The job was skipped: something it depended on can never be met."""


class JobLost(JobError):
    """The store has no record of this job: it was never accepted, was deleted, or its retention has passed."""


class ResultTimeout(JobError, TimeoutError):
    """The result did not arrive in time; the job itself goes on."""


# -- raised inside tasks by Windlass


class SoftTimeout(WindlassError):
    """The task has run longer than its soft timeout: clean up and finish."""


class TaskTimeout(WindlassError):
    """The task ran longer than its timeout: it was stopped, or goes on in a thread that nobody waits for."""


class WorkerCrashed(WindlassError):
    """The process running the job died."""


# -- raised inside tasks by the user, to say what should happen next


class Signal(WindlassError):
    """A task's wish about its own job."""


class Retry(Signal):
    """Try again, after ``delay`` if given, else after the task's backoff. Costs an attempt."""

    def __init__(self, message: str | None = None, *, delay: object = None) -> None:
        super().__init__(message or "the task asked for a retry")
        self.delay = delay


class Snooze(Signal):
    """Run again after ``delay``. Costs no attempt."""

    def __init__(self, delay: object, message: str | None = None) -> None:
        super().__init__(message or "the task snoozed")
        self.delay = delay


class Reject(Signal):
    """Make this job a dead letter now, whatever retries are left.

    With ``requeue`` it goes back to its queue instead, for any worker and at no cost: after a tenth of a second the
    first time, and twice as long each further time, up to a minute.
    """

    def __init__(self, reason: object = None, requeue: bool = False) -> None:
        super().__init__("rejected by the task" if reason is None else str(reason))
        self.reason, self.requeue = reason, requeue


UNSAID = "cancelled by the task"


class Cancel(Signal):
    """End this job as cancelled. Without a reason, that of the cancel that was asked for, if one was."""

    def __init__(self, reason: str = UNSAID) -> None:
        super().__init__(reason)
