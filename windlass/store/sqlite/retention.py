"""How long workflows are kept: as units, under their ends, in buckets of their own.

Where a bucket's scope begins with ``#`` they are weighed by their nodes, since that is the room they take. No jobs are
in it, and their members are in no bucket at all.
"""

from __future__ import annotations

from windlass.core.keep import read_bucket
from windlass.store.sqlite.codes import SUCCEEDED, WAITING
from windlass.store.sqlite.nodes import DROPPED, Graph, Node, Web
from windlass.store.sqlite.tx import Tx

SCOPE = "#workflows"
"""Where workflows are kept by default; no queue can have this name."""

APART = "\x01"
"""Behind the name of a bucket: it holds workflows. A bucket of jobs may have the same name otherwise."""

BOUND = 100
"""So many workflows are dropped in one go; if that is not enough, a sweep goes on."""

FILE = "UPDATE graphs SET bucket = ?, place = ?, finished_at = ? WHERE n = ?"
ADD = """
INSERT INTO buckets (name, most, age, size)
VALUES (?1, CAST(?1 AS INTEGER), CAST(substr(?1, instr(?1, '|') + 1) AS INTEGER), ?2)
ON CONFLICT DO UPDATE SET size = size + excluded.size RETURNING n
"""
OLDEST = "SELECT n, nodes, finished_at FROM graphs WHERE bucket = ? AND bucket > 0 ORDER BY place LIMIT 2"
OLD = """
SELECT n FROM buckets WHERE size > 0 AND substr(name, -1) = char(1) AND (
    (most >= 0 AND size > most)
    OR (age >= 0 AND age + (
        SELECT finished_at FROM graphs WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1
    ) <= ?)
)
"""


def file_graph(web: Web, graph: Graph) -> None:
    """A workflow that is over is kept under its end; one whose parent awaits it goes with the parent's record."""
    parent = web.one(graph.parent) if graph.parent else None
    if not graph.over or graph.bucket or (parent is not None and parent.awaits == graph.id):
        return
    tx, failed = web.tx, graph.state != SUCCEEDED
    name = (graph.keep_failed if failed else graph.keep_done) or (tx.memo.failed if failed else tx.memo.done) + SCOPE
    graph.bucket = tx.value(ADD, (name + APART, _weight(name, graph.nodes)))
    tx.run(FILE, (graph.bucket, tx.take_ranks(1), graph.finished_at, graph.n))
    for n in prune(tx, graph.bucket):
        web.doom(n)


def _weight(bucket: str, nodes: int) -> int:
    return nodes if read_bucket(bucket).scope.startswith("#") else 1


def prune(tx: Tx, bucket: int) -> list[int]:
    """Take what is beyond a bucket's limits out of sight: graphs whose nodes are still to go."""
    name, size = tx.one("SELECT name, size FROM buckets WHERE n = ?", (bucket,))
    most, age, scope = read_bucket(name.removesuffix(APART))
    # The last workflow stays, however large it is: who waits for it has yet to read its value.
    stay = 1 if scope.startswith("#") and most > 0 else 0
    doomed: list[int] = []
    while len(doomed) < BOUND:
        rows = tx.all(OLDEST, (bucket,))
        if not rows:
            break
        n, nodes, finished_at = rows[0]
        over = 0 <= most < size and len(rows) > stay
        if not over and (age < 0 or finished_at + age > tx.now):
            break
        size -= hide(tx, n, bucket, _weight(name, nodes))
        doomed.append(n)
    return doomed


def hide(tx: Tx, graph: int, bucket: int, weight: int) -> int:
    """Nobody sees it any more, and its id is free."""
    tx.run("UPDATE graphs SET state = ?, bucket = 0, id = NULL WHERE n = ?", (DROPPED, graph))
    if bucket:
        tx.run("UPDATE buckets SET size = size - ? WHERE n = ?", (weight, bucket))
    return weight


def drop(tx: Tx, graph: int) -> None:
    """Take one out of sight, whatever bucket it is in."""
    bucket, nodes, name = tx.one(
        "SELECT bucket, nodes, (SELECT name FROM buckets WHERE n = bucket) FROM graphs WHERE n = ?", (graph,)
    )
    hide(tx, graph, bucket, _weight(name, nodes) if bucket else 0)


def resume(web: Web, graph: Graph) -> None:
    """It is under way again, and in no bucket."""
    if graph.bucket:
        name = web.tx.value("SELECT name FROM buckets WHERE n = ?", (graph.bucket,))
        less = _weight(name, graph.nodes)
        web.tx.run("UPDATE buckets SET size = size - ? WHERE n = ?", (less, graph.bucket))
        web.tx.run("UPDATE graphs SET bucket = 0 WHERE n = ?", (graph.n,))
    web.change_graph(graph)
    graph.state, graph.finished_at, graph.bucket, graph.looked_at = WAITING, 0, 0, web.tx.now


def let_go(web: Web, node: Node) -> None:
    """A job waits for its graph no more, nor is it replaced by it: from now on that is kept for itself."""
    awaited = web.graph_named(node.awaits) if node.awaits else None
    web.change(node).awaits = ""
    node.replaced = 0
    if awaited is not None:
        file_graph(web, awaited)
