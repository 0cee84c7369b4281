"""Jobs of a committed graph take their place among the others, node by node in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.job import NewJob
from windlass.core.terms import Terms
from windlass.store.machine.codes import BAND, READY, SCHEDULED, WAITING, to_text
from windlass.store.machine.graphs.nodes import GraphRow
from windlass.store.machine.graphs.spreading import decide
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.jobs.records import with_terms
from windlass.store.machine.tx import Tx, decode, encode, ids_json
from windlass.store.shared import CODE


class UnopenedJob(msgspec.Struct, array_like=True):
    """What is kept of a job until it is accepted."""

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
    """A node that is to be opened; which is a row of them in JSON. Joins have no body, nor have jobs that
    were opened before their turn."""

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
    body: UnopenedJob | None = None


_parts = msgspec.json.Decoder(list[UnopenedNode]).decode


def body_of(job: NewJob) -> UnopenedJob:
    return UnopenedJob(
        job.id, job.task, job.version, job.queue, job.priority, to_text(job.payload), to_text(job.meta), job.expires_at,
        CODE[job.expire_to], job.max_crashes, job.crash_delay, job.keep_done or None, job.keep_failed or None,
        None if job.terms is None else encode(job.terms).decode(),
    )  # fmt: skip


def open_page(workset: Workset, graph: GraphRow, cursor: int, limit: int) -> tuple[int, int]:
    """The next nodes of a graph: how many, and the number of the last one."""
    if not graph.under_way and not graph.over:
        return 0, graph.last
    workset.flush()
    parts = read_parts(workset.tx, cursor, graph.last, limit)
    last = parts[-1].n if len(parts) == limit else graph.last
    workset.tx.run(workset.tx.sql.opening.TAKE_PAGE, (cursor, last))
    graph.opened = last - graph.n
    workset.change_graph(graph)
    open_nodes(workset, [(graph, part) for part in parts])
    return len(parts), last


def open_wholes(workset: Workset, places: Sequence[tuple[GraphRow, int]]) -> int:
    """All that is left to open of graphs, each behind a node; how many nodes that is."""
    workset.flush()
    ranges = encode([(cursor, graph.last) for graph, cursor in places]).decode()
    parts = _parts(workset.tx.value(workset.tx.sql.opening.BY_RANGES, (ranges,)))
    workset.tx.run(workset.tx.sql.opening.TAKE, (ids_json(part.n for part in parts),))
    opened, at = [], 0
    for part in parts:
        while part.n > places[at][0].last or part.n <= places[at][1]:
            at += 1
        opened.append((places[at][0], part))
    for graph, _ in places:
        graph.opened = graph.nodes
        workset.change_graph(graph)
    open_nodes(workset, opened)
    return len(parts)


def read_parts(tx: Tx, after: int, last: int, limit: int) -> list[UnopenedNode]:
    return _parts(tx.value(tx.sql.opening.PAGE, (after, last, limit)))


def open_early(workset: Workset, graph: GraphRow, numbers: Sequence[int]) -> None:
    """Jobs that are wanted before their turn comes."""
    if not numbers:
        return
    workset.flush()
    parts = _parts(workset.tx.value(workset.tx.sql.opening.BY_NUMBER, (ids_json(numbers),)))
    workset.tx.run(workset.tx.sql.opening.TAKE, (ids_json(numbers),))
    open_nodes(workset, [(graph, part) for part in parts])


def open_nodes(workset: Workset, opened: Sequence[tuple[GraphRow, UnopenedNode]]) -> None:
    """Accept jobs. Those that wait for nothing are ready or scheduled at once; whatever else is decided, is decided."""
    tx, rows, due_now = workset.tx, [], []
    for graph, part in opened:
        free = part.open == 0 and part.broken <= part.spare and (part.aftermath or not graph.stopping)
        if part.body is not None:
            rows.append(_row(workset, part, part.body, bool(free)))
        if part.open == 0 and (part.body is None or not free):
            due_now.append(part.n)
    if rows:
        workset.unsaved.wake_for_due()
        tx.run(tx.sql.opening.ADMIT, (tx.now, encode(rows).decode()))
        _move_watches(tx, [part.n for _, part in opened if part.watched and part.body])
    workset.forget(part.n for _, part in opened)
    for node in workset.numbered(due_now):
        if node.state == WAITING and node.open == 0:
            decide(workset, node)


def _row(workset: Workset, part: UnopenedNode, body: UnopenedJob, free: bool) -> list[Any]:
    """A job as ``ADMIT`` takes it."""
    tx, state, place, expires = workset.tx, WAITING, 0, body.expires_at
    due = max(part.at, tx.now + part.delay if part.delay else 0) if free else 0
    if free:
        expires = tx.now + part.expires_in if part.expires_in else expires
        if due > tx.now:
            state = SCHEDULED
            workset.unsaved.due.append((due, body.queue))
        else:
            state, due = READY, 0
            place = (9 - body.priority) * BAND + tx.take_ranks(1)
    tx.count(body.queue, state, 1)
    workset.event("enqueued", [body.id, body.task, body.queue])
    row = [
        body.id, body.task, body.version, body.queue, body.priority, body.payload, body.meta, state, place, due,
        expires, body.expire_to, body.max_crashes, body.crash_delay, body.keep_done, body.keep_failed,
    ]  # fmt: skip
    lane = with_terms(tx, row, None if body.terms is None else decode(body.terms, type=Terms), part.n)
    if lane:
        tx.touch(body.queue, lane).joined += 1
    elif state == READY:
        workset.released[body.queue] += 1
    return row


def _move_watches(tx: Tx, watched: list[int]) -> None:
    """Who watched a node from before it was a job watches the job."""
    if watched:
        numbers = ids_json(watched)
        tx.run(tx.sql.opening.MOVE_WATCHES, (numbers,))
        tx.run(tx.sql.opening.WATCHED, (numbers,))
