"""Graphs: their nodes as they are handed in, and workflows and inputs as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core import lifecycle
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import NewJob, State
from windlass.core.links import WIDTH, Inject, Links, Shape
from windlass.errors import StoreError
from windlass.store.answers import Accept, GraphAnswer
from windlass.store.redis.commands import Word
from windlass.store.redis.wire.flow import terms
from windlass.store.redis.wire.packing import UNREADABLE, encode, raw
from windlass.store.redis.wire.records import ALONE, read_came_with, read_head
from windlass.store.shared import CODE, STATES

_graph_answer = msgspec.msgpack.Decoder(tuple[Accept, str, int, bool]).decode
_WAITING = CODE[State.WAITING]


def insert_graph(graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> list[Word]:
    """Nodes go as they will be kept, so that the function need not look into any of them."""
    said = (
        graph.id, graph.nodes, graph.size, graph.digest, graph.name, int(graph.fail_fast), graph.parent,
        graph.keep_done, graph.keep_failed,
    )  # fmt: skip
    args: list[Word] = [encode(said), graph.meta, first, int(commit), ""]
    for node in nodes:
        links = node.links or ALONE
        if max(len(links.ins), len(links.outs)) > WIDTH:
            args[4] = args[4] or node.id
        ins = [part for edge in links.ins for part in (edge.source, edge.on, edge.inject)]
        outs = [part for edge in links.outs for part in (edge.target, edge.on, edge.hasty)]
        body = encode((node.task, node.version, node.queue, node.priority, node.payload, node.meta))
        came_with = encode((graph.id, ins, outs, links.spare, links.shape, links.aftermath))
        args += (node.id, body[1:], came_with, encode(_new_head(graph.id, node, links, outs)))
    return args


def _new_head(graph: str, node: NewJob, links: Links, outs: list[Any]) -> tuple[Any, ...]:
    """The head of a node that waits, and is nothing yet that anyone counts. The order is that of lua/records.lua."""
    source, inject = next(((edge.source, edge.inject) for edge in links.ins if edge.inject), ("", 0))
    place = (
        graph, 0, len(links.ins), 0, links.spare, links.shape, "", "", 0, node.delay, node.at, node.expires_in,
        source, inject, outs, "0" * len(links.outs), int(links.aftermath),
    )  # fmt: skip
    return (
        0, 0, node.task, node.version, node.queue, node.priority, _WAITING, 1, 0, 0, 0, 0, 0, "", 0, 0, 0, 0,
        node.expires_at, CODE[node.expire_to], node.max_crashes, node.crash_delay, 0, 0, 0, 0, node.keep_done,
        node.keep_failed, "", "", False, False, terms(node.terms), place,
    )  # fmt: skip


def graph_answer(packed: bytes) -> GraphAnswer:
    return GraphAnswer(*_graph_answer(packed))


def inputs(packed: bytes, heads: Sequence[bytes | None]) -> list[Input]:
    """The sources of a node, from what it came with and their heads."""
    if not packed:
        return []
    try:
        ins = read_came_with(packed)[1]
        edges = [(ins[k], Inject(ins[k + 2])) for k in range(0, len(ins), 3) if ins[k + 2]]
    except UNREADABLE:
        raise StoreError("the edges of this job are damaged: nobody knows any more what its arguments are") from None
    return [_input(source, inject, head) for (source, inject), head in zip(edges, heads, strict=True)]


def _input(source: str, inject: Inject, head: bytes | None) -> Input:
    try:
        h = read_head(head or b"")
        if not isinstance(h.links, bool):
            shape = Shape.ONE if h.links.replaced else Shape(h.links.shape)
            return Input(source, h.task, STATES[h.state], inject, shape, raw(h.result), raw(h.error), h.reason)
    except UNREADABLE:
        pass
    return Input(source, "", State.FAILED, inject, Shape.CALL, reason=f"the record of {source} is gone")


class GraphRow(msgspec.Struct, array_like=True):
    """A graph's row; the order is that of ``G`` in lua/graphs/nodes.lua."""

    name: str
    size: int
    nodes: int
    digest: str
    fail_fast: int
    parent: str
    keep_done: str
    keep_failed: str
    n: int
    staged: int
    opened: int
    real: int
    state: int
    stopping: str
    reason: str
    culprit: str
    created: int
    finished: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int


_graph_row = msgspec.msgpack.Decoder(GraphRow).decode
GRAPH = 3


def graphs(parts: Sequence[bytes]) -> list[GraphInfo]:
    return [graph(*parts[at : at + GRAPH]) for at in range(0, len(parts), GRAPH)]


def graph(id: bytes, packed: bytes, meta: bytes) -> GraphInfo:
    try:
        return _sound_graph(id, packed, meta)
    except UNREADABLE:
        failed = GraphInfo(id=id.decode("utf-8", "replace"), name="", state=State.FAILED, size=0, nodes=0, counts={})
        failed.reason = lifecycle.CORRUPT
        return failed


def _sound_graph(id: bytes, packed: bytes, meta: bytes) -> GraphInfo:
    g = _graph_row(packed)
    ended = zip(STATES[4:], (g.succeeded, g.failed, g.cancelled, g.skipped), strict=True)
    return GraphInfo(
        id=id.decode(), name=g.name, state=STATES[g.state], size=g.size, nodes=g.nodes,
        counts={str(state): number for state, number in ended if number}, reason=g.reason, culprit=g.culprit,
        parent=g.parent, stopping=g.stopping, meta=meta, created_at=g.created, finished_at=g.finished,
    )  # fmt: skip
