"""Retention: finished jobs are filed in buckets, and each bucket is cut back to its count and age.

Buckets are named by limit and scope (``core.keep``). A workflow is kept as a unit, under its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.job import State
from windlass.core.keep import read_bucket
from windlass.store.memory import faults
from windlass.store.memory.records import GraphRow, Row

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

PRUNE_STEP = 100
WORKFLOWS = "#workflows"
"""The scope in which workflows are kept; no queue can have this name."""


def file(hub: Hub, row: Row, bucket: str) -> None:
    hub.buckets[bucket][row.id] = row
    hub.touched.add(bucket)
    hub.weights[bucket] += weight(bucket, row)


def unfile(hub: Hub, row: Row) -> None:
    faults.leave(hub, row)
    bucket = row.keep_failed if row.state is State.FAILED else row.keep_done
    if row.state.terminal and bucket in hub.buckets and hub.buckets[bucket].pop(row.id, None) is not None:
        hub.weights[bucket] -= weight(bucket, row)


def file_graph(hub: Hub, graph: GraphRow) -> None:
    """File a workflow that is over under its end. A workflow with a parent is not filed: it goes with the parent's
    record.
    """
    parent, end = hub.jobs.get(graph.new.parent), graph.end
    if end is None or (parent is not None and parent.links is not None and parent.links.awaits == graph.new.id):
        return
    failed = end.state is not State.SUCCEEDED
    bucket = (graph.new.keep_failed if failed else graph.new.keep_done) or default_bucket(hub, WORKFLOWS, failed)
    end.keep_failed = end.keep_done = bucket
    file(hub, end, bucket)


def default_bucket(hub: Hub, queue: str, failed: bool) -> str:
    if queue not in hub.default_keep:
        hub.default_keep[queue] = hub.settings.keep.buckets(queue)
    return hub.default_keep[queue][failed]


def prune_touched(hub: Hub, now: int) -> None:
    """Cut back the buckets that grew in this step, once each."""
    for bucket in hub.touched:
        prune(hub, bucket, now, PRUNE_STEP)
    hub.touched.clear()


def prune(hub: Hub, bucket: str, now: int, limit: int) -> int:
    """Drop the records beyond a bucket's count (all of them) and those past its age (at most ``limit``)."""
    limits, rows, pruned = read_bucket(bucket), hub.buckets[bucket], 0
    while rows:
        oldest = next(iter(rows.values()))
        is_old = pruned < limit and limits.is_past(oldest.finished_at, now)
        if not is_old and not limits.is_over(hub.weights[bucket], len(rows)):
            break
        unfile(hub, oldest)
        remove(hub, oldest)
        pruned += 1
    return pruned


def remove(hub: Hub, row: Row) -> None:
    """Remove a pruned record; with the end of a workflow, the whole workflow."""
    if row.links is not None and row.links.graph is not None and row is row.links.graph.end:
        hub.drop(row.links.graph, "prune")
        return
    forget_awaited(hub, row)
    faults.leave(hub, row)
    hub.counts[row.queue][row.state] -= 1
    hub.jobs.pop(row.id, None)


def forget_awaited(hub: Hub, row: Row) -> None:
    """Drop the graph a job awaits, together with the job's record."""
    awaited = hub.graphs.get(row.links.awaits) if row.links is not None else None
    if awaited is not None and not awaited.under_way:
        hub.drop(awaited, "prune")


def weight(bucket: str, row: Row) -> int:
    """How many records this one counts for in its bucket: the end of a workflow counts for all its nodes."""
    graph = row.links.graph if row.links is not None and not row.task else None
    return read_bucket(bucket).weight(graph.new.nodes) if graph is not None else 1
