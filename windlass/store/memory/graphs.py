"""Graphs as wholes: staged, committed, adopted, and changed by their id.

What a change means for the nodes is put up as ``todos``; what one node means for the next is ruled in ``spreading``.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.event import Group
from windlass.core.graph import NewGraph, unfit
from windlass.core.job import NewJob, State
from windlass.core.lifecycle import Transition
from windlass.store.answers import Accept, GraphAnswer
from windlass.store.jobs import Action, Change
from windlass.store.memory import retention, states
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import GraphRow, NodeState, Phase, Row
from windlass.store.memory.spreading import Step, first_blame, graph_of, plan_audit, refuses, wait_again
from windlass.store.memory.todos import let_go, work_off
from windlass.store.shared import ALLOWED_ON_GRAPHS

# -- coming in


def insert_graph(hub: Hub, new: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool, now: int) -> GraphAnswer:
    graph = hub.graphs.get(new.id) or hub.staging.get(new.id)
    if graph is None:
        if first > 0:
            return GraphAnswer(Accept.REFUSED, "nothing of it is staged")
        graph = hub.staging[new.id] = GraphRow(new, now)
    staged = len(graph.members)
    if graph.new.digest != new.digest:
        return GraphAnswer(Accept.CONFLICT, f"workflow {new.id!r} exists with other contents", staged)
    if graph.phase is Phase.REAL:
        hub.record(now, work_off(hub, now))
        return GraphAnswer(Accept.DUPLICATE, "", staged, graph.opened < new.nodes)
    if first > staged:
        return GraphAnswer(Accept.REFUSED, f"the nodes from {staged} on are missing", staged)
    graph.touched_at = now
    for node in nodes[staged - first :]:
        if (fault := stage(hub, graph, node, now)) is not None:
            hub.drop(graph)
            hub.record(now, work_off(hub, now))
            return fault
    if not commit:
        return GraphAnswer(Accept.ACCEPTED, "", len(graph.members))
    if not is_whole(graph):
        return GraphAnswer(Accept.REFUSED, "nodes are missing", len(graph.members))
    hub.record(now, [make_real(hub, graph, now), *work_off(hub, now)])
    return GraphAnswer(Accept.ACCEPTED, "", new.nodes, graph.opened < new.nodes)


def stage(hub: Hub, graph: GraphRow, node: NewJob, now: int) -> GraphAnswer | None:
    """Store one node where no reader sees it. Answers the reason if that cannot be."""
    held = hub.nodes.get(node.id)
    if node.id in hub.jobs or (held is not None and graph_of(held).phase is not Phase.DROPPED):
        return GraphAnswer(Accept.CONFLICT, f"the id {node.id!r} is taken")
    if reason := unfit(node.id, node.links):
        return GraphAnswer(Accept.REFUSED, reason)
    if len(graph.members) == graph.new.nodes:
        return GraphAnswer(Accept.REFUSED, f"more than {graph.new.nodes} nodes")
    row = hub.nodes[node.id] = Row(node, 0, now)
    row.due, row.expires = 0, node.expires_at
    row.links = NodeState(graph, node)
    graph.members.append(node.id)
    if node.id == graph.new.id:
        graph.end = row
    return None


def is_whole(graph: GraphRow | None) -> bool:
    return graph is not None and graph.end is not None and len(graph.members) == graph.new.nodes


def make_real(hub: Hub, graph: GraphRow, now: int) -> Group:
    """Commit a staged graph, in one write. Answers its event."""
    hub.committed += 1
    graph.phase, graph.n, graph.created_at = Phase.REAL, hub.committed, now
    del hub.staging[graph.new.id]
    hub.graphs[graph.new.id] = graph
    hub.todo("open", graph)
    plan_audit(hub, graph, now)
    return ("workflow_started", "", [[graph.new.id, graph.new.name, ""]])


def can_adopt(hub: Hub, row: Row, move: Transition) -> bool:
    """Whether the graph this job wants to wait for is staged. A job that is to be cancelled needs no graph any more."""
    graph = hub.staging.get(move.adopt)
    return row.cancel or (graph is not None and is_whole(graph) and graph.new.parent == row.id)


def adopt(hub: Hub, row: Row, move: Transition, now: int) -> Group:
    """Let the job wait for a graph, which becomes real in the same write. Answers the graph's event."""
    if row.links is None:
        row.links = NodeState(None)
    let_go(hub, row)
    row.links.awaits, row.links.replaced = move.adopt, move.replaced
    states.make_waiting(hub, row)
    return make_real(hub, hub.staging[move.adopt], now)


# -- changes


def change_graph(hub: Hub, graph: GraphRow, change: Change, now: int) -> str | None:
    """Apply an action to a graph by its id. Answers the reason if that cannot be."""
    assert graph.end is not None
    state = graph.end.state
    if state not in ALLOWED_ON_GRAPHS.get(change.action, ()):
        return str(state)
    if change.action is Action.CANCEL:
        hub.stop(graph, "cancel", change.reason or "cancelled")
    elif change.action is Action.RETRY:
        retry_all(hub, graph, now)
    else:
        retention.unfile(hub, graph.end)
        hub.drop(graph)
    return None


def retry_all(hub: Hub, graph: GraphRow, now: int) -> None:
    """Start the nodes that ended badly again. The graph's end waits from this step on, so that no caller is told the
    old verdict.
    """
    graph.stopping = graph.reason = graph.culprit = ""
    hub.todo("retry", graph)
    if graph.end is not None and graph.end.state.terminal:
        wait_again(Step(hub, now), graph.end)


def change_member(hub: Hub, row: Row, action: Action) -> str | None:
    """The reason why a member's graph forbids an action that the member's own state allows; mostly there is none."""
    place = row.links
    if place is None or place.graph is None:
        return None
    if action is Action.RETRY and row.state is State.SKIPPED:
        return f"skipped; retry {place.culprit} instead"
    lacks = place.open == 0 and place.broken > place.links.spare
    if action is Action.RETRY and lacks and not refuses(row):
        return f"{row.state}; retry {first_blame(hub, row)} instead"
    # While todos are left, the graph may be under way again in a moment and wait for this member.
    if action is Action.DELETE and (place.graph.under_way or (place.graph.todos and place.graph.phase is Phase.REAL)):
        return "its workflow is under way"
    return None
