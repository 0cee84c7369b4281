"""How a worker process logs, and each of its process children: to standard error, with the running job."""

from __future__ import annotations

import logging
import os
import sys

from windlass.calls.context import JobIdFilter
from windlass.support.logs import JsonFormatter, TextFormatter

_ENVIRONMENT = "WINDLASS_LOG"


def set_up_logging(level: str, style: str) -> None:
    """Send everything to standard error, unless the user's own set-up is in place; the job is tagged either way.

    Called before the user's modules are imported and again after, as they may have put handlers of their own in place.
    """
    os.environ[_ENVIRONMENT] = f"{level}:{style}"  # for this worker's process children
    root = logging.getLogger()
    if not root.handlers:
        ours = logging.StreamHandler(sys.stderr)
        ours.setFormatter(JsonFormatter() if style == "json" else TextFormatter(sys.stderr.isatty()))
        root.addHandler(ours)
        root.setLevel(level.upper())
    for handler in root.handlers:
        if not any(isinstance(known, JobIdFilter) for known in handler.filters):
            handler.addFilter(JobIdFilter())


def set_up_as_parent() -> None:
    """In a process child: the same set-up as the worker that started it."""
    level, _, style = os.environ.get(_ENVIRONMENT, "").partition(":")
    if level:
        set_up_logging(level, style)
