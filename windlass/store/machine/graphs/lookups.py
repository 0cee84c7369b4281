"""Graphs as they are read: workflows, their members, and the values that lead to a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.graph import GraphInfo, Input
from windlass.core.job import Claim, Job, State
from windlass.core.links import In, Inject, Shape
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH
from windlass.store.graphs import GraphPage
from windlass.store.jobs import INLINE_MAX
from windlass.store.machine.codes import SUCCEEDED, maybe_bytes, to_bytes
from windlass.store.machine.graphs.handed import SIZE
from windlass.store.machine.jobs.rows import get
from windlass.store.machine.tx import Tx, encode, ids_json
from windlass.store.shared import CODE, STATES

COUNTED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED)
INFO = """
SELECT g.n, g.id, g.name, g.state, g.size, g.nodes, g.succeeded, g.failed, g.cancelled, g.skipped, g.reason, g.culprit,
    g.parent, g.stopping, g.meta, g.created_at, g.finished_at, v.reason, v.culprit
FROM {source} AS g CROSS JOIN nodes AS v ON v.id = g.id
"""
ONE = INFO.format(source="(SELECT * FROM graphs WHERE id = ? AND state >= 0)")
PAGE = INFO.format(
    source="(SELECT * FROM graphs WHERE n < ?1 AND state >= 0 "
    "AND (?2 = '[]' OR state IN (SELECT value FROM json_each(?2))) ORDER BY n DESC LIMIT ?3)"
) + " ORDER BY g.n DESC"  # fmt: skip


_Info = tuple[
    int, str, str, int, int, int, int, int, int, int, str, str, str, str, str, int, int, str, str
]  # fmt: skip


def info(row: Sequence[Any]) -> GraphInfo:
    """A workflow of a row of INFO, which says so if it holds something else than it should."""
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
    row = tx.one(ONE, (id,))
    return row and info(row)


def graphs(tx: Tx, states: Sequence[State], after: str, limit: int) -> GraphPage:
    """A page of workflows, newest first."""
    if after and not after.isdigit():
        raise StoreError(f"cursor {after!r} is not one a listing gave out")
    limit = min(limit, MAX_BATCH)
    codes = encode([CODE[state] for state in states]).decode()
    rows = tx.all(PAGE, (int(after or 1 << 62), codes, limit + 1))
    page = GraphPage([info(row) for row in rows[:limit]])
    page.cursor = str(rows[limit - 1][0]) if len(rows) > limit else ""
    return page


def members(tx: Tx, graph: str, after: int, limit: int) -> list[Job]:
    """The members numbered from ``after`` + 1, so many numbers on; those gone meanwhile are left out."""
    n = tx.value("SELECT n FROM graphs WHERE id = ? AND state >= 0", (graph,))
    if n is None:
        return []
    first = n + 1 + max(after + 1, 0)
    sql = "SELECT id FROM nodes WHERE n >= ? AND n < ? AND graph = ? ORDER BY n"
    ids = [id for (id,) in tx.all(sql, (first, first + min(limit, MAX_BATCH), n))]
    return [job for job in get(tx, ids) if job is not None]


# -- values


INPUT = """
SELECT v.id, coalesce(j.task, ''), coalesce(j.state, v.state), iif(v.replaced, 1, v.shape),
    coalesce(j.result, v.result), coalesce(j.error, v.error), coalesce(j.reason, v.reason)
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value LEFT JOIN jobs AS j ON j.id = v.id
"""
ENTRY = """
SELECT v.awaits, v.replaced, l.ins FROM nodes AS v CROSS JOIN links AS l ON l.n = v.n
LEFT JOIN graphs AS g ON g.n = v.graph WHERE v.id = ? AND coalesce(g.state, 0) >= 0
"""
_ins = msgspec.json.Decoder(list[In]).decode


def inputs(tx: Tx, id: str) -> list[Input]:
    """The sources that carry a value to a node. A replaced job has one: the graph that took its place."""
    row = tx.one(ENTRY, (id,))
    if row is None:
        return []
    awaits, replaced, ins = row
    edges = [In(awaits)] if replaced else [edge for edge in _ins(ins) if edge.inject is not Inject.NONE]
    found = {row[0]: row for row in tx.all(INPUT, (ids_json(dict.fromkeys(edge.source for edge in edges)),))}
    return [_input(edge, found.get(edge.source)) for edge in edges]


def _input(edge: In, row: Sequence[Any] | None) -> Input:
    if row is None:
        reason = f"the record of {edge.source} is gone"
        return Input(edge.source, "", State.FAILED, edge.inject, Shape.CALL, reason=reason)
    id, task, state, shape, result, error, reason = row
    return Input(
        id, task, STATES[state], edge.inject, Shape(shape), maybe_bytes(result), maybe_bytes(error), reason
    )  # fmt: skip


class Bequest(msgspec.Struct, array_like=True):
    """What a graph brings to the claim of a job, and whether it must not start."""

    node: int
    graph: str
    source: str
    inject: Inject
    given: str | None
    awaits: str
    stopping: str
    reason: str

    def give(self, claim: Claim) -> Claim:
        claim.graph, claim.source, claim.inject, claim.awaits = self.graph, self.source, self.inject, self.awaits
        claim.given = maybe_bytes(self.given)
        return claim


BEQUESTS = f"""
SELECT json_group_array(json_array(v.n, coalesce(g.id, ''), v.source, v.inject,
    CASE WHEN s.state = {SUCCEEDED} AND {SIZE.format("s.result")} <= {INLINE_MAX} THEN s.result
         WHEN t.state = {SUCCEEDED} AND {SIZE.format("t.result")} <= {INLINE_MAX} THEN t.result END,
    v.awaits, iif(v.aftermath, '', coalesce(g.stopping, '')), coalesce(g.reason, '')))
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.n = w.value LEFT JOIN graphs AS g ON g.n = v.graph
LEFT JOIN jobs AS s ON s.id = v.source LEFT JOIN nodes AS t ON t.id = v.source AND t.shape > 0
"""
_bequests = msgspec.json.Decoder(list[Bequest]).decode


def bequests(tx: Tx, nodes: list[int]) -> dict[int, Bequest]:
    return {found.node: found for found in _bequests(tx.value(BEQUESTS, (ids_json(nodes),)))}
