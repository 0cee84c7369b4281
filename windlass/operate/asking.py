"""What an app answers about its jobs, workflows, limits and workers, and what it tells workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal
from uuid import UUID

from windlass.calls.declared import Declared
from windlass.calls.submitting import Submitting
from windlass.calls.task import Task
from windlass.connections.connections import Connections
from windlass.core.event import Event
from windlass.core.job import State
from windlass.core.option_parsers import parse_states
from windlass.handles.gates import LimitInfo, TaskGate, all_limits
from windlass.handles.handle import Handle
from windlass.operate import orders
from windlass.operate.admin import Holder, JobPage, find_holder, jobs_page, stream_events
from windlass.operate.schedules import Schedules
from windlass.store.reads import QueueInfo, WorkerInfo
from windlass.workflows.workflow import Workflow, WorkflowPage, workflows_page


class Asking:
    """An app as those see it who look at jobs and tell workers what to do. It stands on the app's parts."""

    connections: Connections
    declared: Declared
    submitting: Submitting
    schedules: Schedules

    def job(self, id: str) -> Handle[Any]:
        """A handle for a job of any process; it need not exist."""
        return Handle(self.connections, id)

    async def jobs(
        self, *, queue: str = "", state: State | str | Sequence[State | str] = (), task: str = "", limit: int = 100,
        after: str = "",
    ) -> JobPage:  # fmt: skip
        """A page of jobs, newest first; ``after=page.cursor`` gives the next."""
        client = await self.connections.client()
        return await jobs_page(client.store, queue, state, task, limit, after)

    def workflow(self, id: str) -> Workflow[Any]:
        """A handle for a workflow of any process; it need not exist."""
        return Workflow(self.connections, id)

    async def workflows(
        self, *, state: State | str | Sequence[State | str] = (), limit: int = 100, after: str = ""
    ) -> WorkflowPage:
        """A page of workflows, newest first; ``state="running"`` are those under way."""
        client = await self.connections.client()
        return await workflows_page(client.store, parse_states(state), limit, after)

    def task_gate(self, name: str) -> TaskGate:
        """The gate of a task, also of another service's: pause, resume, tune, untune, info."""
        return TaskGate(self.connections, name)

    async def limits(self) -> list[LimitInfo]:
        """Every gate there is, of queues, tasks and breakers, with what holds there now."""
        return await all_limits(self.connections)

    async def holder(self, task: Task[Any, Any] | str, key: str | int | float | UUID) -> Holder | None:
        """Who has a unique key of a task, None where nobody has. ``key`` as ``unique=`` comes to for that call."""
        name = task if isinstance(task, str) else task.name
        return await find_holder(self.connections, name, key, self.declared.reader(name))

    async def queues(self) -> list[QueueInfo]:
        """Every queue with its jobs by state."""
        client = await self.connections.client()
        return await client.store.queues()

    async def workers(self) -> list[WorkerInfo]:
        """Every worker that has not left."""
        client = await self.connections.client()
        return await client.store.workers()

    async def order(self, order: Literal["quiet", "resume", "stop"], *workers: str, reason: str = "") -> list[str]:
        """Tell workers to claim no more jobs, to claim again, or to drain and end; answers their ids.

        Each is named by its id, the beginning of one, or HOST:PID. They obey within moments, and say so at a beat.
        """
        client = await self.connections.client()
        return await orders.give(client.store, order, workers, reason)

    async def serve(self, queue: str, *workers: str) -> list[str]:
        """Tell workers to serve a queue beside their others, until they end; named as for ``order``."""
        client = await self.connections.client()
        return await orders.serve(client.store, queue, workers)

    async def leave(self, queue: str, *workers: str) -> list[str]:
        """Tell workers to claim nothing more from a queue; what they run of it goes on."""
        client = await self.connections.client()
        return await orders.serve(client.store, queue, workers, on=False)

    def events(
        self, *, queue: str = "", task: str = "", kinds: Sequence[str] = (), since: str = "", follow: bool = True
    ) -> AsyncIterator[Event]:
        """The event stream: live, or from a cursor on (``since="0"`` is the oldest kept)."""
        return stream_events(self.connections, queue, task, kinds, since, follow)
