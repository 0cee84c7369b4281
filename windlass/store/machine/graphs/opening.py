"""Opening: the nodes of a graph that is real become jobs in their order, as far as a step gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.graph import due_at
from windlass.core.job import NewJob
from windlass.core.terms import Terms
from windlass.store.machine.codes import BAND, READY, SCHEDULED, WAITING, to_text
from windlass.store.machine.graphs.nodes import GraphRow
from windlass.store.machine.graphs.spreading import decide
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.jobs.rows import with_terms
from windlass.store.machine.tx import Tx, decode, encode, ids_json
from windlass.store.shared import CODE


class UnopenedJob(msgspec.Struct, array_like=True):
    """What is kept of a job of a graph until it is accepted; its JSON is the node's part."""

    id: str
    task: str
    version: int
    queue: str
    priority: int
    payload: str
    meta: str
    expires_at: int
    expire_to: int
    max_crashes: int
    crash_delay: int
    keep_done: str | None
    keep_failed: str | None
    terms: str | None = None


class UnopenedNode(msgspec.Struct, array_like=True):
    """A node that is to be opened, as the statements of ``OpeningSql`` answer it. Joins have no job to be accepted, nor
    have nodes that were opened before their turn."""

    n: int
    open: int
    broken: int
    spare: int
    delay: int
    at: int
    expires_in: int
    shape: int
    aftermath: int
    watched: int = 0
    job: UnopenedJob | None = None


_unopened = msgspec.json.Decoder(list[UnopenedNode]).decode


def unopened_job(job: NewJob) -> UnopenedJob:
    return UnopenedJob(
        job.id, job.task, job.version, job.queue, job.priority, to_text(job.payload), to_text(job.meta), job.expires_at,
        CODE[job.expire_to], job.max_crashes, job.crash_delay, job.keep_done or None, job.keep_failed or None,
        None if job.terms is None else encode(job.terms).decode(),
    )  # fmt: skip


def open_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """Open the next nodes of a graph; how many these are, and the number of the last one."""
    if not graph.under_way and not graph.over:
        return 0, graph.last
    tx = workset.tx
    workset.flush()
    nodes = _unopened(tx.value(tx.sql.opening.PAGE, (cursor, graph.last, limit)))
    last = nodes[-1].n if len(nodes) == limit else graph.last
    tx.run(tx.sql.opening.TAKE_PAGE, (cursor, last))
    graph.opened = last - graph.n
    workset.change_graph(graph)
    open_nodes(workset, [(graph, node) for node in nodes])
    return len(nodes), last


def open_wholes(workset: Workset, rests: Sequence[tuple[GraphRow, int]]) -> int:
    """Open all nodes of each of these graphs that are behind a number; how many nodes that is."""
    tx = workset.tx
    workset.flush()
    nodes = _unopened(tx.value(tx.sql.opening.BY_RANGES, (ids_json((cursor, graph.last) for graph, cursor in rests),)))
    tx.run(tx.sql.opening.TAKE, (ids_json(node.n for node in nodes),))
    opened, at = [], 0
    for node in nodes:
        while node.n > rests[at][0].last or node.n <= rests[at][1]:
            at += 1
        opened.append((rests[at][0], node))
    for graph, _ in rests:
        graph.opened = graph.nodes
        workset.change_graph(graph)
    open_nodes(workset, opened)
    return len(nodes)


def open_early(workset: Workset, graph: GraphRow, numbers: Sequence[int]) -> None:
    """Open nodes of a graph that are wanted before their turn comes."""
    if not numbers:
        return
    tx = workset.tx
    workset.flush()
    nodes = _unopened(tx.value(tx.sql.opening.BY_NUMBER, (ids_json(numbers),)))
    tx.run(tx.sql.opening.TAKE, (ids_json(numbers),))
    open_nodes(workset, [(graph, node) for node in nodes])


def open_nodes(workset: Workset, opened: Sequence[tuple[GraphRow, UnopenedNode]]) -> None:
    """Accept the jobs of these nodes. A job that waits for nothing is ready or scheduled at once; every other node
    without an open edge is decided."""
    tx, rows, to_decide = workset.tx, [], []
    for graph, node in opened:
        free = node.open == 0 and node.broken <= node.spare and (node.aftermath or not graph.stopping)
        if node.job is not None:
            rows.append(_job_row(workset, node, node.job, bool(free)))
        if node.open == 0 and (node.job is None or not free):
            to_decide.append(node.n)
    if rows:
        workset.unsaved.wake_for_due()
        tx.run(tx.sql.opening.ADMIT, (tx.now, encode(rows).decode()))
        _move_watches(tx, [node.n for _, node in opened if node.watched and node.job])
    workset.forget(node.n for _, node in opened)
    for known in workset.numbered(to_decide):
        if known.state == WAITING and known.open == 0:
            decide(workset, known)


def _job_row(workset: Workset, node: UnopenedNode, job: UnopenedJob, free: bool) -> list[Any]:
    """A job as ``ADMIT`` takes it. ``free``: it waits for nothing."""
    tx, state, place, due, expires = workset.tx, WAITING, 0, 0, job.expires_at
    if free:
        due = due_at(node.at, node.delay, tx.now)
        expires = tx.now + node.expires_in if node.expires_in else expires
        if due > tx.now:
            state = SCHEDULED
            workset.unsaved.due.append((due, job.queue))
        else:
            state, due = READY, 0
            place = (9 - job.priority) * BAND + tx.take_ranks(1)
    tx.count(job.queue, state, 1)
    workset.event("enqueued", [job.id, job.task, job.queue])
    row = [
        job.id, job.task, job.version, job.queue, job.priority, job.payload, job.meta, state, place, due,
        expires, job.expire_to, job.max_crashes, job.crash_delay, job.keep_done, job.keep_failed,
    ]  # fmt: skip
    lane = with_terms(tx, row, None if job.terms is None else decode(job.terms, type=Terms), node.n)
    if lane:
        tx.effects.lane(job.queue, lane).joined += 1
    elif state == READY:
        workset.released[job.queue] += 1
    return row


def _move_watches(tx: Tx, watched: list[int]) -> None:
    """Whoever watched a node before it had a job watches the job."""
    if watched:
        numbers = ids_json(watched)
        tx.run(tx.sql.opening.MOVE_WATCHES, (numbers,))
        tx.run(tx.sql.opening.WATCHED, (numbers,))
