"""A graph as a unit: stopped, retried, filed and dropped, a page of its nodes at a time.

Every page function gets the number of the node it goes on behind and answers how many nodes it looked at and the number
of the last one.
"""

from __future__ import annotations

from windlass.core.job import Finished
from windlass.store.sqlite.codes import CANCELLED, FAILED, READY, RUNNING, SKIPPED, SUCCEEDED, WAITING
from windlass.store.sqlite.nodes import DROPPED, Graph, Node, Web
from windlass.store.sqlite.spreading import GAVE_UP, give_up
from windlass.store.sqlite.tx import Tx, ids_json

WORKFLOWS = "\x01"
"""Behind the name of a bucket: it holds workflows, and no jobs."""

IN = "(SELECT value FROM json_each(?))"


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
    """Start the jobs again that ended badly. What was skipped, and the joins, follow by their edges."""
    if graph.state == DROPPED:
        return 0, graph.last
    nodes, last = page_of(web, graph, cursor, limit)
    for node in nodes:
        if node.job and node.state in GAVE_UP and not node.aftermath:
            _retry(web, node)
    return len(nodes), last


def _retry(web: Web, node: Node) -> None:
    if node.open == 0 and node.broken > node.spare:
        # Whoever broke its edges may be beyond retry. As a skipped job it waits again when one of them is reopened.
        web.count(node, -1)
        web.clear(node)
        give_up(web, node, SKIPPED)
        return
    restart(web, node, waits=node.open > 0)
    web.event("replayed", [node.id, node.task, node.queue])


def restart(web: Web, node: Node, waits: bool) -> None:
    """A new run of a job: nothing of the old one is left, and what it broke is open again."""
    web.count(node, -1)
    web.change(node).awaits = ""
    node.replaced = 0
    web.again(node)
    web.move(node, WAITING if waits else READY)
    web.reopened.append(node)


# -- retention


def file_one(web: Web, node: Node) -> None:
    """A job whose end has spread may be pruned, unless its graph is under way."""
    if node.job and node.over and node.spread:
        graph = web.graph(node)
        if graph is None or node.aftermath or graph.state < 0:
            web.file(node, node.state == FAILED)
        elif graph.over:
            web.file(node, node.state == FAILED or graph.state != SUCCEEDED)


def file_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Members of a graph that is over may be pruned from now on. Other joins than the end go with the end."""
    if not graph.over:
        return 0, graph.last
    if graph.opened < graph.nodes:
        return 0, cursor  # later: what is not opened yet must not be dropped with it
    nodes, last = page_of(web, graph, cursor, limit)
    for node in nodes:
        if not node.aftermath:
            file_one(web, node)
    return len(nodes), last


def file_end(web: Web, graph: Graph) -> None:
    if not graph.over or graph.bucket:
        return
    tx, failed = web.tx, graph.state != SUCCEEDED
    given = graph.keep_failed if failed else graph.keep_done
    name = (given or (tx.memo.failed if failed else tx.memo.done) + "workflows") + WORKFLOWS
    tx.run(
        "INSERT INTO buckets (name, most, age, size) VALUES "
        "(?1, CAST(?1 AS INTEGER), CAST(substr(?1, instr(?1, '|') + 1) AS INTEGER), 1) "
        "ON CONFLICT DO UPDATE SET size = size + 1", (name,)
    )  # fmt: skip
    bucket, most, age, size = tx.one("SELECT n, most, age, size FROM buckets WHERE name = ?", (name,))
    graph.bucket, graph.looked_at = bucket, tx.now
    sql = "UPDATE graphs SET bucket = ?, place = ?, looked_at = ? WHERE n = ?"
    tx.run(sql, (bucket, tx.take_ranks(1), tx.now, graph.n))
    for n in prune(tx, bucket, size - most if most >= 0 else 0, age):
        web.doom(n)


OLDEST = "SELECT looked_at FROM graphs WHERE bucket = ? AND bucket > 0 ORDER BY place LIMIT 1"
DOOMED = """
SELECT n FROM (
    SELECT n, looked_at, row_number() OVER () AS i FROM (
        SELECT n, looked_at FROM graphs WHERE bucket = ?1 AND bucket > 0 ORDER BY place LIMIT max(?2, ?4)
    )
) WHERE i <= ?2 OR (?3 >= 0 AND looked_at + ?3 <= ?5)
"""


def prune(tx: Tx, bucket: int, excess: int, age: int, bound: int = 100) -> list[int]:
    """Take what is beyond a bucket's count, and past its age, out of sight: graphs whose nodes are still to go."""
    oldest = tx.value(OLDEST, (bucket,))
    if excess <= 0 and (age < 0 or oldest is None or oldest + age > tx.now):
        return []
    doomed = [n for (n,) in tx.all(DOOMED, (bucket, excess, age, bound, tx.now))]
    for n in doomed:
        hide(tx, n)
    return doomed


def hide(tx: Tx, graph: int) -> None:
    """Nobody sees it any more, and its id is free."""
    tx.run(
        "UPDATE buckets SET size = size - 1 WHERE n = (SELECT bucket FROM graphs WHERE n = ? AND bucket > 0)", (graph,)
    )
    tx.run("UPDATE graphs SET state = ?, bucket = 0, id = NULL WHERE n = ?", (DROPPED, graph))


# -- the end of it


def drop_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Delete nodes and their jobs. What is still running goes on as a job of its own."""
    tx = web.tx
    web.flush()
    nodes, last = page_of(web, graph, cursor, limit)
    gone = ids_json(node.job for node in nodes if node.job and node.state != RUNNING)
    for id, name in tx.all("SELECT j.id, w.name FROM watches AS w JOIN jobs AS j ON j.n = w.job "
                           "WHERE w.job IN " + IN, (gone,)):  # fmt: skip
        tx.tell(name, Finished(id, None, reason="deleted"))
    for node in nodes:
        if node.job and node.state != RUNNING:
            web.event("deleted", [node.id, node.task, node.queue])
    tx.run("INSERT INTO erased SELECT n, queue, state, bucket, logged, node FROM jobs WHERE n IN " + IN, (gone,))
    tx.run("INSERT INTO erase VALUES (1)")
    _untie(web, [node for node in nodes if not node.job or node.state == RUNNING])
    return len(nodes), last


def untie_page(web: Web, graph: Graph, cursor: int, limit: int) -> tuple[int, int]:
    """Delete nodes; their jobs stay, each as long as it is kept."""
    nodes, last = page_of(web, graph, cursor, limit)
    _untie(web, nodes)
    return len(nodes), last


def _untie(web: Web, nodes: list[Node]) -> None:
    tx = web.tx
    web.flush()
    # A job that has not ended may still be waited for by another: both keep their nodes.
    idle = [node for node in nodes if not node.job or (node.over and node.spread)]
    numbers = ids_json(node.n for node in idle)
    tx.run("UPDATE jobs SET node = 0 WHERE n IN " + IN, (ids_json(node.job for node in idle if node.job),))
    tx.run("DELETE FROM watches WHERE job IN (SELECT -value FROM json_each(?))", (numbers,))
    for table in ("nodes", "links", "parts"):
        tx.run(f"DELETE FROM {table} WHERE n IN {IN}", (numbers,))
    web.forget(node.n for node in nodes)


def forget(web: Web, graph: Graph) -> None:
    web.flush()
    web.tx.run("DELETE FROM graphs WHERE n = ?", (graph.n,))
    web.graphs.pop(graph.n, None)
