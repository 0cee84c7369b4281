"""Reads a job's record in Celery's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass import JobInfo, State
from windlass.celery import states
from windlass.celery.json_values import unpack
from windlass.celery.request import Extra, read_extra

IGNORED = "ignored by the task"
"""The reason of a job that ended with ``Ignore``."""


class Reading:
    """One look at a task's record."""

    def __init__(self, info: JobInfo | None) -> None:
        self.info = info
        self.extra: Extra = read_extra(info.headers) if info is not None else Extra()
        told = info.progress.data.get("celery") if info is not None and info.progress is not None else None
        self.told: Mapping[str, Any] = told if isinstance(told, dict) else {}

    @property
    def state(self) -> str:
        info = self.info
        if info is None:
            return states.PENDING
        if info.state is State.CANCELLED:
            return self._own(any_attempt=True) or states.IGNORED if info.reason == IGNORED else states.REVOKED
        if info.state in _ENDED:
            return _ENDED[info.state]
        if info.state is State.RUNNING:
            return self._own() or states.STARTED
        if info.attempts:
            return states.RETRY
        # It waits again after it ran: other work has taken its place.
        return states.STARTED if info.state is State.WAITING and info.started_at else states.PENDING

    def _own(self, any_attempt: bool = False) -> str:
        """The state the task gave itself in this attempt."""
        if self.info is None or not (any_attempt or self.told.get("attempt") == self.info.attempts + 1):
            return ""
        return str(self.told.get("state") or "")

    @property
    def exc_args(self) -> Any:
        """The arguments of its last exception, if they were kept."""
        if self.info is None or self.told.get("attempt") != self.info.attempts:
            return None
        return unpack(self.told.get("exc_args"))

    @property
    def meta(self) -> Any:
        return unpack(self.told.get("meta"))


_ENDED = {State.SUCCEEDED: states.SUCCESS, State.FAILED: states.FAILURE, State.SKIPPED: states.FAILURE}
