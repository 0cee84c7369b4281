"""Audits of graphs. A graph that has not ended and that nothing will move is a bug or a loss of data: an audit finds
and repairs it.
"""

from __future__ import annotations

import heapq

from windlass.core import lifecycle
from windlass.core.graph import decided, place_of_edge
from windlass.core.job import State
from windlass.core.links import Edge, In
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import GraphRow, Phase, Row
from windlass.store.memory.spreading import (
    Step,
    blame,
    come_back,
    decide,
    give_up,
    graph_of,
    open_node,
    place_of,
    plan_audit,
)

LIVE = (State.SCHEDULED, State.READY, State.RUNNING)


def drop_stale(hub: Hub, now: int) -> None:
    """Drop the graphs that were staged and never committed."""
    for graph in list(hub.staging.values()):
        if graph.touched_at + hub.settings.staged_for <= now:
            hub.drop(graph)


def audit(hub: Hub, now: int, limit: int) -> list[str]:
    """Look at the graphs whose turn it is, at ``limit`` members in all. Answers how many repairs were put up
    as todos.
    """
    broken: list[str] = []
    while limit > 0 and (graph := next_audit(hub)) is not None and graph.audit_at <= now:
        heapq.heappop(hub.audits)
        if graph.looked == 0:
            graph.looked_stamp = graph.stamp
        looked = look(hub, graph, limit)
        limit -= max(looked, 1)
        if looked and graph.looked < len(graph.members):
            # This page of members had no sign of life; the next page may have one.
            heapq.heappush(hub.audits, (graph.audit_at, graph.n, graph))
            continue
        if looked and graph.stamp == graph.looked_stamp:
            hub.todo("repair", graph)
            broken.append(graph.new.id)
        plan_audit(hub, graph, now)
    return broken


def look(hub: Hub, graph: GraphRow, limit: int) -> int:
    """How many members were looked at without a sign of life; 0 when something will move this graph on."""
    if graph.todos:
        return 0
    ids = graph.members[graph.looked : graph.looked + limit]
    graph.looked += len(ids)
    return 0 if any(is_alive(hub, hub.known(id)) for id in ids) else len(ids)


def is_alive(hub: Hub, row: Row | None) -> bool:
    if row is None or row.links is None or row.links.links.aftermath:
        return False
    awaited = hub.graphs.get(row.links.awaits) if row.state is State.WAITING else None
    if awaited is not None:
        return awaited.under_way or awaited.todos > 0
    return row.state in LIVE


def next_audit(hub: Hub) -> GraphRow | None:
    """The graph to look at next. The heap keeps entries of graphs that have ended; they are skipped here."""
    while hub.audits:
        when, _, graph = hub.audits[0]
        if graph.under_way and graph.audit_at == when:
            return graph
        heapq.heappop(hub.audits)
    return None


def next_check(hub: Hub) -> list[int]:
    """The instants at which graphs need a sweep."""
    times = [graph.touched_at + hub.settings.staged_for for graph in hub.staging.values()]
    graph = next_audit(hub)
    return [*times, graph.audit_at] if graph is not None else times


def repair(step: Step, graph: GraphRow, row: Row) -> None:
    """Count a waiting node's edges anew from the records of its sources, and decide the node."""
    place = place_of(row)
    if graph.phase is not Phase.REAL or row.state is not State.WAITING:
        return
    if not place.opened:
        open_node(step, row)
        return
    if place.awaits:
        repair_awaiting(step, row)
        return
    place.open = place.broken = 0
    place.culprit = ""
    for at, edge in enumerate(place.links.ins):
        found = edge_state(step.hub, row, edge, at)
        place.open += found is Edge.OPEN
        if found is Edge.BROKEN:
            place.broken += 1
            source = step.hub.known(edge.source)
            place.culprit = place.culprit or (edge.source if source is None else blame(source))
    if place.open == 0:
        decide(step, row)


def edge_state(hub: Hub, target: Row, edge: In, at: int) -> Edge:
    """What the record of the source says of this edge. A source that is gone counts as failed."""
    source = hub.known(edge.source)
    if source is None or source.links is None or source.links.graph is not graph_of(target):
        return decided(edge.on, State.FAILED)
    mine = place_of_edge(place_of(target).links.ins, at, source.links.links.outs, target.id)
    if mine is None:
        return decided(edge.on, State.FAILED)
    if source.links.edges[mine] is Edge.OPEN and source.state.terminal:
        source.links.edges[mine] = decided(edge.on, source.state, source.reason == lifecycle.EXPIRED)
    return source.links.edges[mine]


def repair_awaiting(step: Step, row: Row) -> None:
    """Move on a job whose awaited graph has ended or is gone."""
    place = place_of(row)
    awaited = step.hub.graphs.get(place.awaits)
    if awaited is not None and awaited.under_way:
        return
    if awaited is None or awaited.end is None:
        place.culprit = place.awaits
        give_up(step, row, State.FAILED)
        return
    links = place_of(awaited.end)
    for at, out in enumerate(links.links.outs):
        if out.target == row.id:
            links.edges[at] = decided(out.on, awaited.end.state)
            come_back(step, row, awaited.end, links.edges[at])
