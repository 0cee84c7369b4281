"""Handing in a graph: parts that nobody sees, and the one write that makes them real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.graph import WORK, NewGraph, unfit
from windlass.core.job import NewJob
from windlass.core.links import Inject, Links
from windlass.store.answers import Accept, GraphAnswer
from windlass.store.machine.codes import to_text
from windlass.store.machine.graphs import retention
from windlass.store.machine.graphs.nodes import STAGED, GraphRow
from windlass.store.machine.graphs.opening import UnopenedNode, body_of, open_nodes
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
        return GraphAnswer(Accept.DUPLICATE, "", staged, _more(tx, n))
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
    n = n or _begin(tx, new)
    whole = commit and staged + len(fresh) == new.nodes and _has_end(tx, new, n, fresh)
    now = WORK if whole and not staged else 0
    _stage(tx, n, staged, fresh, now)
    staged += len(fresh)
    if not whole:
        tx.run(tx.sql.staging.STAGED, (staged, tx.now, n))
        status, reason = (Accept.REFUSED, "nodes are missing") if commit else (Accept.ACCEPTED, "")
        return GraphAnswer(status, reason, staged)
    commit_graphs(tx, [(n, new.id, new.name)])
    _open_first(tx, n, fresh[:now])
    return GraphAnswer(Accept.ACCEPTED, "", staged, _more(tx, n))


def _more(tx: Tx, n: int) -> bool:
    return bool(tx.value(tx.sql.staging.IS_TO_OPEN, (n,)))


def _refusal(tx: Tx, new: NewGraph, staged: int, nodes: Sequence[NewJob]) -> GraphAnswer | None:
    """Why these nodes cannot be staged, with all that was staged before them."""
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
        # What is left of graphs that were dropped is in nobody's way.
        for clear in (tx.sql.staging.CLEAR_LINKS, tx.sql.staging.CLEAR_PARTS, tx.sql.staging.CLEAR_NODES):
            tx.run(clear, (ids,))
    return None


def _begin(tx: Tx, new: NewGraph) -> int:
    n = tx.take_ranks(new.nodes + 1)
    tx.run(
        tx.sql.staging.BEGIN,
        (
            n, new.id, new.nodes, new.size, new.digest, new.name, to_text(new.meta), int(new.fail_fast), new.parent,
            new.keep_done, new.keep_failed, tx.now,
        ),
    )  # fmt: skip
    tx.graphs = 1
    return n


def _has_end(tx: Tx, new: NewGraph, n: int, fresh: Sequence[NewJob]) -> bool:
    if any(node.id == new.id for node in fresh):
        return True
    return tx.value(tx.sql.staging.HAS_END, (new.id, n)) is not None


def _stage(tx: Tx, graph: int, staged: int, nodes: Sequence[NewJob], opened: int) -> None:
    """Keep nodes; of the first ``opened`` jobs nothing more is needed, as they are accepted in this very step."""
    if not nodes:
        return
    first = graph + 1 + staged
    links = [[first + i, *_edges(node.links or NO_LINKS)] for i, node in enumerate(nodes)]
    parts = [[first + i, encode(body_of(node)).decode()] for i, node in enumerate(nodes) if i >= opened and node.task]
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
    """From now on they are real. Each: its number, its id and its name."""
    tx.run(tx.sql.staging.COMMIT, (ids_json(n for n, *_ in graphs), tx.now))
    tx.record("workflow_started", "", [[id, name, ""] for _, id, name in graphs])


def _open_first(tx: Tx, n: int, nodes: Sequence[NewJob]) -> None:
    """Open what was handed in with the commit, and put up the rest."""
    step = Step(tx)
    graph = step.workset.graph_numbered(n)
    assert graph is not None
    if nodes:
        step.left -= len(nodes)
        graph.opened = len(nodes)
        step.workset.change_graph(graph)
        open_nodes(step.workset, [(graph, _part(n + 1 + i, node)) for i, node in enumerate(nodes)])
    if graph.opened < graph.nodes:
        step.put(TodoKind.OPEN, n, cursor=n + graph.opened)
    work_off(tx, step)


def _part(n: int, node: NewJob) -> UnopenedNode:
    links = node.links or NO_LINKS
    return UnopenedNode(
        n, len(links.ins), 0, links.spare, node.delay, node.at, node.expires_in, links.shape, int(links.aftermath), 0,
        body_of(node) if node.task else None,
    )  # fmt: skip


def drop(tx: Tx, n: int) -> None:
    """All of a graph goes, its jobs as well."""
    retention.drop(tx, n)
    put_up(tx, [Todo(TodoKind.DROP, n, 0, n)])


# -- adopting


class Adoption(NamedTuple):
    """A job that waits for a graph from now on. ``node``: its own, 0 if it has none yet."""

    job: int
    id: str
    node: int
    graph: GraphRow
    replaced: bool


def adoptable(tx: Tx, ids: Sequence[str]) -> dict[str, GraphRow]:
    """Those of these graphs that are whole and wait to be adopted, each by its parent."""
    staged = {graph.n: graph for graph in Workset(tx).graphs_named(ids) if graph.state == STAGED}
    whole = tx.all(tx.sql.staging.WHOLE, (ids_json(staged),)) if staged else ()
    return {str(staged[n].id): staged[n] for (n,) in whole}


def adopt(tx: Tx, adoptions: Sequence[Adoption]) -> None:
    """Jobs wait for graphs, which become real."""
    fresh = [adoption for adoption in adoptions if not adoption.node]
    numbers = {adoption.job: adoption.node for adoption in adoptions}
    if fresh:
        numbers |= {adoption.job: n for n, adoption in enumerate(fresh, tx.take_ranks(len(fresh)))}
        rows = [[numbers[one.job], 0, one.id, 0, 0, 0, 0, "", 0, 0, 0, 0, ""] for one in fresh]
        tx.run(tx.sql.staging.NODES, (encode(rows).decode(),))
        tx.run(tx.sql.staging.LINKS, (encode([[row[0], "[]", "[]"] for row in rows]).decode(),))
        tx.run(tx.sql.staging.HAVE_NODES, (encode([[one.job, numbers[one.job]] for one in fresh]).decode(),))
    workset = Workset(tx)
    places = {place.n: place for place in workset.numbered(list(numbers.values()))}
    for adoption in adoptions:
        place, graph = places[numbers[adoption.job]], adoption.graph
        retention.let_go(workset, place)
        place.awaits, place.replaced, place.culprit = str(graph.id), int(adoption.replaced), ""
    retention.file_graphs(workset)
    workset.flush()
    graphs = [adoption.graph for adoption in adoptions]
    commit_graphs(tx, [(graph.n, str(graph.id), graph.name) for graph in graphs])
    todos = [Todo(TodoKind.OPEN, graph.n, 0, graph.n) for graph in graphs]
    put_up(tx, [*todos, *(Todo(TodoKind.PRUNE, n, 0, n) for n in workset.doomed)])
