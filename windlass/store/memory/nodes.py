"""The rows of graphs: a node's place, the graph itself, and what is still to be done about it. No rules."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from windlass.core.graph import NewGraph
from windlass.core.job import NewJob, State
from windlass.core.links import Edge, Links

if TYPE_CHECKING:
    from windlass.store.memory.records import Row

ALONE = Links()
"""The links of a job that is in no graph itself and waits for one it has started."""


class Phase(StrEnum):
    """Only a real graph can be seen. What is left of a dropped one is in nobody's way."""

    STAGED = "staged"
    REAL = "real"
    DROPPED = "dropped"


class NodeState:
    """What is kept of a node besides its record.

    ``edges`` are the states of its out-edges; ``open`` and ``broken`` count its in-edges. ``delay``, ``at`` and
    ``expires_in`` wait for the release. The edge from an awaited graph to its parent is not among the counted ones:
    it is there only while ``awaits`` says so.
    """

    __slots__ = (
        "at", "awaits", "broken", "culprit", "delay", "edges", "expires_in", "graph", "links",
        "open", "opened", "replaced",
    )  # fmt: skip

    def __init__(self, graph: GraphRow | None, job: NewJob | None = None) -> None:
        self.graph = graph
        self.links = (job.links if job else None) or ALONE
        self.open, self.broken, self.culprit = len(self.links.ins), 0, ""
        self.edges = [Edge.OPEN] * len(self.links.outs)
        self.delay, self.at, self.expires_in = (job.delay, job.at, job.expires_in) if job else (0, 0, 0)
        self.awaits, self.replaced = "", False
        self.opened = graph is None


class GraphRow:
    """One graph. ``n`` is its place in the order of commits, ``members`` its node ids in order, ``end`` its last join.

    ``todos``: how many of the todos under way are its own. ``stamp`` changes with every end and every new start in it,
    so that an audit which takes several steps notices that things moved meanwhile.
    """

    __slots__ = (
        "audit_at", "counts", "created_at", "culprit", "end", "finished_at", "looked", "looked_stamp", "members", "n",
        "new", "opened", "phase", "reason", "stamp", "stopping", "todos", "touched_at",
    )  # fmt: skip

    def __init__(self, new: NewGraph, now: int) -> None:
        self.new, self.phase = new, Phase.STAGED
        self.members: list[str] = []
        self.end: Row | None = None
        self.counts: Counter[State] = Counter()
        self.stopping = self.reason = self.culprit = ""
        self.n = self.opened = self.todos = self.stamp = 0
        self.created_at = self.finished_at = self.audit_at = self.looked = self.looked_stamp = 0
        self.touched_at = now

    @property
    def under_way(self) -> bool:
        return self.phase is Phase.REAL and not self.finished_at


class Todo:
    """A piece of work that may take more than one step; ``cursor`` is where it goes on."""

    __slots__ = ("cursor", "graph", "op", "row")

    def __init__(self, op: str, graph: GraphRow | None, row: Row | None = None) -> None:
        self.op, self.graph, self.row, self.cursor = op, graph, row, 0
