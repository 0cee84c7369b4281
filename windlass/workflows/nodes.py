"""Nodes of a graph in the making, and the edges between them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from windlass.core.draft import Draft
from windlass.core.job import NewJob
from windlass.core.links import In, Inject, Links, On, Out, Shape


# Nodes, drafts and edges form no cycles, and there may be a hundred thousand: the collector need not look at them.
class Node(msgspec.Struct, gc=False):
    """A node in the making. A join has no draft."""

    id: str
    draft: Draft | None = None
    ins: list[In] = []
    outs: list[Out] = []
    shape: Shape = Shape.CALL
    spare: int = 0
    aftermath: bool = False
    number: int = 0

    def to_job(self, source: str, plain_meta: bytes) -> NewJob:
        if self.draft is None:
            job = NewJob(id=self.id, task="", queue="", payload=b"{}")
        else:
            job = self.draft.to_job(source, plain_meta)
        job.links = Links(self.ins, self.outs, self.spare, self.shape, self.aftermath)
        return job


class Feed(NamedTuple):
    """What leads to a work: the node by whose end it begins, and what that brings to it."""

    source: Node
    on: On = On.SUCCESS
    inject: Inject = Inject.RESULT


class Edge(NamedTuple):
    """An edge that leads to a join, seen from its source."""

    source: Node
    on: On = On.SUCCESS
    inject: Inject = Inject.RESULT
    hasty: bool = False


def connect(source: Node, target: Node, on: On, inject: Inject, hasty: bool = False) -> None:
    source.outs.append(Out(target.id, on, hasty))
    target.ins.append(In(source.id, on, inject))
