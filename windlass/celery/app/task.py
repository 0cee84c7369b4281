"""Where Celery keeps its task class: ``from celery.app.task import Task``."""

from __future__ import annotations

from windlass.celery.request import Context
from windlass.celery.task import Task

__all__ = ["Context", "Task"]
