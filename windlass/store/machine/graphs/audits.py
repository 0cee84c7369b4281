"""Looking after graphs: one without an end that nothing will move is a bug or a loss of data, and is put right."""

from __future__ import annotations

from windlass.core.graph import decided, place_of_edge
from windlass.core.job import State
from windlass.core.lifecycle import EXPIRED
from windlass.core.links import Edge, In
from windlass.store.machine.codes import FAILED, RUNNING, SCHEDULED, WAITING
from windlass.store.machine.graphs.nodes import NONE_SUCH, STAGED, GraphRow, NodeRow
from windlass.store.machine.graphs.spreading import blame, come_back, decide, give_up
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx
from windlass.store.shared import STATES


def stale(tx: Tx, limit: int) -> list[int]:
    """Graphs of which a part was staged long ago, and that were never committed."""
    return [n for (n,) in tx.all(tx.sql.audits.STALE, (tx.now - tx.settings.staged_for, limit))]


def next_check(tx: Tx) -> list[int]:
    """When a sweep is needed for the sake of graphs."""
    if not tx.graphs:
        return []
    staged, audited = tx.one(tx.sql.audits.TIMES)
    waits = ((staged, tx.settings.staged_for), (audited, tx.settings.audit_every))
    return [since + wait for since, wait in waits if since is not None]


def is_busy(tx: Tx, graph: GraphRow) -> bool:
    """Whether something will move a graph on: a todo of its own, or an end in this very step that is yet to spread."""
    if tx.effects.has_ended(graph.n, graph.last):
        return True
    return bool(tx.todos) and bool(tx.value(tx.sql.audits.HAS_TODO, (graph.n,)))


def audit(workset: Workset, limit: int) -> list[GraphRow]:
    """Look at the graphs whose turn it is, at so many members in all; answers those that are to be repaired."""
    tx, broken = workset.tx, []
    for (n,) in tx.all(tx.sql.audits.NEXT, (tx.now - tx.settings.audit_every, limit)):
        graph = workset.graph_numbered(n)
        if graph is None or limit <= 0:
            break
        looked = 0 if is_busy(tx, graph) else _look(workset, graph, limit)
        limit -= max(looked, 1)
        seen = graph.looked + looked
        workset.change_graph(graph)  # which begins the audit anew
        if looked and seen < graph.nodes:
            graph.looked = seen  # no life yet; the next page may have some
            continue
        graph.looked_at = tx.now
        if looked:
            broken.append(graph)
    return broken


def _look(workset: Workset, graph: GraphRow, limit: int) -> int:
    """How many members were looked at in vain; 0 when something will move this graph on."""
    first = graph.n + graph.looked
    last = min(first + limit, graph.last)
    return 0 if any(_lives(workset, node) for node in workset.page(first, last, limit)) else last - first


def _lives(workset: Workset, node: NodeRow) -> bool:
    """Whether a member will move its graph on: it may run, runs, or awaits a graph that goes on."""
    if node.aftermath:
        return False
    if node.state == WAITING and node.awaits:
        awaited = workset.graph_named(node.awaits)
        return awaited is not None and (awaited.under_way or is_busy(workset.tx, awaited))
    return node.job > 0 and SCHEDULED <= node.state <= RUNNING


# -- repair


def repair_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Count the edges to waiting nodes anew, and decide the nodes."""
    if not graph.under_way:
        return 0, graph.last
    nodes = workset.page(cursor, graph.last, limit)
    for node in nodes:
        if node.state == WAITING:
            (_repair_awaiting if node.awaits else _repair)(workset, node)
    return len(nodes), nodes[-1].n if len(nodes) == limit else graph.last


def _repair(workset: Workset, node: NodeRow) -> None:
    workset.change(node).open = node.broken = 0
    node.culprit = ""
    ins = workset.ins_of(node)
    workset.load(edge.source for edge in ins)
    workset.load_outs(workset.nodes[edge.source] for edge in ins if edge.source in workset.nodes)
    for at, edge in enumerate(ins):
        found = _edge(workset, node, ins, edge, at)
        node.open += found is Edge.OPEN
        if found is Edge.BROKEN:
            node.broken += 1
            source = workset.nodes.get(edge.source)
            node.culprit = node.culprit or (edge.source if source is None else blame(workset, source))
    if node.open == 0:
        decide(workset, node)


def _edge(workset: Workset, target: NodeRow, ins: list[In], edge: In, at: int) -> Edge:
    """What the source makes of this edge; a source that is gone counts as failed."""
    source = workset.nodes.get(edge.source)
    if source is None or source.graph != target.graph or source.state == NONE_SUCH:
        return decided(edge.on, State.FAILED)
    mine = place_of_edge(ins, at, workset.outs_of(source), target.id)
    if mine is None:
        return decided(edge.on, State.FAILED)
    edges = source.read_edges()
    if edges[mine] is Edge.OPEN and source.over:
        edges[mine] = decided(edge.on, STATES[source.state], source.reason == EXPIRED)
        workset.change(source).write_edges(edges)
    return edges[mine]


def _repair_awaiting(workset: Workset, node: NodeRow) -> None:
    """Let a job come back whose awaited graph is over, and give it up if that graph is gone."""
    end = workset.one(node.awaits)
    graph = workset.graph(end) if end is not None else None
    if graph is not None and graph.under_way:
        return
    if end is None or graph is None or graph.state == STAGED:
        workset.change(node).culprit = node.awaits
        give_up(workset, node, FAILED)
        return
    edges = end.read_edges()
    for at, out in enumerate(workset.outs_of(end)):
        if out.target == node.id:
            edges[at] = decided(out.on, STATES[end.state])
            workset.change(end).write_edges(edges)
            come_back(workset, node, end, edges[at])
