"""The outline of a workflow: which jobs make up its chains and groups, as its nodes' numbers. Kept with the graph.

Edges say when a job may run; the outline says what the author wrote. It is only for showing, so a graph may go without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

OUTLINE_BYTES = 65_536
"""A larger outline is left out: nobody reads a picture of that."""


class Outline:
    """One work of a workflow. ``parts`` are works, or runs of jobs as [first node, how many]."""

    __slots__ = ("kind", "parts", "tail")

    def __init__(self, kind: str, tail: int = -1) -> None:
        self.kind, self.tail = kind, tail
        self.parts: list[Outline | list[int]] = []

    def add(self, part: Part) -> None:
        """Jobs that follow each other are one run, so that a wide group is short to write down."""
        if isinstance(part, Outline):
            self.parts.append(part)
            return
        last = self.parts[-1] if self.parts else None
        if isinstance(last, list) and last[0] + last[1] == part:
            last[1] += 1
        else:
            self.parts.append([part, 1])


Part = Outline | int
"""A work of a workflow, or the number of a job."""


def encode_outline(outline: Part, numbers: Sequence[int]) -> Any:
    """As JSON values: ``[kind, tail, parts]``; ``numbers``: the final ones of the nodes. None if too large."""
    packed = _pack(outline, numbers)
    return packed if len(msgspec.json.encode(packed)) <= OUTLINE_BYTES else None


def _pack(outline: Part | list[int], numbers: Sequence[int]) -> Any:
    if isinstance(outline, int):
        return [numbers[outline], 1]
    if isinstance(outline, list):
        return [numbers[outline[0]], outline[1]]
    tail = numbers[outline.tail] if outline.tail >= 0 else -1
    return [outline.kind, tail, [_pack(part, numbers) for part in outline.parts]]
