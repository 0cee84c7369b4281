"""Workflows as they are read: lists, and one with its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from windlass.console import show
from windlass.console.desk import Desk, now_ms, page_size
from windlass.console.search import check_cursor
from windlass.console.waterfall import waterfall
from windlass.console.workflow_layout import lay_out
from windlass.console.workflow_replies import Group, WorkflowDetail, WorkflowList, WorkflowRow
from windlass.core.graph import GraphInfo
from windlass.core.job import Job, State
from windlass.core.option_parsers import parse_states
from windlass.errors import NotFound
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.workflows.picture import Drawn, Folding, drawing
from windlass.workflows.workflow import shown_state

MOST_READ = 10_000
"""Members of one workflow that are read for its picture."""

FOLDED, MOST_OPEN = 8, 100
"""So many jobs alike are drawn as one; unfolded, so many of them are drawn."""

SCOPE_READ = 200
"""Members of each workflow in a list that are looked at to see whether it may be seen."""


async def workflow_list(desk: Desk, state: str, after: str, limit: int) -> WorkflowList:
    desk.need("read")
    states = parse_states([name for name in state.split(",") if name])
    kept = tuple(dict.fromkeys(one if one.terminal else State.WAITING for one in states))
    store = await desk.store()
    page = await store.graphs(kept, check_cursor(after), page_size(limit, 50 if desk.scoped else 200))
    seen = [graph for graph in page.graphs if not desk.scoped or await in_scope(desk, store, graph, SCOPE_READ)]
    return WorkflowList(workflows=[workflow_row(graph) for graph in seen], cursor=page.cursor)


def workflow_row(graph: GraphInfo) -> WorkflowRow:
    return WorkflowRow(
        id=graph.id, name=show.one_line(graph.name), state=str(shown_state(graph.state)),
        reason=show.one_line(graph.reason), total=graph.size, done=sum(graph.counts.values()), counts=graph.counts,
        parent=graph.parent, culprit=graph.culprit, created_at=graph.created_at, finished_at=graph.finished_at,
    )  # fmt: skip


async def in_scope(desk: Desk, store: Store, graph: GraphInfo, most: int) -> bool:
    """Whether the user sees the queues of all jobs of a workflow, and so the workflow."""
    for first in range(0, min(graph.nodes, most), MAX_BATCH):
        members = await store.members(graph.id, first - 1, min(most - first, MAX_BATCH))
        if not all(desk.access.sees(job.queue) for job in members if job.task):
            return False
    return True


async def graph_of(desk: Desk, id: str) -> GraphInfo:
    """A workflow the user may see."""
    desk.need("read")
    store = await desk.store()
    graph = await store.graph(id)
    if graph is None or (desk.scoped and not await in_scope(desk, store, graph, graph.nodes)):
        raise NotFound(f"there is no workflow {id!r}: it was never accepted, was deleted, or its retention has passed")
    return graph


async def one_workflow(desk: Desk, id: str, open: Collection[str] = ()) -> WorkflowDetail:
    """One workflow. ``open``: the groups drawn job by job; every other group of ``FOLDED`` jobs or more is one box."""
    graph, store = await graph_of(desk, id), await desk.store()
    members: list[Job] = []
    for first in range(0, min(graph.nodes, MOST_READ), MAX_BATCH):
        members += await store.members(graph.id, first - 1)
    now, culprit = now_ms(), graph.culprit
    folding = Folding(0, FOLDED - 1, frozenset(open), MOST_OPEN, culprit)
    drawn = drawing(members, folding)
    picture = lay_out(drawn, now, desk.values, culprit)
    bars, cut_bars = waterfall(drawn, [one.group for one in drawn], now, culprit)
    actions = ["cancel"] if not graph.state.terminal and desk.access.may("cancel") else []
    actions += ["retry"] if graph.state in (State.FAILED, State.CANCELLED) and desk.access.may("retry") else []
    unread = max(graph.nodes - MOST_READ, 0)
    return WorkflowDetail(
        row=workflow_row(graph), nodes=picture.nodes, lines=picture.lines, width=picture.width, height=picture.height,
        cut=picture.cut + unread, groups=groups_of(drawn, folding), bars=bars, cut_bars=cut_bars,
        began=graph.created_at, ended=graph.finished_at or now, actions=tuple(actions),
    )  # fmt: skip


def groups_of(drawn: Sequence[Drawn], folding: Folding) -> list[Group]:
    """The groups that are folded, and those that the user has unfolded."""
    found: dict[str, list[Job]] = {}
    for one in drawn:
        if one.group:
            found.setdefault(one.group, []).extend(one.jobs)
    return [
        Group(
            key=key, label=show.one_line(jobs[0].task), count=len(jobs), open=key in folding.open,
            states={str(state): count for state, count in Counter(job.state for job in jobs).most_common()},
        )
        for key, jobs in found.items()
    ]  # fmt: skip
