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
from windlass.store.machine.tx import Tx, ids_json

SCOPE = "#workflows"
"""Where workflows are kept by default; no queue can have this name."""

APART = "\x01"
"""Behind the name of a bucket: it holds workflows. A bucket of jobs may have the same name otherwise."""

BOUND = 100
"""So many workflows are dropped in one go; if that is not enough, a sweep goes on."""


def limits_of(name: str) -> Bucket:
    """The limits of a bucket of workflows."""
    return read_bucket(name.removesuffix(APART))


class WorkflowBucket(NamedTuple):
    """A bucket of workflows, and how much it holds. ``old``: a workflow in it is past its age."""

    n: int
    name: str
    size: int
    old: bool = True

    @property
    def is_full(self) -> bool:
        return self.old or 0 <= self.limits.limit < self.size

    @property
    def limits(self) -> Bucket:
        return limits_of(self.name)


def file_graphs(workset: Workset) -> None:
    """Put the workflows that ended into their buckets, and prune these. A workflow that its parent awaits is in none:
    it goes with the parent's record."""
    if workset.resumed:
        _take_out(workset)
    tx, closing, workset.closing = workset.tx, workset.closing, {}
    over = [graph for graph in closing.values() if graph.over and not graph.bucket]
    workset.load(graph.parent for graph in over if graph.parent)
    names = {graph.n: _bucket_name(tx, graph) for graph in over if not _is_awaited(workset, graph)}
    if not names:
        return
    weights = Counter[str]()
    for n, name in names.items():
        weights[name] += limits_of(name).weight(workset.graphs[n].nodes)
    found = tx.all(tx.sql.retention.ADD, (ids_json(weights.items()),))
    numbers = {name: n for n, name, *_ in found}
    for place, (n, name) in enumerate(names.items(), tx.take_ranks(len(names))):
        graph = workset.change_graph(workset.graphs[n])
        graph.bucket, graph.place = numbers[name], place
    full = [bucket for bucket in (_added(tx, *row) for row in found) if bucket.is_full]
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
        less[bucket] += limits_of(names[bucket]).weight(nodes)
    tx.run(tx.sql.retention.TAKE_OUT, (ids_json(less.items()),))


def _is_awaited(workset: Workset, graph: GraphRow) -> bool:
    parent = workset.one(graph.parent) if graph.parent else None
    return parent is not None and parent.awaits == graph.id


def _bucket_name(tx: Tx, graph: GraphRow) -> str:
    if graph.state == SUCCEEDED:
        return (graph.keep_done or tx.memo.done + SCOPE) + APART
    return (graph.keep_failed or tx.memo.failed + SCOPE) + APART


def _added(tx: Tx, n: int, name: str, size: int, oldest: int | None) -> WorkflowBucket:
    """A bucket to which a workflow was added just now. ``oldest``: when the first of those that were in it before
    ended."""
    limits = limits_of(name)
    return WorkflowBucket(n, name, size, limits.age == 0 or (oldest is not None and limits.is_past(oldest, tx.now)))


def prune(tx: Tx, buckets: Sequence[WorkflowBucket]) -> list[GraphRow]:
    """Take the workflows that are beyond the limits of these buckets out of sight, and answer them: their nodes are
    still to go."""
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
        tx.run(tx.sql.retention.TAKE_OUT, (ids_json(less),))
    return doomed


def _reach(bucket: WorkflowBucket) -> int:
    """How many graphs one look takes out of a bucket at most. Each weighs something, so its count needs no more."""
    return BOUND if bucket.old else min(BOUND, bucket.size - bucket.limits.limit)


def _beyond(tx: Tx, bucket: WorkflowBucket, graphs: Sequence[GraphRow]) -> tuple[list[GraphRow], int]:
    """Which of the oldest graphs of a bucket are beyond its limits, and what they weigh."""
    limits, size, gone = bucket.limits, bucket.size, list[GraphRow]()
    for at, graph in enumerate(graphs[:BOUND]):
        if not limits.is_over(size, len(graphs) - at) and not limits.is_past(graph.finished_at, tx.now):
            break
        size -= limits.weight(graph.nodes)
        gone.append(graph)
    return gone, bucket.size - size


def prune_full(tx: Tx) -> list[GraphRow]:
    """Prune all buckets that are over their count or hold a workflow past their age."""
    return prune(tx, [WorkflowBucket(*row) for row in tx.all(tx.sql.retention.FULL, (tx.now,))])


def drop(tx: Tx, graph: int) -> None:
    """Take one graph out of sight, and out of the bucket it is in."""
    bucket, nodes, name = tx.one(tx.sql.retention.OF_GRAPH, (graph,))
    tx.run(tx.sql.retention.HIDE, (ids_json([graph]),))
    if bucket:
        tx.run(tx.sql.retention.TAKE_OUT, (ids_json([(bucket, limits_of(name).weight(nodes))]),))


def resume(workset: Workset, graph: GraphRow) -> None:
    """A workflow that was over is under way again, and in no bucket."""
    if graph.bucket:
        workset.resumed.append((graph.bucket, graph.nodes))
    workset.change_graph(graph)
    graph.state, graph.finished_at, graph.bucket, graph.looked_at = WAITING, 0, 0, workset.tx.now


def let_go(workset: Workset, node: NodeRow) -> None:
    """A job no longer awaits the graph it started, nor is it replaced by it: that graph is kept for itself from now
    on."""
    awaited = workset.graph_named(node.awaits) if node.awaits else None
    workset.change(node).awaits = ""
    node.replaced = 0
    if awaited is not None:
        workset.closing[awaited.n] = awaited
