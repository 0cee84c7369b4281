"""Nodes and graphs as a step sees them. What a step does with them is in ``workset``."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.core.links import Edge, In, Out
from windlass.store.machine.codes import FIRST_TERMINAL, WAITING

NONE_SUCH = -1
"""The state of a job that has no record: it is not accepted yet, or gone."""

STAGED, DROPPED = -1, -2
"""States of graphs that nobody sees."""


EDGES = {str(int(edge)): edge for edge in Edge}
"""The states of edges by their digits."""


class NodeRow(msgspec.Struct, array_like=True):
    """A job or join as its graph knows it; which is a row of them in JSON."""

    n: int
    graph: int
    id: str
    shape: int
    spare: int
    aftermath: int
    open: int
    broken: int
    delay: int
    at: int
    expires_in: int
    replaced: int
    watched: int
    source: str
    edges: str
    culprit: str
    awaits: str
    run: int
    finished_at: int
    state: int
    reason: str
    job: int = 0
    task: str = ""
    queue: str = ""
    crashes: int = 0
    max_crashes: int = 0
    worker: int = 0
    cancel: int = 0
    bucket: int = 0

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def spread(self) -> bool:
        """Whether all edges from it are decided."""
        return "0" not in self.edges

    def read_edges(self) -> list[Edge]:
        """The states of the edges from it, in their order."""
        return [EDGES[digit] for digit in self.edges]

    def write_edges(self, edges: Iterable[Edge]) -> None:
        self.edges = "".join(str(int(edge)) for edge in edges)


class GraphRow(msgspec.Struct, array_like=True):
    """A graph as a step sees it; which is a row of them in JSON."""

    n: int
    id: str | None
    state: int
    nodes: int
    opened: int
    counts: list[int]
    fail_fast: int
    looked_at: int
    looked: int
    finished_at: int
    bucket: int
    stopping: str
    reason: str
    culprit: str
    name: str
    parent: str
    keep_done: str
    keep_failed: str
    place: int

    @property
    def under_way(self) -> bool:
        return self.state == WAITING

    @property
    def over(self) -> bool:
        return self.state >= FIRST_TERMINAL

    @property
    def last(self) -> int:
        """The number of its last node."""
        return self.n + self.nodes


graphs_of = msgspec.json.Decoder(list[GraphRow]).decode
nodes_of = msgspec.json.Decoder(list[NodeRow]).decode
outs_of = msgspec.json.Decoder(list[tuple[int, list[Out]]]).decode
ins_of = msgspec.json.Decoder(list[tuple[int, list[In]]]).decode
