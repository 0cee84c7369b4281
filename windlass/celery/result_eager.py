"""The result of a task that ran in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from windlass.celery import states
from windlass.celery.exceptions import TaskRevokedError
from windlass.celery.result_async import AsyncResult

if TYPE_CHECKING:
    from windlass.celery.app import Celery
    from windlass.celery.request import Context
    from windlass.celery.task import Task
    from windlass.celery.task_run import Ended


class EagerResult(AsyncResult):
    """The result of a task that ran in place. ``left_off``: the task raised Ignore or Reject, so that nothing follows
    it.
    """

    left_off = False

    def __init__(
        self, id: str, ret_value: Any, state: str, traceback: str | None = None, name: str | None = None,
        children: Iterable[Any] = (), app: Celery | None = None,
    ) -> None:  # fmt: skip
        self.id, self.parent, self.ignored = id, None, False
        self._returned_here, self._state, self._traceback, self._name = ret_value, state, traceback, name
        self._children = list(children)
        if app is not None:
            self.app = app

    @classmethod
    def of(cls, task: Task, request: Context, ended: Ended) -> Self:
        told = request.get("told") or {}
        state, value = ended.state, ended.value
        left_off = state in (states.IGNORED, states.REJECTED)
        if state == states.IGNORED:
            state, value = told.get("state") or states.IGNORED, told.get("meta")
        elif state == states.REJECTED:
            state = states.FAILURE
        trace = ended.info.traceback if ended.info is not None and state != states.IGNORED else None
        made = cls(str(request.id), value, state, trace, task.name, request.children, task.app)
        made.left_off = left_off
        return made

    @property
    def state(self) -> str:
        return self._state

    @property
    def status(self) -> str:
        return self._state

    @property
    def result(self) -> Any:
        return self._returned_here

    @property
    def info(self) -> Any:
        return self._returned_here

    @property
    def traceback(self) -> str | None:
        return self._traceback

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def children(self) -> list[Any]:
        return self._children

    def ready(self) -> bool:
        return True

    def exists(self) -> bool:
        return True

    def get(
        self, timeout: float | None = None, propagate: bool = True, interval: float = 0.5,
        callback: Callable[[str, Any], Any] | None = None, disable_sync_subtasks: bool = True, **other: Any,
    ) -> Any:  # fmt: skip
        """The value. It exists already, so a task may ask for it too."""
        if propagate and self._state in states.PROPAGATE_STATES:
            raise self._returned_here if isinstance(self._returned_here, Exception) else Exception(self._returned_here)
        if callback is not None:
            callback(self.id, self._returned_here)
        return self._returned_here

    wait = get

    def revoke(self, connection: Any = None, terminate: bool = False, **other: Any) -> None:
        self._state, self._returned_here, self._traceback = states.REVOKED, TaskRevokedError("revoked"), None

    def forget(self) -> None:
        """There is nothing in the store to forget."""

    def __reduce__(self) -> Any:
        given = (self.id, self._returned_here, self._state, self._traceback, self._name, self._children)
        return type(self), given, {"parent": self.parent}

    def __repr__(self) -> str:
        return f"<EagerResult: {self.id}>"
