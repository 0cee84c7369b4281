"""What one node's end means for those behind it: edges are decided, nodes released or given up, and opened again.

The rules are those of ``core.graph``. Each function touches one node and its edges; what goes further is put up as a
todo by whoever works these off (``todos``).
"""

from __future__ import annotations

from windlass.core.graph import because, decided, verdict
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import Edge, Out, Shape
from windlass.store.machine.codes import CANCELLED, FAILED, READY, SCHEDULED, SKIPPED, SUCCEEDED, WAITING
from windlass.store.machine.graphs.handed import Fault, Value
from windlass.store.machine.graphs.nodes import NONE_SUCH, Graph, Node
from windlass.store.machine.graphs.retention import resume
from windlass.store.machine.graphs.web import Web
from windlass.store.shared import CODE, STATES

GAVE_UP = (FAILED, CANCELLED)


def stopping(web: Web, node: Node) -> str:
    """By what the node's graph was stopped, if that concerns the node."""
    graph = web.graph(node)
    return "" if graph is None or node.aftermath else graph.stopping


def is_end(web: Web, node: Node) -> bool:
    graph = web.graph(node)
    return graph is not None and node.id == graph.id


def is_opened(web: Web, node: Node) -> bool:
    graph = web.graph(node)
    return bool(node.job) or graph is None or node.n - graph.n <= graph.opened


# -- forwards: an end spreads


def spread(web: Web, source: Node) -> int:
    """Decide every open edge from a node that ended; how many nodes that touched. If it was started again meanwhile,
    there is nothing to do."""
    outs = web.outs_of(source)
    if not source.over:
        return 1
    edges = [Edge(int(digit)) for digit in source.edges]
    state, expired, news = STATES[source.state], source.reason == EXPIRED, []
    for at, out in enumerate(outs):
        if edges[at] is Edge.OPEN:
            edges[at] = decided(out.on, state, expired)
            news.append((out, edges[at]))
    if news:
        web.change(source).edges = "".join(str(int(edge)) for edge in edges)
    graph = web.graph(source)
    if graph is not None and graph.fail_fast and any(edge is Edge.BROKEN for _, edge in news) and _is_fatal(source):
        # Before anyone behind it is decided: else what came first would say whether the workflow still succeeds.
        web.stop(graph, "fail", because(source.task, source.id, state), source.id)
    for out, edge in news:
        _meet(web, source, out, edge)
    return 1 + len(outs)


def _is_fatal(source: Node) -> bool:
    return source.state == FAILED and source.job > 0 and not source.aftermath


def _meet(web: Web, source: Node, out: Out, edge: Edge) -> None:
    """One edge was decided: count it at its target, and decide the target if that was the last one."""
    target = web.one(out.target)
    if target is None:
        return
    graph = web.graph(source)
    if is_awaited(graph, source, out):
        if target.state == WAITING and target.awaits == source.id:
            come_back(web, target, source, edge)
        return
    if target.graph != source.graph:
        return
    target.open -= 1
    if edge is Edge.BROKEN:
        target.broken += 1
        if target.state in (WAITING, NONE_SUCH):  # else it is not given up because of this
            target.culprit = target.culprit or blame(web, source)
    web.change(target)
    hurry = out.hasty and source.state != SUCCEEDED
    if hurry and target.state == NONE_SUCH:
        web.hurried.append(target)
    elif target.state == WAITING and not target.awaits and (hurry or (target.open == 0 and is_opened(web, target))):
        decide(web, target)


def is_awaited(graph: Graph | None, source: Node, out: Out) -> bool:
    """Whether this edge leads from the end of a graph to the job that started it, which is not of that graph."""
    return graph is not None and source.id == graph.id and out.target == graph.parent


def blame(web: Web, source: Node) -> str:
    """Who is at fault when this one breaks an edge. For the end of a workflow that failed fast that is who stopped it,
    whoever of those it stopped came to the end first."""
    graph = web.graph(source)
    stopper = graph.culprit if graph is not None and source.id == graph.id else ""
    return stopper or source.culprit or source.id


def decide(web: Web, node: Node) -> None:
    """A waiting node has no open edge left: release it, let a join end, or give it up."""
    fate = verdict(Shape(node.shape), node.broken, node.spare, stopping(web, node), is_end(web, node))
    if fate is not State.READY:
        give_up(web, node, CODE[fate])
        return
    if node.culprit:  # whoever it is was spared
        web.change(node).culprit = ""
    if node.shape:
        value = web.handed.value(node.source) if node.shape == Shape.ONE and node.source else None
        end_join(web, node, SUCCEEDED, "", value)
    else:
        release(web, node)


def release(web: Web, node: Node) -> None:
    if _refused(web, node):
        return
    now = web.tx.now
    if node.expires_in:
        web.expire_at(node, now + node.expires_in)
    due = max(node.at, now + node.delay if node.delay else 0)
    web.move(node, *((SCHEDULED, due) if due > now else (READY, 0)))


def _refused(web: Web, node: Node) -> bool:
    """A job of a stopped graph does not start: nobody may ever come to claim it."""
    graph = web.graph(node)
    if graph is None or not stopping(web, node):
        return False
    web.end(node, CANCELLED, graph.reason)
    return True


def come_back(web: Web, node: Node, end: Node, edge: Edge) -> None:
    """The graph a job waited for is over: the job runs again, or its end becomes the job's own."""
    if edge is Edge.BROKEN:
        web.change(node).culprit = blame(web, end)
        give_up(web, node, CODE[verdict(Shape.ONE, 1, 0, stopping(web, node))])
    elif node.replaced:
        web.end(node, SUCCEEDED, "", value=web.handed.value(end.id))
    elif not _refused(web, node):
        web.move(node, READY)


def give_up(web: Web, node: Node, state: int) -> None:
    """End a node that can never be met, and say whose fault it was."""
    if not node.culprit:
        web.change(node).culprit = first_blame(web, node)
    graph = web.graph(node) if stopping(web, node) else None
    culprit = web.one((graph.culprit if graph else "") or node.culprit)
    if graph is not None:
        reason = graph.reason
    elif culprit is not None:
        # In another graph it may have started again meanwhile.
        how = STATES[culprit.state] if culprit.over else State.FAILED
        reason = because(culprit.task, culprit.id, how, culprit.reason == EXPIRED)
    else:
        reason = because("job", node.culprit, State.FAILED)
    fault = web.handed.fault(culprit.id) if culprit is not None and state == FAILED else None
    if node.shape:
        end_join(web, node, state, reason, fault=fault)
    else:
        blamed = node.culprit
        web.end(node, state, reason, fault)
        web.change(node).culprit = blamed


def first_blame(web: Web, node: Node) -> str:
    """Whom the first of a node's broken edges blames. A source that is gone counts as failed."""
    for edge in web.ins_of(node):
        source = web.one(edge.source)
        if source is None:
            return edge.source
        states = zip(web.outs_of(source), source.edges, strict=True)
        if any(out.target == node.id and int(state) == Edge.BROKEN for out, state in states):
            return blame(web, source)
    return ""


def end_join(
    web: Web, node: Node, state: int, reason: str, value: Value | None = None, fault: Fault | None = None
) -> None:
    """A join ends. It is in no queue and has no event; the end of a graph ends the workflow."""
    web.join(node, state, reason, value, fault)
    graph = web.graph(node)
    if graph is None:
        return
    web.change_graph(graph)
    if node.id == graph.id:
        graph.state, graph.finished_at = state, web.tx.now
        web.event(f"workflow_{STATES[state]}", [graph.id, graph.name, ""], reason)
        web.closing[graph.n] = graph


# -- backwards: a node starts again


def reopen(web: Web, source: Node) -> int:
    """A node starts again: the edges its end broke are open once more, and so is what was given up because of them.

    So is an edge it had met, if nothing has come of it: whoever waits behind it, now or when retried, waits for it too.
    """
    outs = web.outs_of(source)
    edges = [int(digit) for digit in source.edges]
    for at, out in enumerate(outs):
        if edges[at] == Edge.BROKEN or (edges[at] == Edge.MET and _came_to_nothing(web, out)):
            broken, edges[at] = edges[at] == Edge.BROKEN, Edge.OPEN
            _unmeet(web, source, out, broken)
    if outs:
        web.change(source).edges = "".join(str(int(edge)) for edge in edges)
    return 1 + len(outs)


def _came_to_nothing(web: Web, out: Out) -> bool:
    """Whether the target was not released, or its run ended badly and may be retried."""
    target = web.one(out.target)
    return target is not None and target.state in (NONE_SUCH, WAITING, FAILED, CANCELLED, SKIPPED)


def _unmeet(web: Web, source: Node, out: Out, broken: bool) -> None:
    target = web.one(out.target)
    if target is None:
        return
    if is_awaited(web.graph(source), source, out):
        if target.awaits == source.id and target.replaced and target.state in GAVE_UP:
            wait_again(web, target)
        return
    if target.graph != source.graph:
        return
    web.change(target).open += 1
    if not broken:
        return
    target.broken -= 1
    target.culprit = ""  # it may be the very one that starts again; if another edge stays broken, that names it
    if target.state == SKIPPED or (target.shape and target.state in GAVE_UP):
        wait_again(web, target)


def wait_again(web: Web, node: Node) -> None:
    """What was given up waits once more, in a new run; what it gave up in turn follows."""
    if node.awaits:
        web.change(node).culprit = ""
    if node.shape:
        node.run += 1
        web.join(node, WAITING, "")
        graph = web.graph(node)
        if graph is not None:
            web.change_graph(graph)
            if node.id == graph.id:
                resume(web, graph)
    else:
        web.count(node, -1)
        web.again(node)
        web.move(node, WAITING)
    web.reopened.append(node)
