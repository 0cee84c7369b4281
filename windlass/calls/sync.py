"""The app for sync code: the same calls, through the process's portal thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from uuid import UUID

from windlass.calls.call import Draft, Signature
from windlass.calls.client import RESEND_SECONDS, Offer, any_full, batches
from windlass.calls.handle import SyncHandle
from windlass.calls.queue import NOT_STARTED, Queue, QueueStatus
from windlass.core.duration import Duration
from windlass.core.job import NewJob, State
from windlass.core.options import CallOptions
from windlass.errors import StoreUnavailable
from windlass.limits.gates import LimitInfo, QueueTuning, TaskGate, TaskTuning
from windlass.operate.admin import answer_to_handle, answers_to_handles
from windlass.operate.schedules import SyncSchedules
from windlass.store.answers import Accept, Answer
from windlass.store.base import Direct
from windlass.support.portal import Portal
from windlass.workflows.plan import Plan, make_plan
from windlass.workflows.work import Work
from windlass.workflows.workflow import SyncWorkflow, WorkflowPage

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.task import Task
    from windlass.operate.admin import Holder, JobPage

log = logging.getLogger("windlass.client")

T = TypeVar("T")


def insert_here(store: Direct, jobs: Sequence[NewJob]) -> list[Answer]:
    """Sent once more when the reply was lost, as on a loop."""
    try:
        return store.insert_here(jobs)
    except StoreUnavailable as error:
        log.info("an enqueue failed, sending it again: %s", error)
        time.sleep(RESEND_SECONDS)
        return store.insert_here(jobs)


def insert_waiting(store: Direct, jobs: Sequence[NewJob], waits: Sequence[int]) -> list[Answer]:
    """And again while a queue is full and the callers have time, as on a loop."""
    answers: list[Answer] = []
    for batch in batches(jobs):
        came = insert_here(store, batch)
        if any_full(came):
            offer = Offer(batch, waits[len(answers) : len(answers) + len(batch)], came, time.monotonic())
            while offer.jobs:
                time.sleep(offer.pause(time.monotonic()))
                offer.answered(insert_here(store, offer.jobs), time.monotonic())
        answers += came
    return answers


class SyncApp:
    """``app.sync``: for threads and plain scripts. Not for code on an event loop, which it would block."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self.schedules = SyncSchedules(app)

    def submit(self, drafts: list[Draft]) -> list[SyncHandle[Any]]:
        client = self._app.client_for_threads()
        if client is None:
            handles = self._app.portal.call(lambda: self._app.submit(drafts))
        else:
            jobs = [draft.to_job(client.source, client.plain_meta) for draft in drafts]
            store = cast(Direct, client.store)
            answers = insert_waiting(store, jobs, [draft.resolved.full_wait for draft in drafts])
            handles = answers_to_handles(self._app, drafts, answers)
        return [handle.sync for handle in handles]

    def submit_one(self, draft: Draft) -> SyncHandle[Any]:
        client = self._app.client_for_threads()
        if client is None:
            (handle,) = self.submit([draft])
            return handle
        job, store = draft.to_job(client.source, client.plain_meta), cast(Direct, client.store)
        (answer,) = insert_here(store, (job,))
        if answer.status is Accept.FULL and draft.resolved.full_wait:
            (answer,) = insert_waiting(store, (job,), (draft.resolved.full_wait,))
        return answer_to_handle(self._app, draft, answer).sync

    def enqueue_many(self, calls: Iterable[Signature[Any]]) -> list[SyncHandle[Any]]:
        return self.submit([call.alone() for call in calls])

    def submit_work(self, work: Work[T]) -> SyncWorkflow[T]:
        # Planned on the caller's own thread: a large one would hold up everyone else on the portal's loop.
        plan, read = make_plan(self._app, work), work.reader()
        return self._app.portal.call(lambda: self._app.submit_plan(plan, read)).sync

    def show_plan(self, plan: Plan) -> None:
        if self._app._enqueue_layers:
            self._app.portal.call(lambda: self._app.show_plan(plan))

    def add(self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> SyncHandle[Any]:
        """Call a task by name, in the queue ``queue=`` names."""
        queue = self._app.queue(options.get("queue", "default"))
        return self._app.portal.call(lambda: queue.add(task, args, **options)).sync

    def job(self, id: str) -> SyncHandle[Any]:
        return self._app.job(id).sync

    def jobs(
        self, *, queue: str = "", state: State | str | Sequence[State | str] = (), task: str = "", limit: int = 100,
        after: str = "",
    ) -> JobPage:  # fmt: skip
        return self._app.portal.call(
            lambda: self._app.jobs(queue=queue, state=state, task=task, limit=limit, after=after)
        )

    def workflow(self, id: str) -> SyncWorkflow[Any]:
        return self._app.workflow(id).sync

    def workflows(
        self, *, state: State | str | Sequence[State | str] = (), limit: int = 100, after: str = ""
    ) -> WorkflowPage:
        return self._app.portal.call(lambda: self._app.workflows(state=state, limit=limit, after=after))

    def queue(self, name: str) -> SyncQueue:
        """A queue, for operators: ``app.sync.queue("emails").pause()``."""
        return SyncQueue(self._app.queue(name), self._app.portal)

    def task_gate(self, name: str) -> SyncTaskGate:
        """The gate of a task: ``app.sync.task_gate("shop.send").pause()``."""
        return SyncTaskGate(self._app.task_gate(name), self._app.portal)

    def limits(self) -> list[LimitInfo]:
        return self._app.portal.call(self._app.limits)

    def holder(self, task: Task[Any, Any] | str, key: str | int | float | UUID) -> Holder | None:
        return self._app.portal.call(lambda: self._app.holder(task, key))

    def counts(self, queue: str) -> dict[str, int]:
        return self._app.portal.call(self._app.queue(queue).counts)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Anything else the app can do: ``app.sync.run(app.dead.replay(every=True))``."""
        return self._app.portal.call(lambda: coroutine)

    def close(self) -> None:
        """Finish what is being sent from the portal and close its connection."""
        self._app.portal.call(self._app.close)


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

    def __init__(self, queue: Queue, portal: Portal) -> None:
        self._queue, self._portal, self.name = queue, portal, queue.name

    def add(self, task: str, args: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> SyncHandle[Any]:
        return self._portal.call(lambda: self._queue.add(task, args, **options)).sync

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
