"""What one node's end means for those behind it: edges are decided, nodes released or given up, and opened again.

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
from windlass.store.memory import retention
from windlass.store.memory.hub import Hub
from windlass.store.memory.nodes import GraphRow, NodeState
from windlass.store.memory.records import Row, event_row

GAVE_UP = (State.FAILED, State.CANCELLED)


class Step:
    """One step's work on todos: what it may still touch, and what happened."""

    def __init__(self, hub: Hub, now: int) -> None:
        self.hub, self.now, self.left = hub, now, hub.work
        self.events: defaultdict[str, list[EventRow]] = defaultdict(list)

    def groups(self) -> list[Group]:
        """What was opened comes first: it may have ended in the same step."""
        kinds = sorted(self.events, key=lambda kind: kind != "enqueued")
        return [(kind, "", self.events[kind]) for kind in kinds]

    def ended(self, row: Row) -> None:
        """The event of a job that was ended here."""
        data: EventRow = [{"reason": row.reason}] if row.reason else []
        self.events[str(row.state)].append([*event_row(row), *data])


def place_of(row: Row) -> NodeState:
    assert row.links is not None
    return row.links


def graph_of(row: Row) -> GraphRow:
    graph = place_of(row).graph
    assert graph is not None
    return graph


def refuses(row: Row) -> bool:
    """Whether a job must not start because its graph was stopped."""
    place = row.links
    return place is not None and place.graph is not None and bool(place.graph.stopping) and not place.links.aftermath


def open_node(step: Step, row: Row) -> None:
    """A node of a committed graph takes its place in the store; one that waits for nothing is decided at once."""
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
    """Decide every out-edge of a node that ended. If it was started again meanwhile, there is nothing to do."""
    place = place_of(row)
    step.left -= 1 + len(place.edges)
    if not row.state.terminal:
        return
    place.edges, news = decide_edges(place.links.outs, place.edges, row.state, row.reason == lifecycle.EXPIRED)
    graph, broke = graph_of(row), any(edge is Edge.BROKEN for _, edge in news)
    if broke and graph.new.fail_fast and row.task and row.state is State.FAILED and not place.links.aftermath:
        # Before anyone behind it is decided: else what came first would say whether the workflow still succeeds.
        step.hub.stop(graph, "fail", because(row.task, row.id, row.state), row.id)
    for out, edge in news:
        meet(step, row, out, edge)


def meet(step: Step, source: Row, out: Out, edge: Edge) -> None:
    """One edge was decided: count it at its target, and decide the target if that was the last one."""
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
        if target.state is State.WAITING:  # else it is not given up because of this
            place.culprit = place.culprit or blame(source)
    hurry = out.hasty and source.state is not State.SUCCEEDED
    if hurry and not place.opened:
        open_node(step, target)  # at its turn nobody would know any more that it need not wait
    if target.state is State.WAITING and place.opened and not place.awaits and (place.open == 0 or hurry):
        decide(step, target)


def is_awaited(source: Row, out: Out) -> bool:
    """Whether this edge leads from the end of a graph to the job that started it, which is not of that graph."""
    graph = graph_of(source)
    return source is graph.end and out.target == graph.new.parent


def blame(source: Row) -> str:
    """Who is at fault when this one breaks an edge. For the end of a workflow that failed fast that is who stopped it,
    whoever of those it stopped came to the end first."""
    place = place_of(source)
    stopper = place.graph.culprit if place.graph is not None and source is place.graph.end else ""
    return stopper or place.culprit or source.id


def decide(step: Step, row: Row) -> None:
    """A waiting node has no open edge left: release it, let a join end, or give it up."""
    place = place_of(row)
    stopped = graph_of(row).stopping if not place.links.aftermath else ""
    state = verdict(place.links.shape, place.broken, place.links.spare, stopped, row is graph_of(row).end)
    if state is not State.READY:
        give_up(step, row, state)
        return
    place.culprit = ""  # whoever it was, he was spared
    if row.task:
        release(step, row)
    else:
        if place.links.shape is Shape.ONE:
            source = next((edge.source for edge in place.links.ins if edge.inject is not Inject.NONE), "")
            row.result = at_hand(step.hub.known(source))
        end_join(step, row, State.SUCCEEDED, "")


def release(step: Step, row: Row) -> None:
    place, hub, now = place_of(row), step.hub, step.now
    if refuses(row):  # nobody may ever come to claim it
        hub.finish(row, State.CANCELLED, now, graph_of(row).reason)
        step.ended(row)
        return
    if place.expires_in:
        row.expires = now + place.expires_in
    due = due_at(place.at, place.delay, now)
    if due > now:
        hub.make_scheduled(row, due)
    else:
        hub.make_ready(row)


def come_back(step: Step, row: Row, end: Row, edge: Edge) -> None:
    """The graph a job waited for is over: the job runs again, or its end becomes the job's own."""
    place = place_of(row)
    if edge is Edge.BROKEN:
        place.culprit = blame(end)
        stopped = place.graph.stopping if place.graph is not None and not place.links.aftermath else ""
        give_up(step, row, verdict(Shape.ONE, 1, 0, stopped))
    elif place.replaced:
        row.result = at_hand(end)
        step.hub.finish(row, State.SUCCEEDED, step.now)
        step.ended(row)
    elif refuses(row):
        step.hub.finish(row, State.CANCELLED, step.now, graph_of(row).reason)
        step.ended(row)
    else:
        step.hub.make_ready(row)


def at_hand(source: Row | None) -> bytes | None:
    """A value small enough to be handed on as it is."""
    if source is None or source.state is not State.SUCCEEDED or source.result is None:
        return None
    return source.result if len(source.result) <= INLINE_MAX else None


def give_up(step: Step, row: Row, state: State) -> None:
    """End a node that can never be met, and say whose fault it was."""
    place = place_of(row)
    place.culprit = place.culprit or first_blame(step.hub, row)
    graph = place.graph if refuses(row) else None  # stopped: everything names the graph's own reason
    culprit = step.hub.known((graph.culprit if graph else "") or place.culprit)
    if graph is not None:
        reason = graph.reason
    elif culprit is not None:
        # In another graph it may have started again meanwhile.
        how = culprit.state if culprit.state.terminal else State.FAILED
        reason = because(culprit.task, culprit.id, how, culprit.reason == lifecycle.EXPIRED)
    else:
        reason = because("job", place.culprit, State.FAILED)
    if state is State.FAILED and culprit is not None:
        row.error, row.fingerprint = culprit.error, culprit.fingerprint
    if row.task:
        blamed = place.culprit
        step.hub.finish(row, state, step.now, reason)
        place.culprit = blamed
        step.ended(row)
    else:
        end_join(step, row, state, reason)


def first_blame(hub: Hub, row: Row) -> str:
    """Whom the first of a node's broken edges blames. A source that is gone counts as failed."""
    for edge in place_of(row).links.ins:
        source = hub.known(edge.source)
        if source is None or source.links is None:
            return edge.source
        edges = zip(source.links.links.outs, source.links.edges, strict=True)
        if any(out.target == row.id and state is Edge.BROKEN for out, state in edges):
            return blame(source)
    return ""


def end_join(step: Step, row: Row, state: State, reason: str) -> None:
    """A join ends. It is in no queue and has no event; the end of a graph ends the workflow."""
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
    """A node starts again: the edges its end broke are open once more, and so is what was given up because of them.

    So is an edge it had met, if nothing has come of it: whoever waits behind it, now or when retried, waits for it too.
    """
    place = place_of(row)
    step.left -= 1 + len(place.edges)
    for at, (out, edge) in enumerate(zip(place.links.outs, place.edges, strict=True)):
        if edge is Edge.BROKEN or (edge is Edge.MET and came_to_nothing(step.hub, out.target)):
            place.edges[at] = Edge.OPEN
            unmeet(step, row, out, edge)


def came_to_nothing(hub: Hub, id: str) -> bool:
    """Whether a node was not released, or its run ended badly and may be retried."""
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
    place.culprit = ""  # it may be the very one that starts again; if another edge stays broken, that names it
    if target.state is State.SKIPPED or (not target.task and target.state in GAVE_UP):
        wait_again(step, target)


def wait_again(step: Step, row: Row) -> None:
    """What was given up waits once more, in a new run; what it gave up in turn follows."""
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
        hub.make_waiting(row)
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
