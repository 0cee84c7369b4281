"""How graphs are read: workflows, their members, and the values that lead to a node."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.graph import GraphInfo, Input, gone
from windlass.core.job import Claim, Job, State
from windlass.core.links import In, Inject, Shape
from windlass.store.answers import MAX_BATCH
from windlass.store.graphs import GraphPage
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import GraphRow, Row
from windlass.store.memory.spreading import at_hand, place_of


def info(graph: GraphRow) -> GraphInfo:
    new, end = graph.new, graph.end
    assert end is not None
    place = place_of(end)
    return GraphInfo(
        id=new.id, name=new.name, state=end.state, size=new.size, nodes=new.nodes,
        counts={str(state): count for state, count in graph.counts.items() if count},
        reason=end.reason or graph.reason, culprit=graph.culprit if graph.stopping else place.culprit,
        parent=new.parent, stopping=graph.stopping, meta=new.meta, created_at=graph.created_at,
        finished_at=graph.finished_at,
    )  # fmt: skip


def graphs(hub: Hub, states: Sequence[State], after: str, limit: int) -> GraphPage:
    """A page of workflows, newest first."""
    page = GraphPage([], "")
    for graph in reversed(hub.graphs.values()):
        if after and graph.n >= int(after):
            continue
        if len(page.graphs) == min(limit, MAX_BATCH):
            return page
        if graph.end is not None and (not states or graph.end.state in states):
            page.graphs.append(info(graph))
            page.cursor = str(graph.n)
    page.cursor = ""
    return page


def members(hub: Hub, graph: GraphRow | None, after: int, limit: int) -> list[Job]:
    """The members with the numbers from ``after`` + 1 on, ``limit`` numbers in all; members gone meanwhile are left
    out.
    """
    ids = graph.members[after + 1 : after + 1 + min(limit, MAX_BATCH)] if graph is not None else []
    rows = [hub.known(id) for id in ids]
    return [row.job() for row in rows if row is not None and row.links is not None and row.links.graph is graph]


def inputs(hub: Hub, id: str) -> list[Input]:
    """The sources that carry a value to a node. A replaced job has one source: the graph that took its place."""
    row = hub.known(id)
    if row is None or row.links is None:
        return []
    if row.links.replaced:
        return [an_input(hub, In(row.links.awaits))]
    return [an_input(hub, edge) for edge in row.links.links.ins if edge.inject is not Inject.NONE]


def an_input(hub: Hub, edge: In) -> Input:
    source = hub.known(edge.source)
    if source is None or source.links is None:
        return gone(edge)
    shape = Shape.ONE if source.links.replaced else source.links.links.shape
    return Input(
        source.id, source.task, source.state, edge.inject, shape, source.result, source.error, source.reason
    )  # fmt: skip


def claim(hub: Hub, row: Row) -> Claim:
    """A claim with the value its graph brings to it."""
    claim = row.claim()
    if (place := row.links) is not None:
        claim.graph = place.graph.new.id if place.graph is not None else ""
        claim.awaits = place.awaits
        edge = next((edge for edge in place.links.ins if edge.inject is not Inject.NONE), None)
        if edge is not None:
            claim.source, claim.inject, claim.given = edge.source, edge.inject, at_hand(hub.known(edge.source))
    return claim
