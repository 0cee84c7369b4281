"""A graph as a unit: stopped, retried, pruned and dropped, a page of its nodes at a time.

Every page function gets the number of the node it goes on behind and answers how many nodes it looked at and the number
of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.job import Finished
from windlass.store.machine.codes import CANCELLED, READY, RUNNING, WAITING
from windlass.store.machine.flow.lanes import leave
from windlass.store.machine.graphs.nodes import DROPPED, GraphRow, NodeRow
from windlass.store.machine.graphs.opening import open_early
from windlass.store.machine.graphs.retention import let_go
from windlass.store.machine.graphs.spreading import GAVE_UP, decide, is_opened
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx, ids_json


def page_of(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[list[NodeRow], int]:
    nodes = workset.page(cursor, graph.last, limit)
    return nodes, nodes[-1].n if len(nodes) == limit else graph.last


# -- stop and retry


def stop_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Cancel the jobs of a graph that was stopped. Joins follow by their edges; nodes that are not opened yet are
    refused at their release."""
    if not graph.stopping:
        return 0, graph.last
    nodes, last = page_of(workset, graph, cursor, limit)
    for node in nodes:
        if node.job and not node.aftermath and not node.over and not node.cancel:
            if node.state == RUNNING:
                workset.cancel_running(node, graph.reason)
            else:
                workset.end(node, CANCELLED, graph.reason)
    return len(nodes), last


def retry_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Let the jobs that ended badly wait again. Skipped jobs and joins follow by their edges."""
    if graph.state == DROPPED:
        return 0, graph.last
    nodes, last = page_of(workset, graph, cursor, limit)
    for node in nodes:
        if node.job and node.state in GAVE_UP and not node.aftermath:
            restart(workset, node, waits=True)
            workset.event("replayed", [node.id, node.task, node.queue])
    return len(nodes), last


def decide_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Decide the nodes that wait without an open edge: none leads to them, or none was opened again."""
    if not graph.under_way:
        return 0, graph.last
    nodes, last = page_of(workset, graph, cursor, limit)
    for node in nodes:
        if node.state == WAITING and node.open == 0 and not node.awaits and is_opened(workset, node):
            decide(workset, node)
    return len(nodes), last


def restart(workset: Workset, node: NodeRow, waits: bool) -> None:
    """Begin a new run of a job. Nothing of the old one is left, and the edges it broke are opened again."""
    workset.count(node, -1)
    let_go(workset, node)
    workset.blame_itself(node)
    workset.again(node)
    workset.move(node, WAITING if waits else READY)
    workset.reopened.append(node)


def file_one(workset: Workset, node: NodeRow) -> None:
    """File a node whose end has spread: a job that is not kept with its graph goes into its bucket, and a join whose
    graph is gone is deleted."""
    graph = workset.graph(node)
    gone = graph is None or graph.state == DROPPED
    if node.job and node.over and (gone or node.aftermath):
        workset.file(node)
    elif node.shape and node.over and gone:
        _remove(workset, [], [node])


# -- the end of it


def drop_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Delete nodes and their jobs. A job that still runs goes on as a job of its own."""
    nodes, last = page_of(workset, graph, cursor, limit)
    gone = [node for node in nodes if node.job and node.state != RUNNING]
    for node in gone:
        workset.event("deleted", [node.id, node.task, node.queue])
    _remove(workset, gone, [node for node in nodes if not node.job])
    return len(nodes), last


def prune_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Delete nodes and their jobs without an event for each. Callbacks stay as jobs of their own, also those that are
    not opened yet."""
    nodes, last = page_of(workset, graph, cursor, limit)
    open_early(workset, graph, [node.n for node in nodes if node.aftermath and not node.job])
    gone = [node for node in nodes if node.job and node.over and not node.aftermath]
    _remove(
        workset, gone, [node for node in nodes if not node.job and (not node.aftermath or (node.over and node.spread))]
    )
    return len(nodes), last


def _remove(workset: Workset, jobs: list[NodeRow], others: list[NodeRow]) -> None:
    """Note jobs with their nodes, and nodes that are no jobs, for ``remove``."""
    workset.gone_jobs.update((node.n, node) for node in jobs)
    workset.gone_nodes.update((node.n, node) for node in others)


def forget(workset: Workset, graph: GraphRow) -> None:
    """Note a graph whose nodes have gone for ``remove``."""
    workset.gone_graphs.append(graph.n)


def remove(workset: Workset) -> None:
    """Delete all that was noted."""
    if not (workset.gone_jobs or workset.gone_nodes or workset.gone_graphs):
        return
    tx = workset.tx
    workset.flush()
    jobs, workset.gone_jobs = workset.gone_jobs, {}
    nodes, workset.gone_nodes = workset.gone_nodes, {}
    graphs, workset.gone_graphs = workset.gone_graphs, []
    if jobs:
        numbers = ids_json(node.job for node in jobs.values())
        if not all(node.over for node in jobs.values()):
            _tell_gone(tx, {node.job: node.id for node in jobs.values()})
        leave(tx, numbers)
        # Graphs that were awaited by one of these may have to go as well.
        tx.todos = tx.todos or any(node.awaits for node in jobs.values())
    watched = {-n: node.id for n, node in nodes.items() if node.watched}
    if watched:
        _tell_gone(tx, watched)
    tx.run(
        tx.sql.nodes.UPROOT,
        (ids_json(node.job for node in jobs.values()), ids_json(nodes), ids_json(graphs)),
    )
    workset.forget((*jobs, *nodes))
    for n in graphs:
        workset.graphs.pop(n, None)


def _tell_gone(tx: Tx, ids: Mapping[int, str]) -> None:
    """Tell who watches jobs or nodes under these numbers that they are gone."""
    for n, name in tx.all(tx.sql.nodes.WATCHERS, (ids_json(ids),)):
        tx.tell(name, Finished(ids[n], None, reason="deleted"))
