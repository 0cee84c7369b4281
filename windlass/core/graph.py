"""Graphs: nodes joined by edges, and the rules by which one node's end decides what becomes of others.

A *node* is a job or a *join*: a record without a task that no worker ever sees. A join gathers up to ``WIDTH`` edges;
when the last of them is decided the join ends by itself, in the same step. Every graph has one join with the graph's
own id, its *end*: its state is the workflow's state. Wider fans are trees of joins. So each node has a bounded number
of edges, and the effects of one node's end are a bounded step.

Everything here is pure. Engines apply these rules; the memory engine does so literally, by calling them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.job import State
from windlass.core.links import WIDTH, Edge, In, Inject, Links, On, Out, Shape

WORK = 500
"""About how many nodes one step of an engine touches because of todos; the rest waits for the next step."""


class NewGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as it is handed to ``Store.insert_graph``.

    ``nodes``: how many records it has in all; ``size``: how many of them are jobs that count as progress. ``digest``
    tells whether two submissions under one id are the same. ``parent``: the job that adopts it, if any.
    """

    id: str
    nodes: int
    size: int
    digest: str
    name: str = ""
    meta: bytes = b"{}"
    fail_fast: bool = False
    parent: str = ""
    keep_done: str = ""
    keep_failed: str = ""


class GraphInfo(msgspec.Struct, kw_only=True):
    """A workflow as it is read back. ``counts``: its ended jobs by state. The state WAITING means that it is
    under way.
    """

    id: str
    name: str
    state: State
    size: int
    nodes: int
    counts: dict[str, int] = {}
    reason: str = ""
    culprit: str = ""
    parent: str = ""
    stopping: str = ""
    meta: bytes = b"{}"
    created_at: int = 0
    finished_at: int = 0


class Input(msgspec.Struct, array_like=True):
    """One source of a node's value, for the reader that puts the value together.

    ``result`` is the value if the source has one of its own; a join without one (``shape`` is not CALL) has inputs in
    its turn. A source that is not ``succeeded`` stands for a failure.
    """

    id: str
    task: str
    state: State
    inject: Inject
    shape: Shape
    result: bytes | None = None
    error: bytes | None = None
    reason: str = ""


# -- the rules


def decided(on: On, state: State, expired: bool = False) -> Edge:
    """The state a source's end gives its edge. ``expired``: the source was cancelled because its time had passed."""
    if on is On.DONE:
        return Edge.MET
    if on is On.SUCCESS:
        return Edge.MET if state is State.SUCCEEDED else Edge.BROKEN
    failed = state is State.FAILED or (state is State.CANCELLED and expired)
    return Edge.MET if failed else Edge.BROKEN


def decide_edges(
    outs: Sequence[Out], edges: Sequence[Edge], state: State, expired: bool = False
) -> tuple[list[Edge], list[tuple[Out, Edge]]]:
    """The states of the edges from a node that ended so, and those among them that were open until now."""
    after = [
        decided(out.on, state, expired) if edge is Edge.OPEN else edge for out, edge in zip(outs, edges, strict=True)
    ]
    return after, [(out, new) for out, old, new in zip(outs, edges, after, strict=True) if old is Edge.OPEN]


def place_of_edge(ins: Sequence[In], at: int, outs: Sequence[Out], target: str) -> int | None:
    """Which edge from its source the edge at a place among those to a target is; None if the source has no such edge.

    The same two nodes may be joined by more than one edge: the first in is the first out.
    """
    before = sum(1 for edge in ins[:at] if edge.source == ins[at].source)
    places = [n for n, out in enumerate(outs) if out.target == target]
    return places[before] if before < len(places) else None


def verdict(shape: Shape, broken: int, spare: int, stopped: str = "", is_end: bool = False) -> State:
    """What becomes of a node whose last edge is decided. READY means: a job is released, a join is met.

    ``stopped``: the graph was stopped, by ``"cancel"`` or by its first failure (``"fail"``). Its end is then never met,
    whatever its edges allow.
    """
    if broken <= spare and not (stopped and is_end):
        return State.READY
    if stopped == "cancel" or (stopped == "fail" and shape is Shape.CALL):
        return State.CANCELLED
    return State.SKIPPED if shape is Shape.CALL else State.FAILED


def due_at(at: int, delay: int, now: int) -> int:
    """When a node may run that is released now; 0 or an instant that is over means at once."""
    return max(at, now + delay if delay else 0)


def because(task: str, id: str, state: State, expired: bool = False) -> str:
    """The reason given for everything that did not happen because of one job; it names that job.

    A callback for failures is skipped because a job succeeded. A join that succeeded or was cancelled has no task.
    """
    what = state.value if state is not State.CANCELLED else "expired" if expired else "was cancelled"
    return f"{task or 'workflow'} {id} {what}"


def unfit(id: str, links: Links | None) -> str:
    """Why a node with these links cannot be in a graph; '' if it can."""
    if links is not None and max(len(links.ins), len(links.outs)) > WIDTH:
        return f"node {id!r} has more than {WIDTH} edges"
    return ""


def gone(edge: In) -> Input:
    """What stands for the source of an edge whose record is gone: a failure."""
    return Input(
        edge.source, "", State.FAILED, edge.inject, Shape.CALL, reason=f"the record of {edge.source} is gone"
    )  # fmt: skip
