"""What the console answers about workflows: lists, the picture of one, and the same over time. As in ``replies``,
instants and durations are milliseconds, 0 for never.
"""

from __future__ import annotations

import msgspec


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow in a list; its state is ``running`` while it is under way."""

    id: str
    name: str
    state: str
    reason: str
    total: int
    done: int
    counts: dict[str, int] = {}
    parent: str = ""
    culprit: str = ""
    created_at: int = 0
    finished_at: int = 0


class WorkflowList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of workflows, newest first. ``cursor`` goes on, empty at the end."""

    workflows: list[WorkflowRow]
    cursor: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A box in the picture of a workflow, with its place. ``folded``: so many jobs alike are drawn as one; ``id`` is
    empty then. ``error``: in one line. ``took``: ms, till now while it runs. ``group``: by which many are unfolded.
    ``culprit``: it is the one that made the workflow fail.
    """

    id: str
    label: str
    state: str
    x: float
    y: float
    took: int | None = None
    group: str = ""
    culprit: bool = False
    folded: int = 0
    states: dict[str, int] = {}
    error: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An edge: numbers of nodes in the list. ``on``: success, failure or end."""

    source: int
    target: int
    on: str = "success"


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the waterfall: ready at ``wait``, running from ``start`` to ``end``, 0 for never. ``critical``: the
    end of the workflow waited for it. ``id``, ``group``, ``folded`` and ``states`` as those of a node.
    """

    id: str
    label: str
    state: str
    group: str = ""
    folded: int = 0
    states: dict[str, int] = {}
    wait: int = 0
    start: int = 0
    end: int = 0
    critical: bool = False
    culprit: bool = False


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one task that stand alike in a workflow, drawn as one unless ``open``. ``key``: the first of them."""

    key: str
    label: str
    count: int
    states: dict[str, int]
    open: bool = False


class WorkflowDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, its picture, and the same over time from ``began`` to ``ended`` (now, while it is under way).

    ``cut``, ``cut_bars``: there are so many more nodes and rows than are drawn.
    """

    row: WorkflowRow
    nodes: list[Node]
    lines: list[Line]
    width: float
    height: float
    cut: int = 0
    groups: list[Group] = []
    bars: list[Bar] = []
    cut_bars: int = 0
    began: int = 0
    ended: int = 0
    actions: tuple[str, ...] = ()
