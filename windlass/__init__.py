"""Windlass runs Python functions later, elsewhere, on time, and as often as promised."""

from windlass.app import Windlass
from windlass.calls.context import Current, current
from windlass.calls.queue import Queue, QueueStatus
from windlass.calls.task import AsyncTask, SyncTask, Task
from windlass.core.draft import Draft
from windlass.core.event import Event
from windlass.core.job import ErrorInfo, Progress, State
from windlass.core.keep import Keep
from windlass.core.language import every
from windlass.core.limits import Rate
from windlass.core.notice import DeadLetter, Notice
from windlass.core.retry import Exponential, Fixed
from windlass.core.timing import cron, once_at
from windlass.errors import (
    BreakerOpen,
    Busy,
    Cancel,
    ConfigError,
    EnqueueError,
    IdConflict,
    JobCancelled,
    JobError,
    JobExpired,
    JobFailed,
    JobLost,
    JobSkipped,
    LockLost,
    PayloadError,
    QueueDraining,
    QueueFull,
    Reject,
    ResultTimeout,
    Retry,
    Snooze,
    SoftTimeout,
    StoreError,
    StoreUnavailable,
    TaskTimeout,
    UnknownSchedule,
    UnknownTask,
    WindlassError,
)
from windlass.handles.gates import LimitInfo, TaskGate
from windlass.handles.handle import Handle, JobInfo, SyncHandle
from windlass.handles.results import Failure
from windlass.handles.why import Reason, Why
from windlass.limits.breakers import Breaker, BreakerInfo
from windlass.limits.locks import Lock
from windlass.limits.once import Once, once
from windlass.operate.admin import Holder
from windlass.operate.schedules import ScheduleInfo
from windlass.operate.targets import Email, Webhook
from windlass.workflows.flows import Flow, flow
from windlass.workflows.picture import Tree
from windlass.workflows.signature import Signature
from windlass.workflows.work import Chain, Chord, Group, Work, chain, chord, group
from windlass.workflows.workflow import SyncWorkflow, Workflow, WorkflowInfo, WorkflowPage, WorkflowProgress

__version__ = "0.1.0"

__all__ = [
    "AsyncTask",
    "Breaker",
    "BreakerInfo",
    "BreakerOpen",
    "Busy",
    "Cancel",
    "Chain",
    "Chord",
    "ConfigError",
    "Current",
    "DeadLetter",
    "Draft",
    "Email",
    "EnqueueError",
    "ErrorInfo",
    "Event",
    "Exponential",
    "Failure",
    "Fixed",
    "Flow",
    "Group",
    "Handle",
    "Holder",
    "IdConflict",
    "JobCancelled",
    "JobError",
    "JobExpired",
    "JobFailed",
    "JobInfo",
    "JobLost",
    "JobSkipped",
    "Keep",
    "LimitInfo",
    "Lock",
    "LockLost",
    "Notice",
    "Once",
    "PayloadError",
    "Progress",
    "Queue",
    "QueueDraining",
    "QueueFull",
    "QueueStatus",
    "Rate",
    "Reason",
    "Reject",
    "ResultTimeout",
    "Retry",
    "ScheduleInfo",
    "Signature",
    "Snooze",
    "SoftTimeout",
    "State",
    "StoreError",
    "StoreUnavailable",
    "SyncHandle",
    "SyncTask",
    "SyncWorkflow",
    "Task",
    "TaskGate",
    "TaskTimeout",
    "Tree",
    "UnknownSchedule",
    "UnknownTask",
    "Webhook",
    "Why",
    "Windlass",
    "WindlassError",
    "Work",
    "Workflow",
    "WorkflowInfo",
    "WorkflowPage",
    "WorkflowProgress",
    "chain",
    "chord",
    "cron",
    "current",
    "every",
    "flow",
    "group",
    "once",
    "once_at",
]
