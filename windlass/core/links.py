"""A node's place in its graph: the edges that lead to it and from it. Values only; the rules are in ``core.graph``."""

from __future__ import annotations

from enum import IntEnum

import msgspec

WIDTH = 250
"""No node has more edges than this, neither in nor out."""


class On(IntEnum):
    """The end of its source by which an edge is met. Any other end breaks it."""

    SUCCESS = 0
    FAILURE = 1
    DONE = 2


class Inject(IntEnum):
    """What an edge carries to its target.

    RESULT: the source's value (the first argument of a job, an item of a join's list). SPLICE: the items of the
    source's list, each as an item. IF_SUCCEEDED: the value; nothing for a source that did not succeed. ASIDE: the
    value, which the job may ask for and does not get as an argument.
    """

    NONE = 0
    RESULT = 1
    SPLICE = 2
    IF_SUCCEEDED = 3
    ASIDE = 4


class Shape(IntEnum):
    """What a node is: a job to be called, a join that passes its one value on, or a join that makes a list."""

    CALL = 0
    ONE = 1
    MANY = 2


class Edge(IntEnum):
    """The state of one edge. Only an open edge is decided; only a broken edge is opened again."""

    OPEN = 0
    MET = 1
    BROKEN = 2


class In(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An edge as its target knows it."""

    source: str
    on: On = On.SUCCESS
    inject: Inject = Inject.RESULT


class Out(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An edge as its source knows it. ``hasty``: if the source does not succeed, the target stops waiting for its other
    edges.
    """

    target: str
    on: On = On.SUCCESS
    hasty: bool = False


class Links(msgspec.Struct, frozen=True, array_like=True):
    """A node's place in its graph.

    ``spare``: how many edges may break before the node is given up. ``aftermath``: the node is a callback of the graph,
    and no part of its progress, verdict or cancellation.
    """

    ins: list[In] = []
    outs: list[Out] = []
    spare: int = 0
    shape: Shape = Shape.CALL
    aftermath: bool = False
