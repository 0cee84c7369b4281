"""How long workflows are kept: as units, under their ends, in buckets of their own.

Where a bucket's scope begins with ``#`` they are weighed by their nodes, since that is the room they take. No jobs are
in it, and their members are in no bucket at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from windlass.core.keep import Bucket, read_bucket
from windlass.store.machine.codes import SUCCEEDED, WAITING
from windlass.store.machine.graphs.nodes import GraphRow, NodeRow, graphs_of
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.tx import Tx, encode, ids_json

SCOPE = "#workflows"
"""Where workflows are kept by default; no queue can have this name."""

APART = "\x01"
"""Behind the name of a bucket: it holds workflows. A bucket of jobs may have the same name otherwise."""

BOUND = 100
"""So many workflows are dropped in one go; if that is not enough, a sweep goes on."""


class WorkflowBucket(NamedTuple):
    """A bucket of workflows, and how much it holds. ``old``: there is one in it that is past its age."""

    n: int
    name: str
    size: int
    old: bool = True

    @property
    def is_full(self) -> bool:
        return self.old or 0 <= self.limits.limit < self.size

    @property
    def limits(self) -> Bucket:
        return read_bucket(self.name.removesuffix(APART))


def file_graphs(workset: Workset) -> None:
    """Workflows that are over are kept under their ends; one whose parent awaits it goes with the parent's record."""
    if workset.resumed:
        _take_out(workset)
    tx, over, workset.closing = (
        workset.tx,
        [graph for graph in workset.closing.values() if graph.over and not graph.bucket],
        {},
    )
    workset.load(graph.parent for graph in over if graph.parent)
    names = {graph.n: _bucket_name(tx, graph) for graph in over if not _is_awaited(workset, graph)}
    if not names:
        return
    weights = Counter[str]()
    for n, name in names.items():
        weights[name + APART] += _weight(name, workset.graphs[n].nodes)
    found = tx.all(tx.sql.retention.ADD, (encode(list(weights.items())).decode(),))
    numbers = {name: n for n, name, *_ in found}
    for place, (n, name) in enumerate(names.items(), tx.take_ranks(len(names))):
        graph = workset.change_graph(workset.graphs[n])
        graph.bucket, graph.place = numbers[name + APART], place
    full = [bucket for bucket in (_look(tx, *row) for row in found) if bucket.is_full]
    if full:
        workset.flush()
    for graph in prune(tx, full):
        workset.doom(workset.graphs.get(graph.n, graph))


def _take_out(workset: Workset) -> None:
    """Buckets weigh less by the workflows that are under way again."""
    tx, resumed, workset.resumed = workset.tx, workset.resumed, []
    names = dict(tx.all(tx.sql.retention.NAMES, (ids_json({bucket for bucket, _ in resumed}),)))
    less = Counter[int]()
    for bucket, nodes in resumed:
        less[bucket] += _weight(names[bucket], nodes)
    tx.run(tx.sql.retention.TAKE_OUT, (encode(list(less.items())).decode(),))


def _is_awaited(workset: Workset, graph: GraphRow) -> bool:
    parent = workset.one(graph.parent) if graph.parent else None
    return parent is not None and parent.awaits == graph.id


def _bucket_name(tx: Tx, graph: GraphRow) -> str:
    if graph.state == SUCCEEDED:
        return graph.keep_done or tx.memo.done + SCOPE
    return graph.keep_failed or tx.memo.failed + SCOPE


def _weight(bucket: str, nodes: int) -> int:
    return nodes if read_bucket(bucket).scope.startswith("#") else 1


def _look(tx: Tx, n: int, name: str, size: int, oldest: int | None) -> WorkflowBucket:
    """``oldest``: when that workflow ended which was in it before."""
    age = read_bucket(name.removesuffix(APART)).age
    return WorkflowBucket(n, name, size, age == 0 or (age > 0 and oldest is not None and oldest + age <= tx.now))


def prune(tx: Tx, buckets: Sequence[WorkflowBucket]) -> list[GraphRow]:
    """Take what is beyond the limits of buckets out of sight: graphs whose nodes are still to go."""
    if not buckets:
        return []
    looks = (ids_json(bucket.n for bucket in buckets), max(_reach(bucket) for bucket in buckets) + 1)
    found = {n: graphs_of(graphs) for n, graphs in tx.all(tx.sql.retention.OLDEST, looks)}
    doomed, less = list[GraphRow](), list[tuple[int, int]]()
    for bucket in buckets:
        gone, weight = _beyond(tx, bucket, found.get(bucket.n, []))
        doomed += gone
        less.append((bucket.n, weight))
    if doomed:
        tx.run(tx.sql.retention.HIDE, (ids_json(graph.n for graph in doomed),))
        tx.run(tx.sql.retention.TAKE_OUT, (encode(less).decode(),))
    return doomed


def _reach(bucket: WorkflowBucket) -> int:
    """At most how many graphs one look takes out of a bucket. Each weighs something, so its count needs no more."""
    return BOUND if bucket.old else min(BOUND, bucket.size - bucket.limits.limit)


def _beyond(tx: Tx, bucket: WorkflowBucket, graphs: Sequence[GraphRow]) -> tuple[list[GraphRow], int]:
    """Which of the oldest graphs of a bucket are beyond its limits, and what they weigh."""
    (most, age, scope), size = bucket.limits, bucket.size
    # The last workflow stays, however large it is: who waits for it has yet to read its value.
    stay = 1 if scope.startswith("#") and most > 0 else 0
    gone: list[GraphRow] = []
    for at, graph in enumerate(graphs[:BOUND]):
        over = 0 <= most < size and len(graphs) - at > stay
        if not over and (age < 0 or graph.finished_at + age > tx.now):
            break
        size -= _weight(bucket.name, graph.nodes)
        gone.append(graph)
    return gone, bucket.size - size


def prune_full(tx: Tx) -> list[GraphRow]:
    """The same for all buckets that are over their count or have a workflow past their age."""
    return prune(tx, [WorkflowBucket(*row) for row in tx.all(tx.sql.retention.FULL, (tx.now,))])


def drop(tx: Tx, graph: int) -> None:
    """Take one out of sight, whatever bucket it is in."""
    bucket, nodes, name = tx.one(tx.sql.retention.OF_GRAPH, (graph,))
    tx.run(tx.sql.retention.HIDE, (ids_json([graph]),))
    if bucket:
        tx.run(tx.sql.retention.TAKE_OUT, (encode([(bucket, _weight(name, nodes))]).decode(),))


def resume(workset: Workset, graph: GraphRow) -> None:
    """It is under way again, and in no bucket."""
    if graph.bucket:
        workset.resumed.append((graph.bucket, graph.nodes))
    workset.change_graph(graph)
    graph.state, graph.finished_at, graph.bucket, graph.looked_at = WAITING, 0, 0, workset.tx.now


def let_go(workset: Workset, node: NodeRow) -> None:
    """A job waits for its graph no more, nor is it replaced by it: from now on that is kept for itself."""
    awaited = workset.graph_named(node.awaits) if node.awaits else None
    workset.change(node).awaits = ""
    node.replaced = 0
    if awaited is not None:
        workset.closing[awaited.n] = awaited
