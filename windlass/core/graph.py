"""Graphs: nodes joined by edges, and the rules by which an end somewhere decides what becomes of the rest.

A *node* is a job, or a *join*: a record without a task that no worker ever sees. A join gathers up to ``WIDTH`` edges;
when the last of them is decided it ends by itself, in the same step. Every graph has one join that bears the graph's
own id, its *end*: its state is the workflow's state. Wider fans are trees of joins, so that each node has a bounded
number of edges and whatever one node's end means for others is a bounded step.

Everything here is pure. Engines apply these rules; the memory engine does so literally, by calling them.
"""

from __future__ import annotations

import msgspec

from windlass.core.job import State
from windlass.core.links import Edge, Inject, On, Shape

WORK = 500
"""About how many nodes one step of an engine touches because of todos; the rest waits for the next step."""


class NewGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as it is handed to ``Store.insert_graph``.

    ``nodes``: how many records it has in all; ``size``: how many of them are jobs whose progress counts. ``digest``
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
    """A workflow as it is read back. ``counts``: its ended jobs by state. WAITING means: it is under way."""

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
    """One source of a node, as whoever puts the node's value together needs it.

    ``result`` is the value if the source has one of its own; a join that has none (``shape`` is not CALL) has inputs in
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
    """What a source's end makes of its edge. ``expired``: it was cancelled because its time had passed."""
    if on is On.DONE:
        return Edge.MET
    if on is On.SUCCESS:
        return Edge.MET if state is State.SUCCEEDED else Edge.BROKEN
    failed = state is State.FAILED or (state is State.CANCELLED and expired)
    return Edge.MET if failed else Edge.BROKEN


def verdict(shape: Shape, broken: int, spare: int, stopped: str = "", is_end: bool = False) -> State:
    """What becomes of a node whose last edge is decided. READY stands for: released, or a join that is met.

    ``stopped``: the graph was stopped, by ``"cancel"`` or by its first failure (``"fail"``). Its end is never met then,
    whatever its edges allow.
    """
    if broken <= spare and not (stopped and is_end):
        return State.READY
    if stopped == "cancel" or (stopped == "fail" and shape is Shape.CALL):
        return State.CANCELLED
    return State.SKIPPED if shape is Shape.CALL else State.FAILED


def because(task: str, id: str, state: State, expired: bool = False) -> str:
    """The reason of everything that did not happen because of one job: it names the job.

    A callback for failures is skipped because something succeeded. A join that succeeded or was cancelled has no task.
    """
    what = state.value if state is not State.CANCELLED else "expired" if expired else "was cancelled"
    return f"{task or 'workflow'} {id} {what}"
