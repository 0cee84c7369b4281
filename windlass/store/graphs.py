"""The part of the contract about workflows as wholes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Job, NewJob, State
from windlass.store.answers import MAX_BATCH, GraphAnswer


class GraphPage(msgspec.Struct):
    """Workflows, newest first. ``cursor`` continues the listing, empty at its end."""

    graphs: list[GraphInfo] = []
    cursor: str = ""


class Graphs(Protocol):
    """Workflows as wholes."""

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        """Stage a part of a graph, the nodes from number ``first`` on; ``commit`` makes all of it real.

        Nothing of a staged graph can be seen, and it vanishes if it is not committed in time. At most MAX_BATCH nodes.
        """

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        """The sources that carry a value to each of these nodes, in order. At most four nodes in one call."""

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        """A page of workflows."""

    async def graph(self, id: str) -> GraphInfo | None:
        """One workflow, None where there is none."""

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        """A graph's nodes, joins included, behind number ``after``, in the order they were submitted."""
