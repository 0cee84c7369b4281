"""What the end of one node means for the nodes behind it: edges are decided and reopened, nodes released or given up.

The rules are those of ``core.graph``, called literally. Each function touches one node and its edges, so none needs a
bound of its own; whatever goes further becomes a todo.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from windlass.core import lifecycle
from windlass.core.event import Group
from windlass.core.event import Row as EventRow
from windlass.core.graph import because, decide_edges, due_at, verdict
from windlass.core.job import State
from windlass.core.links import Edge, Inject, Out, Shape
from windlass.store.jobs import INLINE_MAX
from windlass.store.memory import endings, retention, states
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import GraphRow, NodeState, Row, event_row

GAVE_UP = (State.FAILED, State.CANCELLED)


class Step:
    """One step's work on todos: how much it may still touch, and what happened in it."""

    def __init__(self, hub: Hub, now: int) -> None:
        self.hub, self.now, self.left = hub, now, hub.work
        self.events: defaultdict[str, list[EventRow]] = defaultdict(list)

    def groups(self) -> list[Group]:
        """The events of the step. What was opened comes first: it may have ended in the same step."""
        kinds = sorted(self.events, key=lambda kind: kind != "enqueued")
        return [(kind, "", self.events[kind]) for kind in kinds]

    def ended(self, row: Row) -> None:
        """Note the event of a job that this step ended."""
        data: EventRow = [{"reason": row.reason}] if row.reason else []
        self.events[str(row.state)].append([*event_row(row), *data])


def place_of(row: Row) -> NodeState:
    """The node state of a row that is known to be in a graph."""
    assert row.links is not None
    return row.links


def graph_of(row: Row) -> GraphRow:
    """The graph of a row that is known to be in one."""
    graph = place_of(row).graph
    assert graph is not None
    return graph


def refuses(row: Row) -> bool:
    """Whether a job must not start because its graph was stopped."""
    place = row.links
    return place is not None and place.graph is not None and bool(place.graph.stopping) and not place.links.aftermath


def open_node(step: Step, row: Row) -> None:
    """Make a node of a committed graph a job of the store; decide it at once if it waits for nothing."""
    place, hub = place_of(row), step.hub
    place.opened = True
    graph_of(row).opened += 1
    if row.task:
        del hub.nodes[row.id]
        hub.jobs[row.id] = row
        hub.accepted += 1
        row.n, row.enqueued_at = hub.accepted, step.now
        hub.counts[row.queue][State.WAITING] += 1
        step.events["enqueued"].append(event_row(row))
        if row.expires:
            heapq.heappush(hub.expiring, (row.expires, row.n, row))
    if place.open == 0:
        decide(step, row)


# -- forwards: an end spreads


def spread(step: Step, row: Row) -> None:
    """Decide every out-edge of a node that ended. A node that was started again meanwhile is left alone."""
    place = place_of(row)
    step.left -= 1 + len(place.edges)
    if not row.state.terminal:
        return
    place.edges, news = decide_edges(place.links.outs, place.edges, row.state, row.reason == lifecycle.EXPIRED)
    graph, broke = graph_of(row), any(edge is Edge.BROKEN for _, edge in news)
    if broke and graph.new.fail_fast and row.task and row.state is State.FAILED and not place.links.aftermath:
        # Before any node behind it is decided, or the order of todos would say whether the workflow still succeeds.
        step.hub.stop(graph, "fail", because(row.task, row.id, row.state), row.id)
    for out, edge in news:
        meet(step, row, out, edge)


def meet(step: Step, source: Row, out: Out, edge: Edge) -> None:
    """Decide one edge: count it at its target, and decide the target if that was its last open edge."""
    target, graph = step.hub.known(out.target), graph_of(source)
    if target is None or target.links is None:
        return
    place = target.links
    if is_awaited(source, out):
        if target.state is State.WAITING and place.awaits == graph.new.id:
            come_back(step, target, source, edge)
        return
    if place.graph is not graph:
        return
    place.open -= 1
    if edge is Edge.BROKEN:
        place.broken += 1
        if target.state is State.WAITING:  # a target that does not wait is not given up because of this
            place.culprit = place.culprit or blame(source)
    hurry = out.hasty and source.state is not State.SUCCEEDED
    if hurry and not place.opened:
        open_node(step, target)  # when its own turn came, this edge would be forgotten
    if target.state is State.WAITING and place.opened and not place.awaits and (place.open == 0 or hurry):
        decide(step, target)


def is_awaited(source: Row, out: Out) -> bool:
    """Whether this edge leads from the end of a graph to the job that started the graph and belongs to another one."""
    graph = graph_of(source)
    return source is graph.end and out.target == graph.new.parent


def blame(source: Row) -> str:
    """The node at fault when this one breaks an edge. For the end of a workflow that failed fast that is the node that
    stopped it; of those it stopped, the first to end.
    """
    place = place_of(source)
    stopper = place.graph.culprit if place.graph is not None and source is place.graph.end else ""
    return stopper or place.culprit or source.id


def decide(step: Step, row: Row) -> None:
    """Decide a waiting node without an open edge: release it, end it if it is a join, or give it up."""
    place = place_of(row)
    stopped = graph_of(row).stopping if not place.links.aftermath else ""
    state = verdict(place.links.shape, place.broken, place.links.spare, stopped, row is graph_of(row).end)
    if state is not State.READY:
        give_up(step, row, state)
        return
    place.culprit = ""  # the node runs after all, so no other node is at fault
    if row.task:
        release(step, row)
    else:
        if place.links.shape is Shape.ONE:
            source = next((edge.source for edge in place.links.ins if edge.inject is not Inject.NONE), "")
            row.result = at_hand(step.hub.known(source))
        end_join(step, row, State.SUCCEEDED, "")


def release(step: Step, row: Row) -> None:
    place, hub, now = place_of(row), step.hub, step.now
    if refuses(row):  # its graph was stopped, and a worker may never claim it
        endings.finish(hub, row, State.CANCELLED, now, graph_of(row).reason)
        step.ended(row)
        return
    if place.expires_in:
        row.expires = now + place.expires_in
    due = due_at(place.at, place.delay, now)
    if due > now:
        states.make_scheduled(hub, row, due)
    else:
        states.make_ready(hub, row)


def come_back(step: Step, row: Row, end: Row, edge: Edge) -> None:
    """Move on a job whose awaited graph is over: it runs again, or takes the graph's end as its own."""
    place = place_of(row)
    if edge is Edge.BROKEN:
        place.culprit = blame(end)
        stopped = place.graph.stopping if place.graph is not None and not place.links.aftermath else ""
        give_up(step, row, verdict(Shape.ONE, 1, 0, stopped))
    elif place.replaced:
        row.result = at_hand(end)
        endings.finish(step.hub, row, State.SUCCEEDED, step.now)
        step.ended(row)
    elif refuses(row):
        endings.finish(step.hub, row, State.CANCELLED, step.now, graph_of(row).reason)
        step.ended(row)
    else:
        states.make_ready(step.hub, row)


def at_hand(source: Row | None) -> bytes | None:
    """The node's own value, if it is small enough to be handed on as it is."""
    if source is None or source.state is not State.SUCCEEDED or source.result is None:
        return None
    return source.result if len(source.result) <= INLINE_MAX else None


def give_up(step: Step, row: Row, state: State) -> None:
    """End a node that can never be met, and name the node at fault."""
    place = place_of(row)
    place.culprit = place.culprit or first_blame(step.hub, row)
    graph = place.graph if refuses(row) else None  # in a stopped graph every node names the graph's reason
    culprit = step.hub.known((graph.culprit if graph else "") or place.culprit)
    if graph is not None:
        reason = graph.reason
    elif culprit is not None:
        # A culprit in another graph may have started again meanwhile.
        how = culprit.state if culprit.state.terminal else State.FAILED
        reason = because(culprit.task, culprit.id, how, culprit.reason == lifecycle.EXPIRED)
    else:
        reason = because("job", place.culprit, State.FAILED)
    if state is State.FAILED and culprit is not None:
        row.error, row.fingerprint = culprit.error, culprit.fingerprint
    if row.task:
        blamed = place.culprit
        endings.finish(step.hub, row, state, step.now, reason)
        place.culprit = blamed
        step.ended(row)
    else:
        end_join(step, row, state, reason)


def first_blame(hub: Hub, row: Row) -> str:
    """The culprit that the first of a node's broken edges names. A source that is gone counts as failed."""
    for edge in place_of(row).links.ins:
        source = hub.known(edge.source)
        if source is None or source.links is None:
            return edge.source
        edges = zip(source.links.links.outs, source.links.edges, strict=True)
        if any(out.target == row.id and state is Edge.BROKEN for out, state in edges):
            return blame(source)
    return ""


def end_join(step: Step, row: Row, state: State, reason: str) -> None:
    """End a join. A join is in no queue and has no event; if it is the end of its graph, the workflow ends."""
    hub, graph = step.hub, graph_of(row)
    row.state, row.finished_at, row.reason = state, step.now, reason
    graph.stamp += 1
    if row.watchers:
        hub.tell(row.watchers, row.finished())
        row.watchers = None
    if place_of(row).links.outs:
        hub.todo("spread", graph, row)
    if row is graph.end:
        graph.finished_at = step.now
        data: EventRow = [{"reason": reason}] if reason else []
        step.events[f"workflow_{state}"].append([graph.new.id, graph.new.name, "", *data])
        retention.file_graph(hub, graph)


# -- backwards: a node starts again


def reopen(step: Step, row: Row) -> None:
    """A node starts again: open once more the edges its end broke, and bring back the nodes given up because of them.

    An edge it had met is opened too, if nothing has come of it: nodes that wait behind it, now or when retried, wait
    for it again.
    """
    place = place_of(row)
    step.left -= 1 + len(place.edges)
    for at, (out, edge) in enumerate(zip(place.links.outs, place.edges, strict=True)):
        if edge is Edge.BROKEN or (edge is Edge.MET and came_to_nothing(step.hub, out.target)):
            place.edges[at] = Edge.OPEN
            unmeet(step, row, out, edge)


def came_to_nothing(hub: Hub, id: str) -> bool:
    """Whether a node was never released, or its run ended badly and may be retried."""
    row = hub.known(id)
    return row is not None and row.state in (State.WAITING, State.FAILED, State.CANCELLED, State.SKIPPED)


def unmeet(step: Step, source: Row, out: Out, edge: Edge) -> None:
    target, graph = step.hub.known(out.target), graph_of(source)
    if target is None or target.links is None:
        return
    place = target.links
    if is_awaited(source, out):
        if place.awaits == graph.new.id and place.replaced and target.state in GAVE_UP:
            wait_again(step, target)
        return
    if place.graph is not graph:
        return
    place.open += 1
    if edge is not Edge.BROKEN:
        return
    place.broken -= 1
    place.culprit = ""  # the culprit may be the node that starts again; an edge that stays broken names its own
    if target.state is State.SKIPPED or (not target.task and target.state in GAVE_UP):
        wait_again(step, target)


def wait_again(step: Step, row: Row) -> None:
    """Let a node that was given up wait once more, in a new run; the nodes given up because of it follow."""
    hub, place = step.hub, place_of(row)
    graph = place.graph
    retention.unfile(hub, row)
    if graph is not None:
        graph.stamp += 1
        if row.task and not place.links.aftermath:
            graph.counts[row.state] -= 1
    row.run += 1
    row.finished_at = row.expires = row.rank = 0
    row.error, row.reason, row.fingerprint = None, "", ""
    if row.task:
        states.make_waiting(hub, row)
    else:
        row.state = State.WAITING
    if place.awaits:
        place.culprit = ""
    if graph is not None:
        if row is graph.end:
            graph.finished_at = 0
            plan_audit(hub, graph, step.now)
        if place.links.outs:
            hub.todo("reopen", graph, row)


def plan_audit(hub: Hub, graph: GraphRow, now: int) -> None:
    graph.audit_at, graph.looked = now + hub.settings.audit_every, 0
    heapq.heappush(hub.audits, (graph.audit_at, graph.n, graph))
