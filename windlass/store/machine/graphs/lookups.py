"""Graphs as they are read: workflows, their members, and the values that lead to a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.graph import GraphInfo, Input, gone
from windlass.core.job import Claim, Job, State
from windlass.core.links import In, Inject, Shape
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.graphs import GraphPage
from windlass.store.machine.codes import maybe_bytes, to_bytes
from windlass.store.machine.jobs.rows import get
from windlass.store.machine.tx import Tx, encode, ids_json
from windlass.store.shared import CODE, STATES

COUNTED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED)
_Info = tuple[
    int, str, str, int, int, int, int, int, int, int, str, str, str, str, str, int, int, str, str
]  # fmt: skip


def info(row: Sequence[Any]) -> GraphInfo:
    """A workflow, made of a row of ``ONE`` or ``PAGE``. A row that was damaged raises ValidationError."""
    _, id, name, state, size, nodes, *rest = msgspec.convert(row, _Info)
    ended: Any = rest[:4]
    reason, culprit, parent, stopping, meta, created_at, finished_at, why, who = rest[4:]
    return GraphInfo(
        id=id, name=name, state=STATES[state], size=size, nodes=nodes,
        counts={str(state): count for state, count in zip(COUNTED, ended, strict=True) if count},
        reason=why or reason, culprit=culprit if stopping else who, parent=parent, stopping=stopping,
        meta=to_bytes(meta), created_at=created_at, finished_at=finished_at,
    )  # fmt: skip


def graph(tx: Tx, id: str) -> GraphInfo | None:
    row = tx.one(tx.sql.lookups.ONE, (id,))
    return row and info(row)


def graphs(tx: Tx, states: Sequence[State], after: str, limit: int) -> GraphPage:
    """A page of workflows, newest first."""
    if after and not after.isdigit():
        raise StoreError(f"cursor {after!r} is not one a listing gave out")
    limit = min(limit, MAX_BATCH)
    codes = encode([CODE[state] for state in states]).decode()
    rows = tx.all(tx.sql.lookups.PAGE, (int(after or 1 << 62), codes, limit + 1))
    page = GraphPage([info(row) for row in rows[:limit]])
    page.cursor = str(rows[limit - 1][0]) if len(rows) > limit else ""
    return page


def members(tx: Tx, graph: str, after: int, limit: int) -> list[Job]:
    """The members numbered from ``after`` + 1, so many numbers on; those gone meanwhile are left out."""
    n = tx.value(tx.sql.lookups.NUMBER, (graph,))
    if n is None:
        return []
    first = n + 1 + max(after + 1, 0)
    ids = [id for (id,) in tx.all(tx.sql.lookups.MEMBERS, (first, first + min(limit, MAX_BATCH), n))]
    return [job for job in get(tx, ids) if job is not None]


# -- values


_ins = msgspec.json.Decoder(list[In]).decode


def inputs(tx: Tx, id: str) -> list[Input]:
    """The sources that carry a value to a node. A replaced job has one: the graph that took its place."""
    row = tx.one(tx.sql.lookups.ENTRY, (id,))
    if row is None:
        return []
    awaits, replaced, ins = row
    edges = [In(awaits)] if replaced else [edge for edge in _ins(ins) if edge.inject is not Inject.NONE]
    found = {
        row[0]: row for row in tx.all(tx.sql.lookups.INPUTS, (ids_json(dict.fromkeys(edge.source for edge in edges)),))
    }
    return [_input(edge, found.get(edge.source)) for edge in edges]


def _input(edge: In, row: Sequence[Any] | None) -> Input:
    if row is None:
        return gone(edge)
    id, task, state, shape, result, error, reason = row
    return Input(
        id, task, STATES[state], edge.inject, Shape(shape), maybe_bytes(result), maybe_bytes(error), reason
    )  # fmt: skip


class Bequest(msgspec.Struct, array_like=True):
    """What a graph brings to the claim of a job, and whether the job must not start."""

    node: int
    graph: str
    source: str
    inject: Inject
    given: str | None
    awaits: str
    stopping: str
    reason: str

    def give(self, claim: Claim) -> Claim:
        """Add it to the job's claim."""
        claim.graph, claim.source, claim.inject, claim.awaits = self.graph, self.source, self.inject, self.awaits
        claim.given = maybe_bytes(self.given)
        return claim


_bequests = msgspec.json.Decoder(list[Bequest]).decode


def bequests(tx: Tx, nodes: list[int]) -> dict[int, Bequest]:
    """What graphs bring to the claims of their jobs, by the numbers of these jobs' nodes."""
    return {found.node: found for found in _bequests(tx.value(tx.sql.lookups.BEQUESTS, (ids_json(nodes),)))}
