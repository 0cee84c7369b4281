"""Handles of workflows: what a caller holds of one. They ask the store; they keep nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from windlass.connections.connections import Connected
from windlass.core import safe
from windlass.core.duration import Duration, from_ms, show_ms, to_ms
from windlass.core.failure import read_error
from windlass.core.graph import GraphInfo
from windlass.core.job import ErrorInfo, Finished, Job, State
from windlass.errors import ConfigError, JobCancelled, JobFailed, JobLost, ResultTimeout
from windlass.handles.handle import JobInfo, job_info
from windlass.handles.results import Read, decode, read_value
from windlass.handles.why import why_late
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Action, Change
from windlass.support.portal import portal
from windlass.workflows.picture import Tree, draw_dot, draw_mermaid, make_tree, meta_of

R = TypeVar("R")
MOST_ADOPTED = 100
"""So many workflows that jobs of a workflow started are shown in its tree; each costs a few calls."""


class WorkflowProgress(msgspec.Struct, frozen=True):
    """How far a workflow is: its jobs that have ended, by state. As text: ``37 of 50``."""

    done: int
    total: int
    counts: dict[str, int] = {}

    def __str__(self) -> str:
        return f"{self.done} of {self.total}"


class WorkflowInfo(msgspec.Struct, kw_only=True, frozen=True):
    """A workflow's record, for people. Its state is ``running`` while it is under way.

    ``culprit`` is the job that decided a bad end. ``parent``: the job that waits for it; ``replaces``: it took
    that job's place.
    """

    id: str
    name: str
    state: State
    reason: str
    culprit: str
    total: int
    done: int
    counts: dict[str, int]
    parent: str
    replaces: bool
    created_at: datetime | None
    finished_at: datetime | None


class WorkflowPage(msgspec.Struct, frozen=True):
    """A page of workflows. ``cursor`` continues it, empty at the end."""

    workflows: list[WorkflowInfo]
    cursor: str = ""

    def __len__(self) -> int:
        return len(self.workflows)


def workflow_info(graph: GraphInfo) -> WorkflowInfo:
    meta = meta_of(graph)
    return WorkflowInfo(
        id=graph.id, name=graph.name, state=shown_state(graph.state), reason=graph.reason, culprit=graph.culprit,
        total=graph.size, done=sum(graph.counts.values()), counts=graph.counts, parent=graph.parent,
        replaces=bool(meta.get("replaced")), created_at=from_ms(graph.created_at),
        finished_at=from_ms(graph.finished_at),
    )  # fmt: skip


def shown_state(state: State) -> State:
    """Its end waits while the workflow runs."""
    return state if state.terminal else State.RUNNING


async def workflows_page(store: Store, states: Sequence[State], limit: int, after: str) -> WorkflowPage:
    kept = dict.fromkeys(state if state.terminal else State.WAITING for state in states)
    page = await store.graphs(tuple(kept), after, min(limit, MAX_BATCH))
    return WorkflowPage([workflow_info(graph) for graph in page.graphs], page.cursor)


async def all_members(store: Store, graph: GraphInfo) -> list[Job]:
    """All nodes of a workflow that are left, joins included, in the order they were submitted."""
    found: list[Job] = []
    for first in range(0, graph.nodes, MAX_BATCH):
        found += await store.members(graph.id, first - 1)
    return found


class Workflow(Generic[R]):
    """A workflow, for async code: ``await handle`` waits for its value."""

    __slots__ = ("_connections", "_read", "id")

    def __init__(self, connections: Connected, id: str, read: Read = decode) -> None:
        self._connections, self.id, self._read = connections, id, read

    def __await__(self) -> Generator[Any, None, R]:
        return self.result().__await__()

    async def result(self, timeout: Duration | None = None) -> R:
        """The workflow's value once it is there; a JobError that names the culprit if it did not succeed."""
        client = await self._connections.client()
        try:
            async with asyncio.timeout(None if timeout is None else to_ms(timeout, "timeout") / 1000):
                finished = await client.waiter.wait(self.id)
                if finished.state is State.SUCCEEDED and finished.result is None:
                    finished.result = await read_value(client.store, self.id)
        except TimeoutError:
            why = await why_late(client.store, self.id)
            raise ResultTimeout(
                f"workflow {self.id} was not over within {show_ms(to_ms(timeout or 0, 'timeout'))}; it goes on{why}"
            ) from None
        if finished.state is not State.SUCCEEDED:
            raise failure(finished, await client.store.graph(self.id))
        value: R = self._read(finished.result)
        return value

    def get(self, timeout: Duration | None = None) -> R:
        """The same for sync code."""
        return self.sync.get(timeout)

    @property
    def sync(self) -> SyncWorkflow[R]:
        """This handle for sync code."""
        return SyncWorkflow(self)

    async def graph(self) -> GraphInfo | None:
        """The record as the store has it."""
        client = await self._connections.client()
        return await client.store.graph(self.id)

    async def info(self) -> WorkflowInfo | None:
        """What is known of the workflow now, or None when the store does not know it."""
        graph = await self.graph()
        return workflow_info(graph) if graph else None

    async def state(self) -> State | None:
        """``running`` while it is under way, else how it ended."""
        graph = await self.graph()
        return shown_state(graph.state) if graph else None

    async def ready(self) -> bool:
        """True once the workflow is over, however it ended."""
        state = await self.state()
        return state is not None and state.terminal

    async def successful(self) -> bool:
        return await self.state() is State.SUCCEEDED

    async def failed(self) -> bool:
        return await self.state() is State.FAILED

    async def progress(self) -> WorkflowProgress:
        """How many of its jobs are over, and how they ended."""
        graph = await self._known()
        return WorkflowProgress(sum(graph.counts.values()), graph.size, graph.counts)

    async def cancel(self, reason: str = "") -> bool:
        """Ask for all of it to end; callbacks run. False when it is over already or unknown."""
        return await self._change(Change(action=Action.CANCEL, reason=safe.text(reason, safe.MAX_REASON)))

    async def retry(self) -> bool:
        """Run again what failed, and with it what was skipped for it. What succeeded does not run twice."""
        return await self._change(Change(action=Action.RETRY))

    async def forget(self) -> bool:
        """Delete it with all its jobs. One that is under way is left alone."""
        return await self._change(Change(action=Action.DELETE))

    async def jobs(self) -> list[JobInfo]:
        """All its jobs, in the order they were submitted."""
        graph, client = await self.graph(), await self._connections.client()
        return [job_info(job) for job in await all_members(client.store, graph) if job.task] if graph else []

    async def tree(self) -> Tree:
        """Its jobs as they were put together, each with its state and what came of it."""
        graph, client = await self._known(), await self._connections.client()
        members = await all_members(client.store, graph)
        tree = make_tree(graph, members)
        await self._hang_adopted(tree, members)
        return tree

    async def mermaid(self) -> str:
        """A Mermaid flowchart of its jobs and what they wait for, coloured by state."""
        graph, client = await self._known(), await self._connections.client()
        return draw_mermaid(graph, await all_members(client.store, graph))

    async def dot(self) -> str:
        """The same for Graphviz."""
        graph, client = await self._known(), await self._connections.client()
        return draw_dot(graph, await all_members(client.store, graph))

    async def _hang_adopted(self, tree: Tree, members: Sequence[Job]) -> None:
        """Workflows that jobs of this one started and wait for, or were replaced by, hang below them."""
        adopting = dict(islice(((job.id, job.awaits) for job in members if job.awaits), MOST_ADOPTED))
        for node in list(tree.walk()) if adopting else ():
            if node.id not in adopting:
                continue
            adopted = Workflow[Any](self._connections, adopting[node.id])
            if await adopted.graph():
                node.children.append(await adopted.tree())

    async def _known(self) -> GraphInfo:
        graph = await self.graph()
        if graph is None:
            raise lost(self.id)
        return graph

    async def _change(self, change: Change) -> bool:
        client = await self._connections.client()
        reply = await client.store.change(change, [self.id])
        return bool(reply.changed)

    def __repr__(self) -> str:
        return f"<workflow {self.id}>"


def failure(finished: Finished, graph: GraphInfo | None) -> Exception:
    """The error that says what became of a workflow that did not succeed, and because of which job."""
    name = f" ({graph.name})" if graph and graph.name else ""
    what, reason = f"workflow {finished.id}{name}", finished.reason
    if finished.state is State.FAILED:
        error = read_error(finished.error) or ErrorInfo("", "")
        why = ": ".join(filter(None, [reason, error.type, error.message]))
        return JobFailed(
            f"{what} failed: {why}",
            error_type=error.type,
            error_message=error.message or reason,
            traceback=error.traceback,
        )
    if finished.state is State.CANCELLED:
        return JobCancelled(f"{what} was cancelled" + (f": {reason}" if reason else ""))
    return lost(finished.id)


def lost(id: str) -> JobLost:
    return JobLost(
        f"the store has no record of workflow {id}: it was never accepted, was deleted, or its retention has passed "
        "(see keep=)"
    )


class NoWorkflow(Workflow[R]):
    """Stands for the workflow of a group of nothing: it is over, and no store knows it."""

    __slots__ = ("_value",)

    def __init__(self, value: R) -> None:
        self._value, self.id = value, ""

    async def result(self, timeout: Duration | None = None) -> R:
        return self._value

    async def graph(self) -> GraphInfo | None:
        return GraphInfo(id="", name="group of nothing", state=State.SUCCEEDED, size=0, nodes=0)

    async def jobs(self) -> list[JobInfo]:
        return []

    async def tree(self) -> Tree:
        return Tree(kind="workflow", state=State.SUCCEEDED, name="group of nothing")

    async def mermaid(self) -> str:
        return draw_mermaid(await self._known(), [])

    async def dot(self) -> str:
        return draw_dot(await self._known(), [])

    async def _change(self, change: Change) -> bool:
        return False


def finished_workflow(value: R) -> Workflow[R]:
    """The handle of a work without a single call, and hence without an app to run it."""
    return NoWorkflow(value)


class SyncWorkflow(Generic[R]):
    """A workflow, for sync code. Every call goes through the process's portal thread; ``await`` works as well."""

    __slots__ = ("_workflow",)

    def __init__(self, workflow: Workflow[R]) -> None:
        self._workflow = workflow

    @property
    def id(self) -> str:
        return self._workflow.id

    def __await__(self) -> Generator[Any, None, R]:
        return self._workflow.__await__()

    def get(self, timeout: Duration | None = None) -> R:
        """Wait for the value; ResultTimeout when it does not come in time."""
        if asyncio._get_running_loop() is not None:
            raise ConfigError("workflow.get() would block the running event loop; write `await workflow` there")
        return portal.call(lambda: self._workflow.result(timeout))

    def info(self) -> WorkflowInfo | None:
        return portal.call(self._workflow.info)

    @property
    def state(self) -> State | None:
        return portal.call(self._workflow.state)

    def ready(self) -> bool:
        return portal.call(self._workflow.ready)

    def successful(self) -> bool:
        return portal.call(self._workflow.successful)

    def failed(self) -> bool:
        return portal.call(self._workflow.failed)

    def progress(self) -> WorkflowProgress:
        return portal.call(self._workflow.progress)

    def cancel(self, reason: str = "") -> bool:
        return portal.call(lambda: self._workflow.cancel(reason))

    def retry(self) -> bool:
        return portal.call(self._workflow.retry)

    def forget(self) -> bool:
        return portal.call(self._workflow.forget)

    def jobs(self) -> list[JobInfo]:
        return portal.call(self._workflow.jobs)

    def tree(self) -> Tree:
        return portal.call(self._workflow.tree)

    def mermaid(self) -> str:
        return portal.call(self._workflow.mermaid)

    def dot(self) -> str:
        return portal.call(self._workflow.dot)

    def __repr__(self) -> str:
        return repr(self._workflow)
