"""Staging: a graph is handed in piece by piece, which nobody sees, and one write makes it real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.graph import WORK, NewGraph, unfit
from windlass.core.job import NewJob
from windlass.core.links import Inject, Links
from windlass.store.answers import Accept, GraphAnswer
from windlass.store.machine.codes import WAITING, to_text
from windlass.store.machine.graphs import retention
from windlass.store.machine.graphs.nodes import STAGED, GraphRow
from windlass.store.machine.graphs.opening import UnopenedNode, open_nodes, unopened_job
from windlass.store.machine.graphs.todos import Step, Todo, TodoKind, put_up, work_off
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx, encode, ids_json

NO_LINKS = Links()


def insert_graph(tx: Tx, new: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
    row = tx.one(tx.sql.staging.KNOWN, (new.id,))
    n, state, digest, staged = row or (0, STAGED, new.digest, 0)
    if digest != new.digest:
        return GraphAnswer(Accept.CONFLICT, f"workflow {new.id!r} exists with other contents", staged)
    if state != STAGED:
        work_off(tx)
        return GraphAnswer(Accept.DUPLICATE, "", staged, _is_to_open(tx, n))
    if first > staged:
        reason = f"the nodes from {staged} on are missing" if row else "nothing of it is staged"
        return GraphAnswer(Accept.REFUSED, reason, staged)
    fresh = nodes[staged - first :]
    refusal = _refusal(tx, new, staged, fresh)
    if refusal is not None:
        if row:
            drop(tx, n)
        work_off(tx)
        return refusal
    n = n or _stage_graph(tx, new)
    whole = commit and staged + len(fresh) == new.nodes and _has_end(tx, new, n, fresh)
    now = WORK if whole and not staged else 0
    _stage_nodes(tx, n, staged, fresh, now)
    staged += len(fresh)
    if not whole:
        tx.run(tx.sql.staging.STAGED, (staged, tx.now, n))
        status, reason = (Accept.REFUSED, "nodes are missing") if commit else (Accept.ACCEPTED, "")
        return GraphAnswer(status, reason, staged)
    commit_graphs(tx, [(n, new.id, new.name)])
    _open_first(tx, n, fresh[:now])
    return GraphAnswer(Accept.ACCEPTED, "", staged, _is_to_open(tx, n))


def _is_to_open(tx: Tx, n: int) -> bool:
    """Whether nodes of a graph are left to be opened."""
    return bool(tx.value(tx.sql.staging.IS_TO_OPEN, (n,)))


def _refusal(tx: Tx, new: NewGraph, staged: int, nodes: Sequence[NewJob]) -> GraphAnswer | None:
    """Why these nodes cannot be staged behind those that are; None if they can."""
    ids = ids_json(node.id for node in nodes)
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen:
            return GraphAnswer(Accept.CONFLICT, f"the id {node.id!r} is taken")
        seen.add(node.id)
        if reason := unfit(node.id, node.links):
            return GraphAnswer(Accept.REFUSED, reason)
    if staged + len(nodes) > new.nodes:
        return GraphAnswer(Accept.REFUSED, f"more than {new.nodes} nodes")
    taken = tx.value(tx.sql.staging.TAKEN, (ids,)) if nodes else None
    if taken is not None:
        return GraphAnswer(Accept.CONFLICT, f"the id {taken!r} is taken")
    if tx.todos:
        # Todos may still have to delete nodes of dropped graphs, and these must not keep their ids from anybody.
        for clear in (tx.sql.staging.CLEAR_LINKS, tx.sql.staging.CLEAR_PARTS, tx.sql.staging.CLEAR_NODES):
            tx.run(clear, (ids,))
    return None


def _stage_graph(tx: Tx, new: NewGraph) -> int:
    """Keep a graph without nodes; the number it has from now on."""
    n = tx.take_ranks(new.nodes + 1)
    tx.run(
        tx.sql.staging.GRAPH,
        (
            n, new.id, new.nodes, new.size, new.digest, new.name, to_text(new.meta), int(new.fail_fast), new.parent,
            new.keep_done, new.keep_failed, tx.now,
        ),
    )  # fmt: skip
    tx.graphs = 1
    return n


def _has_end(tx: Tx, new: NewGraph, n: int, fresh: Sequence[NewJob]) -> bool:
    """Whether the graph's end is among these nodes, or was staged before."""
    if any(node.id == new.id for node in fresh):
        return True
    return tx.value(tx.sql.staging.HAS_END, (new.id, n)) is not None


def _stage_nodes(tx: Tx, graph: int, staged: int, nodes: Sequence[NewJob], opened: int) -> None:
    """Keep nodes. The first ``opened`` are opened in this very step, so their jobs need not be kept."""
    if not nodes:
        return
    first = graph + 1 + staged
    links = [[first + i, *_edges(node.links or NO_LINKS)] for i, node in enumerate(nodes)]
    parts = [
        [first + i, encode(unopened_job(node)).decode()] for i, node in enumerate(nodes) if i >= opened and node.task
    ]
    rows = [_node_row(graph, first + i, node) for i, node in enumerate(nodes)]
    tx.run(tx.sql.staging.NODES, (encode(rows).decode(),))
    tx.run(tx.sql.staging.LINKS, (encode(links).decode(),))
    if parts:
        tx.run(tx.sql.staging.PARTS, (encode(parts).decode(),))


def _edges(links: Links) -> tuple[str, str]:
    return encode(links.ins).decode(), encode(links.outs).decode()


def _node_row(graph: int, n: int, node: NewJob) -> list[Any]:
    links = node.links or NO_LINKS
    source, inject = next(((edge.source, edge.inject) for edge in links.ins if edge.inject), ("", Inject.NONE))
    return [
        n, graph, node.id, links.shape, links.spare, int(links.aftermath), len(links.ins), source, inject, node.delay,
        node.at, node.expires_in, "0" * len(links.outs),
    ]  # fmt: skip


def commit_graphs(tx: Tx, graphs: Sequence[tuple[int, str, str]]) -> None:
    """Make staged graphs real. Each: its number, its id and its name."""
    tx.run(tx.sql.staging.COMMIT, (ids_json(n for n, *_ in graphs), tx.now))
    tx.record("workflow_started", "", [[id, name, ""] for _, id, name in graphs])


def _open_first(tx: Tx, n: int, nodes: Sequence[NewJob]) -> None:
    """Open the nodes that were handed in with the commit, and put up a todo for the rest."""
    step = Step(tx)
    graph = step.workset.graph_numbered(n)
    assert graph is not None
    if nodes:
        step.left -= len(nodes)
        graph.opened = len(nodes)
        step.workset.change_graph(graph)
        open_nodes(step.workset, [(graph, _unopened(n + 1 + i, node)) for i, node in enumerate(nodes)])
    if graph.opened < graph.nodes:
        step.put_up(TodoKind.OPEN, n, cursor=n + graph.opened)
    work_off(tx, step)


def _unopened(n: int, node: NewJob) -> UnopenedNode:
    links = node.links or NO_LINKS
    return UnopenedNode(
        n, len(links.ins), 0, links.spare, node.delay, node.at, node.expires_in, links.shape, int(links.aftermath), 0,
        unopened_job(node) if node.task else None,
    )  # fmt: skip


def drop(tx: Tx, n: int) -> None:
    """Delete a graph with its nodes and their jobs: at once it is out of sight, the rest is left to a todo."""
    retention.drop(tx, n)
    put_up(tx, [Todo(TodoKind.DROP, n, 0, n)])


# -- adopting


class Adoption(NamedTuple):
    """A job is to wait for a graph. ``node``: the number of the job's node, 0 if it has none yet."""

    job: int
    id: str
    node: int
    graph: GraphRow
    replaced: bool


def adoptable(tx: Tx, ids: Sequence[str]) -> dict[str, GraphRow]:
    """Those of these graphs that are staged and whole, by id: their parents may adopt them."""
    staged = {graph.n: graph for graph in Workset(tx).graphs_named(ids) if graph.state == STAGED}
    whole = tx.all(tx.sql.staging.WHOLE, (ids_json(staged),)) if staged else ()
    return {str(staged[n].id): staged[n] for (n,) in whole}


def adopt(tx: Tx, adoptions: Sequence[Adoption]) -> None:
    """Make graphs real, and let the jobs that adopt them wait for them. These have been moved already."""
    fresh = [adoption for adoption in adoptions if not adoption.node]
    numbers = {adoption.job: adoption.node for adoption in adoptions}
    if fresh:
        numbers |= {adoption.job: n for n, adoption in enumerate(fresh, tx.take_ranks(len(fresh)))}
        rows = [[numbers[one.job], 0, one.id, 0, 0, 0, 0, "", 0, 0, 0, 0, ""] for one in fresh]
        tx.run(tx.sql.staging.NODES, (encode(rows).decode(),))
        tx.run(tx.sql.staging.LINKS, (encode([[row[0], "[]", "[]"] for row in rows]).decode(),))
        tx.run(tx.sql.staging.HAVE_NODES, (encode([[one.job, numbers[one.job]] for one in fresh]).decode(),))
    workset = Workset(tx)
    nodes = {node.n: node for node in workset.numbered(list(numbers.values()))}
    for adoption in adoptions:
        node, graph = nodes[numbers[adoption.job]], adoption.graph
        retention.let_go(workset, node)
        node.awaits, node.replaced, node.culprit = str(graph.id), int(adoption.replaced), ""
    retention.file_graphs(workset)
    workset.flush()
    graphs = [adoption.graph for adoption in adoptions]
    commit_graphs(tx, [(graph.n, str(graph.id), graph.name) for graph in graphs])
    for graph in graphs:
        graph.state, graph.looked_at = WAITING, tx.now
    tx.effects.graphs_adopted(graphs)
    if workset.doomed:
        put_up(tx, [Todo(TodoKind.PRUNE, n, 0, n) for n in workset.doomed])
