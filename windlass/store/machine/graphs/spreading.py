"""What one node's end means for the nodes behind it: edges are decided, nodes are released or given up, and what was
decided is opened again when a node starts again.

The rules are those of ``core.graph``. Each function touches one node and its edges; ``todos`` puts up what goes
further.
"""

from __future__ import annotations

from windlass.core.graph import because, decide_edges, due_at, verdict
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import Edge, Out, Shape
from windlass.store.machine.codes import CANCELLED, FAILED, READY, SCHEDULED, SKIPPED, SUCCEEDED, WAITING
from windlass.store.machine.graphs.inherited import InheritedError, InheritedValue
from windlass.store.machine.graphs.nodes import NONE_SUCH, GraphRow, NodeRow
from windlass.store.machine.graphs.retention import resume
from windlass.store.machine.graphs.workset import Workset
from windlass.store.shared import CODE, STATES

GAVE_UP = (FAILED, CANCELLED)


def stopping(workset: Workset, node: NodeRow) -> str:
    """How the node's graph was stopped (``cancel`` or ``fail``); '' if it was not, or if that does not concern the
    node."""
    graph = workset.graph(node)
    return "" if graph is None or node.aftermath else graph.stopping


def is_end(workset: Workset, node: NodeRow) -> bool:
    graph = workset.graph(node)
    return graph is not None and node.id == graph.id


def is_opened(workset: Workset, node: NodeRow) -> bool:
    graph = workset.graph(node)
    return bool(node.job) or graph is None or node.n - graph.n <= graph.opened


# -- forwards: an end spreads


def spread(workset: Workset, source: NodeRow) -> int:
    """Decide every open edge from a node that ended; how many nodes that touched. Nothing is to do for a node that was
    started again meanwhile."""
    outs = workset.outs_of(source)
    if not source.over:
        return 1
    state = STATES[source.state]
    edges, news = decide_edges(outs, source.read_edges(), state, source.reason == EXPIRED)
    if news:
        workset.change(source).write_edges(edges)
    graph = workset.graph(source)
    if graph is not None and graph.fail_fast and any(edge is Edge.BROKEN for _, edge in news) and _is_fatal(source):
        # Before anyone behind it is decided: else what came first would say whether the workflow still succeeds.
        workset.stop(graph, "fail", because(source.task, source.id, state), source.id)
    for out, edge in news:
        _meet(workset, source, out, edge)
    return 1 + len(outs)


def _is_fatal(source: NodeRow) -> bool:
    return source.state == FAILED and source.job > 0 and not source.aftermath


def _meet(workset: Workset, source: NodeRow, out: Out, edge: Edge) -> None:
    """One edge was decided: count it at its target, and decide the target if that was the last one."""
    target = workset.one(out.target)
    if target is None:
        return
    graph = workset.graph(source)
    if is_awaited(graph, source, out):
        if target.state == WAITING and target.awaits == source.id:
            come_back(workset, target, source, edge)
        return
    if target.graph != source.graph:
        return
    target.open -= 1
    if edge is Edge.BROKEN:
        target.broken += 1
        if target.state in (WAITING, NONE_SUCH):  # else it is not given up because of this
            target.culprit = target.culprit or blame(workset, source)
    workset.change(target)
    hurry = out.hasty and source.state != SUCCEEDED
    if hurry and target.state == NONE_SUCH:
        workset.hurried.append(target)
    elif target.state == WAITING and not target.awaits and (hurry or (target.open == 0 and is_opened(workset, target))):
        decide(workset, target)


def is_awaited(graph: GraphRow | None, source: NodeRow, out: Out) -> bool:
    """Whether this edge leads from the end of a graph to the job that started it, which is not of that graph."""
    return graph is not None and source.id == graph.id and out.target == graph.parent


def blame(workset: Workset, source: NodeRow) -> str:
    """Who is at fault when this one breaks an edge. For the end of a workflow that failed fast that is who stopped it,
    whoever of those it stopped came to the end first."""
    graph = workset.graph(source)
    stopper = graph.culprit if graph is not None and source.id == graph.id else ""
    return stopper or source.culprit or source.id


def decide(workset: Workset, node: NodeRow) -> None:
    """A waiting node has no open edge left: release it, let a join end, or give it up."""
    fate = verdict(Shape(node.shape), node.broken, node.spare, stopping(workset, node), is_end(workset, node))
    if fate is not State.READY:
        give_up(workset, node, CODE[fate])
        return
    if node.culprit:  # whoever it is was spared
        workset.change(node).culprit = ""
    if node.shape:
        value = workset.inherited.value(node.source) if node.shape == Shape.ONE and node.source else None
        end_join(workset, node, SUCCEEDED, "", value)
    else:
        release(workset, node)


def release(workset: Workset, node: NodeRow) -> None:
    """A job waits no more: it is ready, or scheduled for when it is due."""
    if _refused(workset, node):
        return
    now = workset.tx.now
    if node.expires_in:
        workset.expire_at(node, now + node.expires_in)
    due = due_at(node.at, node.delay, now)
    workset.move(node, *((SCHEDULED, due) if due > now else (READY, 0)))


def _refused(workset: Workset, node: NodeRow) -> bool:
    """Cancel a job that would start in a graph that was stopped, as nobody may ever come to claim it; whether that
    was so."""
    graph = workset.graph(node)
    if graph is None or not stopping(workset, node):
        return False
    workset.end(node, CANCELLED, graph.reason)
    return True


def come_back(workset: Workset, node: NodeRow, end: NodeRow, edge: Edge) -> None:
    """The graph a job waited for is over: the job runs again, or its end becomes the job's own."""
    if edge is Edge.BROKEN:
        workset.change(node).culprit = blame(workset, end)
        give_up(workset, node, CODE[verdict(Shape.ONE, 1, 0, stopping(workset, node))])
    elif node.replaced:
        workset.end(node, SUCCEEDED, "", value=workset.inherited.value(end.id))
    elif not _refused(workset, node):
        workset.move(node, READY)


def give_up(workset: Workset, node: NodeRow, state: int) -> None:
    """End a node that can never be met, and say whose fault it was."""
    if not node.culprit:
        workset.change(node).culprit = first_blame(workset, node)
    graph = workset.graph(node) if stopping(workset, node) else None
    culprit = workset.one((graph.culprit if graph else "") or node.culprit)
    if graph is not None:
        reason = graph.reason
    elif culprit is not None:
        # In another graph it may have started again meanwhile.
        how = STATES[culprit.state] if culprit.over else State.FAILED
        reason = because(culprit.task, culprit.id, how, culprit.reason == EXPIRED)
    else:
        reason = because("job", node.culprit, State.FAILED)
    error = workset.inherited.error(culprit.id) if culprit is not None and state == FAILED else None
    if node.shape:
        end_join(workset, node, state, reason, error=error)
    else:
        blamed = node.culprit
        workset.end(node, state, reason, error)
        workset.change(node).culprit = blamed


def first_blame(workset: Workset, node: NodeRow) -> str:
    """Whom the first of a node's broken edges blames. A source that is gone is blamed itself."""
    for edge in workset.ins_of(node):
        source = workset.one(edge.source)
        if source is None:
            return edge.source
        edges = zip(workset.outs_of(source), source.read_edges(), strict=True)
        if any(out.target == node.id and state is Edge.BROKEN for out, state in edges):
            return blame(workset, source)
    return ""


def end_join(
    workset: Workset,
    node: NodeRow,
    state: int,
    reason: str,
    value: InheritedValue | None = None,
    error: InheritedError | None = None,
) -> None:
    """A join ends. It is in no queue and has no event; the end of a graph ends the workflow."""
    workset.move_join(node, state, reason, value, error)
    graph = workset.graph(node)
    if graph is None:
        return
    workset.change_graph(graph)
    if node.id == graph.id:
        graph.state, graph.finished_at = state, workset.tx.now
        workset.event(f"workflow_{STATES[state]}", [graph.id, graph.name, ""], reason)
        workset.closing[graph.n] = graph


# -- backwards: a node starts again


def reopen(workset: Workset, source: NodeRow) -> int:
    """Open the edges again that a node broke when it ended, as it starts again; how many nodes that touched. Nodes that
    were given up because of these edges wait again.

    Edges that it met are opened as well if nothing came of them: the node behind such an edge, now or when it is
    retried, waits for this one too.
    """
    outs = workset.outs_of(source)
    edges = source.read_edges()
    for at, out in enumerate(outs):
        if edges[at] is Edge.BROKEN or (edges[at] is Edge.MET and _came_to_nothing(workset, out)):
            before, edges[at] = edges[at], Edge.OPEN
            _unmeet(workset, source, out, before)
    if outs:
        workset.change(source).write_edges(edges)
    return 1 + len(outs)


def _came_to_nothing(workset: Workset, out: Out) -> bool:
    """Whether the node behind an edge was not released, or its run ended badly and may be retried."""
    target = workset.one(out.target)
    return target is not None and target.state in (NONE_SUCH, WAITING, FAILED, CANCELLED, SKIPPED)


def _unmeet(workset: Workset, source: NodeRow, out: Out, before: Edge) -> None:
    target = workset.one(out.target)
    if target is None:
        return
    if is_awaited(workset.graph(source), source, out):
        if target.awaits == source.id and target.replaced and target.state in GAVE_UP:
            wait_again(workset, target)
        return
    if target.graph != source.graph:
        return
    workset.change(target).open += 1
    if before is not Edge.BROKEN:
        return
    target.broken -= 1
    target.culprit = ""  # it may be the very one that starts again; if another edge stays broken, that names it
    if target.state == SKIPPED or (target.shape and target.state in GAVE_UP):
        wait_again(workset, target)


def wait_again(workset: Workset, node: NodeRow) -> None:
    """A node that was given up waits once more, in a new run; what was given up because of it follows."""
    if node.awaits:
        workset.change(node).culprit = ""
    if node.shape:
        node.run += 1
        workset.move_join(node, WAITING, "")
        graph = workset.graph(node)
        if graph is not None:
            workset.change_graph(graph)
            if node.id == graph.id:
                resume(workset, graph)
    else:
        workset.count(node, -1)
        workset.again(node)
        workset.move(node, WAITING)
    workset.reopened.append(node)
