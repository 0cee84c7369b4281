"""``get_task_logger``: a logger below ``celery.task``, as Celery's logging settings expect it."""

from __future__ import annotations

import logging

__all__ = ["get_logger", "get_task_logger"]

_tasks = logging.getLogger("celery.task")


def get_logger(name: str) -> logging.Logger:
    return logging.getLogger(name)


def get_task_logger(name: str) -> logging.Logger:
    """A logger for a module of tasks. The worker adds the job's id to what is logged in a job."""
    if name in ("celery", "celery.task"):
        raise RuntimeError(
            f"{name!r} is Celery's own logger; name the logger after the module: get_task_logger(__name__)"
        )
    logger = logging.getLogger(name)
    if logger.parent is logging.root:
        logger.parent = _tasks
    return logger
