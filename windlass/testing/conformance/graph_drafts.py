"""Small graphs for the rules. Tests name the nodes; edges lead to a node from those it comes after.

A draft counts nodes, links them and makes the digest; engines say what it means. It is not how workflows are planned:
the rules hold for any graph, also for those that no builder makes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.core.links import WIDTH, In, Inject, Links, On, Out, Shape
from windlass.testing.conformance.bench import new_job


class After(NamedTuple):
    """An edge from ``source`` to the node that is being added."""

    source: str
    on: On = On.SUCCESS
    inject: Inject = Inject.RESULT
    hasty: bool = False


def done(source: str, inject: Inject = Inject.RESULT, hasty: bool = False) -> After:
    return After(source, On.DONE, inject, hasty)


def failure(source: str, inject: Inject = Inject.RESULT) -> After:
    return After(source, On.FAILURE, inject)


class DraftNode(NamedTuple):
    """A node as it was added; jobs have the fields of a NewJob, joins have none."""

    id: str
    after: tuple[After, ...]
    shape: Shape
    spare: int
    aftermath: bool
    fields: dict[str, Any]


class GraphDraft:
    """A graph in the making: ``GraphDraft("g").job("a").job("b", "a").end("b")``. Nodes keep the order they were added
    in.
    """

    def __init__(self, id: str = "g", *, parent: str = "", parent_on: On = On.SUCCESS, **fields: Any) -> None:
        self.id, self.parent, self.parent_on, self.fields = id, parent, parent_on, fields
        self.added: list[DraftNode] = []

    def job(self, id: str, *after: str | After, spare: int = 0, aftermath: bool = False, **fields: Any) -> GraphDraft:
        return self._add(DraftNode(id, _edges(after), Shape.CALL, spare, aftermath, fields))

    def join(self, id: str, *after: str | After, shape: Shape = Shape.MANY, spare: int = 0) -> GraphDraft:
        return self._add(DraftNode(id, _edges(after), shape, spare, False, {}))

    def end(self, *after: str | After, shape: Shape = Shape.ONE, spare: int = 0) -> GraphDraft:
        return self.join(self.id, *after, shape=shape, spare=spare)

    def _add(self, node: DraftNode) -> GraphDraft:
        self.added.append(node)
        return self

    @property
    def jobs(self) -> list[str]:
        return [node.id for node in self.added if node.shape is Shape.CALL]

    @property
    def ids(self) -> list[str]:
        return [node.id for node in self.added]

    @property
    def nodes(self) -> list[NewJob]:
        outs: dict[str, list[Out]] = defaultdict(list)
        for node in self.added:
            for edge in node.after:
                outs[edge.source].append(Out(node.id, edge.on, edge.hasty))
        if self.parent:
            outs[self.id].append(Out(self.parent, self.parent_on))
        return [_record(node, outs[node.id]) for node in self.added]

    @property
    def graph(self) -> NewGraph:
        size = sum(1 for node in self.added if node.shape is Shape.CALL and not node.aftermath)
        digest = hashlib.sha256(msgspec.json.encode(self.nodes)).hexdigest()
        made = {"nodes": len(self.added), "size": size, "digest": digest, "parent": self.parent}
        return NewGraph(id=self.id, **{**made, **self.fields})


def _edges(after: Sequence[str | After]) -> tuple[After, ...]:
    return tuple(After(edge) if isinstance(edge, str) else edge for edge in after)


def _record(node: DraftNode, outs: list[Out]) -> NewJob:
    ins = [In(edge.source, edge.on, edge.inject) for edge in node.after]
    links = Links(ins, outs, node.spare, node.shape, node.aftermath)
    if node.shape is Shape.CALL:
        return new_job(node.id, links=links, **node.fields)
    return NewJob(id=node.id, task="", queue="", payload=b"", links=links)


# -- the shapes most rules need


def chain(*ids: str, id: str = "g", parent: str = "", **fields: Any) -> GraphDraft:
    """Jobs one after the other, and the end after the last. ``fields`` are those of the graph."""
    plan = GraphDraft(id, parent=parent, **fields)
    for before, one in zip([None, *ids], ids, strict=False):
        plan.job(one, *([before] if before else []))
    return plan.end(ids[-1])


def group(*ids: str, id: str = "g", on: On = On.SUCCESS, spare: int = 0, parent: str = "", **fields: Any) -> GraphDraft:
    """Jobs side by side; the end is the list of their values."""
    plan = GraphDraft(id, parent=parent, **fields)
    for one in ids:
        plan.job(one)
    return plan.end(*(After(one, on) for one in ids), shape=Shape.MANY, spare=spare)


def chord(*ids: str, on: On = On.SUCCESS, spare: int = 0, **fields: Any) -> GraphDraft:
    """A group whose list (join ``j``) is handed to the job ``body``."""
    plan = GraphDraft("g", **fields)
    for one in ids:
        plan.job(one)
    return plan.join("j", *(After(one, on) for one in ids), spare=spare).job("body", "j").end("body")


def diamond(**fields: Any) -> GraphDraft:
    """``a``, then ``b`` and ``c`` behind join ``j``, then ``d`` behind join ``k``."""
    plan = GraphDraft("g", **fields).job("a").join("j", "a", shape=Shape.ONE).job("b", "j").job("c", "j")
    return plan.join("k", "b", "c").job("d", "k").end("d")


def wide_group(size: int = 1_200) -> GraphDraft:
    """More jobs than one step touches, side by side (``m00000`` and so on), two hundred to a join."""
    plan, joins = GraphDraft(), [f"in{n}" for n in range(size // 200)]
    members = [f"m{n:05}" for n in range(size)]
    for one in members:
        plan.job(one)
    for n, one in enumerate(joins):
        plan.join(one, *members[200 * n : 200 * n + 200])
    return plan.end(*joins)


def fan_out(width: int, **fields: Any) -> GraphDraft:
    """``root``, then so many jobs behind a tree of joins, and a tree of joins behind them."""
    plan = GraphDraft("g", **fields).job("root")
    parts = [range(first, min(first + WIDTH, width)) for first in range(0, width, WIDTH)]
    for n, part in enumerate(parts):
        plan.join(f"out{n}", "root", shape=Shape.ONE)
        for i in part:
            plan.job(f"m{i:05}", f"out{n}")
    for n, part in enumerate(parts):
        plan.join(f"in{n}", *(f"m{i:05}" for i in part))
    return plan.end(*(After(f"in{n}", inject=Inject.SPLICE) for n in range(len(parts))), shape=Shape.MANY)


def callbacks(**fields: Any) -> GraphDraft:
    """``a`` with one job for each way it may end: ``s`` on success, ``f`` on failure, ``d`` in any case."""
    plan = GraphDraft("g").job("a", **fields).job("s", "a").job("f", failure("a")).job("d", done("a", Inject.NONE))
    return plan.end(*(done(one, Inject.NONE) for one in "sfd"))
