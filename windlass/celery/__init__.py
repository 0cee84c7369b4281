"""Celery's shape over Windlass: code written for Celery runs by changing the import.

A thin layer over the public API. It keeps Celery's names and meaning; where Celery has a bug it does what was meant;
what has no counterpart is refused with the reason. ``docs/how-to/coming-from-celery.md`` says what differs.
"""

from windlass.celery import result, schedules, signals, states, utils
from windlass.celery._state import current_app, current_task
from windlass.celery.app import Celery, shared_task
from windlass.celery.canvas import (
    Signature,
    chain,
    chord,
    chunks,
    group,
    maybe_signature,
    signature,
    subtask,
    xmap,
    xstarmap,
)
from windlass.celery.task import Task
from windlass.celery.utils import uuid

__all__ = [
    "Celery",
    "Signature",
    "Task",
    "chain",
    "chord",
    "chunks",
    "current_app",
    "current_task",
    "group",
    "maybe_signature",
    "result",
    "schedules",
    "shared_task",
    "signals",
    "signature",
    "states",
    "subtask",
    "utils",
    "uuid",
    "xmap",
    "xstarmap",
]
