"""A graph as a unit: stopped, retried, pruned and dropped, a page of its nodes at a time.

Every page function gets the number of the node it goes on behind and answers how many nodes it looked at and the number
of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass.core.job import Finished
from windlass.store.machine.codes import CANCELLED, READY, RUNNING, WAITING
from windlass.store.machine.flow.lanes import leave
from windlass.store.machine.graphs.nodes import DROPPED, Graph, Node
from windlass.store.machine.graphs.opening import open_early
from windlass.store.machine.graphs.retention import let_go
from windlass.store.machine.graphs.spreading import GAVE_UP, decide, is_opened
from windlass.store.machine.graphs.web import Web
from windlass.store.machine.tx import Tx, ids_json


def page_of(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[list[Node], int]:
    nodes = web.page(cursor, graph.last, limit)
    return nodes, nodes[-1].n if len(nodes) == limit else graph.last


# -- stop and retry


def stop_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Cancel the jobs of a stopping graph. Joins follow by their edges; what is not opened meets it at its release."""
    if not graph.stopping:
        return 0, graph.last
    nodes, last = page_of(web, graph, cursor, limit)
    for node in nodes:
        if node.job and not node.aftermath and not node.over and not node.cancel:
            if node.state == RUNNING:
                web.cancel_running(node, graph.reason)
            else:
                web.end(node, CANCELLED, graph.reason)
    return len(nodes), last


def retry_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Jobs that ended badly wait again, for whatever else does. What was skipped, and the joins, follow by their
    edges."""
    if graph.state == DROPPED:
        return 0, graph.last
    nodes, last = page_of(web, graph, cursor, limit)
    for node in nodes:
        if node.job and node.state in GAVE_UP and not node.aftermath:
            restart(web, node, waits=True)
            web.event("replayed", [node.id, node.task, node.queue])
    return len(nodes), last


def decide_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Decide the nodes that wait with no open edge, be it that none leads to them or that none was opened again."""
    if not graph.under_way:
        return 0, graph.last
    nodes, last = page_of(web, graph, cursor, limit)
    for node in nodes:
        if node.state == WAITING and node.open == 0 and not node.awaits and is_opened(web, node):
            decide(web, node)
    return len(nodes), last


def restart(web: Web, node: Node, waits: bool) -> None:
    """A new run of a job: nothing of the old one is left, and what it broke is open again."""
    web.count(node, -1)
    let_go(web, node)
    web.blame_itself(node)
    web.again(node)
    web.move(node, WAITING if waits else READY)
    web.reopened.append(node)


def file_one(web: Web, node: Node) -> None:
    """A job whose end has spread may be pruned, unless it is kept with its graph. A join has done its part if that is
    gone."""
    graph = web.graph(node)
    gone = graph is None or graph.state == DROPPED
    if node.job and node.over and (gone or node.aftermath):
        web.file(node)
    elif node.shape and node.over and gone:
        _remove(web, [], [node])


# -- the end of it


def drop_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Delete nodes and their jobs. What is still running goes on as a job of its own."""
    nodes, last = page_of(web, graph, cursor, limit)
    gone = [node for node in nodes if node.job and node.state != RUNNING]
    for node in gone:
        web.event("deleted", [node.id, node.task, node.queue])
    _remove(web, gone, [node for node in nodes if not node.job])
    return len(nodes), last


def prune_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """The same without a word. Callbacks are jobs of their own, also those that are not opened yet."""
    nodes, last = page_of(web, graph, cursor, limit)
    open_early(web, graph, [node.n for node in nodes if node.aftermath and not node.job])
    gone = [node for node in nodes if node.job and node.over and not node.aftermath]
    _remove(web, gone, [node for node in nodes if not node.job and (not node.aftermath or (node.over and node.spread))])
    return len(nodes), last


def _remove(web: Web, jobs: list[Node], others: list[Node]) -> None:
    """Jobs with their nodes, and nodes that are no jobs, are to go."""
    web.gone_jobs.update((node.n, node) for node in jobs)
    web.gone_nodes.update((node.n, node) for node in others)


def forget(web: Web, graph: Graph) -> None:
    web.gone_graphs.append(graph.n)


def remove(web: Web) -> None:
    """All that is to go goes."""
    if not (web.gone_jobs or web.gone_nodes or web.gone_graphs):
        return
    tx = web.tx
    web.flush()
    jobs, web.gone_jobs = web.gone_jobs, {}
    nodes, web.gone_nodes = web.gone_nodes, {}
    graphs, web.gone_graphs = web.gone_graphs, []
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
    web.forget((*jobs, *nodes))
    for n in graphs:
        web.graphs.pop(n, None)


def _tell_gone(tx: Tx, ids: Mapping[int, str]) -> None:
    """Tell who watches jobs or nodes under these numbers that they are gone."""
    for n, name in tx.all(tx.sql.nodes.WATCHERS, (ids_json(ids),)):
        tx.tell(name, Finished(ids[n], None, reason="deleted"))
