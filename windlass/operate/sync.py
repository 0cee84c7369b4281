"""``app.sync``: the app for threads and plain scripts. The same calls, through the process's portal thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack
from uuid import UUID

from windlass.calls.queue import NOT_STARTED, Queue, QueueStatus
from windlass.calls.task import Task
from windlass.core.duration import Duration
from windlass.core.job import State
from windlass.core.options import CallOptions
from windlass.handles.gates import LimitInfo, QueueTuning, TaskGate, TaskTuning
from windlass.handles.handle import SyncHandle
from windlass.operate.admin import Holder, JobPage
from windlass.operate.asking import Asking
from windlass.operate.schedules import SyncSchedules
from windlass.support.portal import Portal
from windlass.workflows.signature import Signature
from windlass.workflows.workflow import SyncWorkflow, WorkflowPage

T = TypeVar("T")


class SyncApp:
    """Not for code on an event loop, which it would block."""

    def __init__(self, app: Asking, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._app, self._close, self._portal = app, close, app.connections.portal
        self.schedules = SyncSchedules(app.schedules, self._portal)

    def enqueue_many(self, calls: Iterable[Signature[Any]]) -> list[SyncHandle[Any]]:
        submitting = self._app.submitting
        return submitting.submit_here([submitting.draft(call.alone()) for call in calls])

    def add(self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> SyncHandle[Any]:
        """Call a task by name, in the queue ``queue=`` names."""
        return self.queue(options.get("queue", "default")).add(task, args, **options)

    def job(self, id: str) -> SyncHandle[Any]:
        return self._app.job(id).sync

    def jobs(
        self, *, queue: str = "", state: State | str | Sequence[State | str] = (), task: str = "", limit: int = 100,
        after: str = "",
    ) -> JobPage:  # fmt: skip
        return self._portal.call(lambda: self._app.jobs(queue=queue, state=state, task=task, limit=limit, after=after))

    def workflow(self, id: str) -> SyncWorkflow[Any]:
        return self._app.workflow(id).sync

    def workflows(
        self, *, state: State | str | Sequence[State | str] = (), limit: int = 100, after: str = ""
    ) -> WorkflowPage:
        return self._portal.call(lambda: self._app.workflows(state=state, limit=limit, after=after))

    def queue(self, name: str) -> SyncQueue:
        """A queue, for operators: ``app.sync.queue("emails").pause()``."""
        return SyncQueue(self._app, Queue(self._app, name))

    def task_gate(self, name: str) -> SyncTaskGate:
        """The gate of a task: ``app.sync.task_gate("shop.send").pause()``."""
        return SyncTaskGate(self._app.task_gate(name), self._portal)

    def limits(self) -> list[LimitInfo]:
        return self._portal.call(self._app.limits)

    def holder(self, task: Task[Any, Any] | str, key: str | int | float | UUID) -> Holder | None:
        return self._portal.call(lambda: self._app.holder(task, key))

    def counts(self, queue: str) -> dict[str, int]:
        return self._portal.call(Queue(self._app, queue).counts)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Anything else the app can do: ``app.sync.run(app.dead.replay(every=True))``."""
        return self._portal.call(lambda: coroutine)

    def close(self) -> None:
        """Finish what is being sent from the portal and close its connection."""
        self._portal.call(self._close)


class SyncTaskGate:
    """A task's gate, for sync code."""

    def __init__(self, gate: TaskGate, portal: Portal) -> None:
        self._gate, self._portal, self.name = gate, portal, gate.name

    def pause(self) -> None:
        self._portal.call(self._gate.pause)

    def resume(self) -> None:
        self._portal.call(self._gate.resume)

    def tune(self, **limits: Unpack[TaskTuning]) -> None:
        self._portal.call(lambda: self._gate.tune(**limits))

    def untune(self) -> None:
        self._portal.call(self._gate.untune)

    def info(self) -> LimitInfo:
        return self._portal.call(self._gate.info)


class SyncQueue:
    """A queue, for sync code."""

    def __init__(self, app: Asking, queue: Queue) -> None:
        self._submitting, self._portal = app.submitting, app.connections.portal
        self._queue, self.name = queue, queue.name

    def add(self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> SyncHandle[Any]:
        call = self._queue.call(task, args or {}, options)
        (handle,) = self._submitting.submit_here([self._submitting.draft(call)])
        return handle

    def counts(self) -> dict[str, int]:
        return self._portal.call(self._queue.counts)

    def info(self) -> QueueStatus:
        return self._portal.call(self._queue.info)

    def pause(self) -> None:
        self._portal.call(self._queue.pause)

    def resume(self) -> None:
        self._portal.call(self._queue.resume)

    def tune(self, **limits: Unpack[QueueTuning]) -> None:
        self._portal.call(lambda: self._queue.tune(**limits))

    def untune(self) -> None:
        self._portal.call(self._queue.untune)

    def drain(self, timeout: Duration | None = None) -> None:
        self._portal.call(lambda: self._queue.drain(timeout))

    def purge(self, state: State | str | Sequence[State | str] = NOT_STARTED) -> int:
        return self._portal.call(lambda: self._queue.purge(state))

    def move_to(self, queue: str, state: State | str | Sequence[State | str] = NOT_STARTED) -> int:
        return self._portal.call(lambda: self._queue.move_to(queue, state))
