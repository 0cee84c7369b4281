"""What moves of jobs mean for others: one value, which whoever moves jobs adds to, and whoever sees to it takes over.

A step of a transaction moves jobs and goes on; what that means is not done in passing. The parts are taken over by

- ``graphs/todos.py``: nodes whose jobs have ended, to be spread along their edges, and graphs to be opened that jobs
  have adopted;
- ``flow/uniques.py``: unique keys that are free, for their successors;
- ``flow/lanes.py``: keys that a running job left, and lanes that jobs joined or left.

An operation is not over before its effects are all taken over; taking may add new ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from windlass.store.machine.graphs.nodes import GraphRow


class LaneChange:
    """What happened to a lane.

    ``joined``: so many jobs came into it. ``left``: one or more went out of its line. ``gone``: the highest number of
    those that have ended or were deleted. ``moved``: jobs that went to another queue or were deleted. ``free``: it may
    get on where it waits.
    """

    __slots__ = ("free", "gone", "joined", "left", "moved")

    def __init__(self) -> None:
        self.joined = self.gone = 0
        self.moved: set[int] = set()
        self.free = self.left = False


class LaneName(NamedTuple):
    """A lane, by its queue and its name there."""

    queue: str
    name: str


class Effects:
    """What is still to be seen to."""

    __slots__ = ("_adopted", "_freed", "_lanes", "_left", "_nodes")

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._adopted: list[GraphRow] = []
        self._lanes: dict[LaneName, LaneChange] = {}
        self._left: set[LaneName] = set()
        self._freed: list[tuple[str, int]] = []

    # -- adding

    def nodes_ended(self, nodes: Iterable[tuple[int, int]]) -> None:
        """Jobs with these nodes have ended; each with the state it was in before."""
        self._nodes.update(nodes)

    def graphs_adopted(self, graphs: Iterable[GraphRow]) -> None:
        """Graphs that a job waits for from now on, as they are; none of their nodes is opened yet."""
        self._adopted.extend(graphs)

    def lane(self, queue: str, name: str) -> LaneChange:
        """What happens to a lane, to be said there."""
        return self._lanes.setdefault(LaneName(queue, name), LaneChange())

    def lane_left(self, queue: str, name: str) -> None:
        """A running job of the lane is over, and another lane may wait at the gate of its key."""
        self._left.add(LaneName(queue, name))

    def keys_freed(self, keys: Iterable[tuple[str, int]]) -> None:
        """Unique keys whose holder or successor, the job with this number, is over or gone."""
        self._freed.extend(keys)

    # -- taking over

    @property
    def in_graphs(self) -> bool:
        """Whether graphs are concerned."""
        return bool(self._nodes or self._adopted)

    @property
    def freed(self) -> bool:
        """Whether unique keys are free."""
        return bool(self._freed)

    @property
    def in_lanes(self) -> bool:
        """Whether lanes or unique keys are concerned."""
        return bool(self._lanes or self._freed or self._left)

    def has_ended(self, after: int, last: int) -> bool:
        """Whether a node numbered behind the one and up to the other is among those that ended."""
        return any(after < node <= last for node in self._nodes)

    def take_nodes(self) -> dict[int, int]:
        """Nodes that ended, with the state each was in before."""
        taken, self._nodes = self._nodes, {}
        return taken

    def take_adopted(self) -> list[GraphRow]:
        taken, self._adopted = self._adopted, []
        return taken

    def take_lanes(self) -> dict[LaneName, LaneChange]:
        taken, self._lanes = self._lanes, {}
        return taken

    def take_left(self) -> set[LaneName]:
        taken, self._left = self._left, set()
        return taken

    def take_freed(self) -> list[tuple[str, int]]:
        taken, self._freed = self._freed, []
        return taken
