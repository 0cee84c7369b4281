"""The picture of a workflow: boxes in layers, each below all its sources, and the lines between them.

``workflows.picture`` decides which jobs are drawn as one box; here boxes only get their positions. They never overlap,
and every line goes down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from windlass.console import job_rows, show
from windlass.console.workflow_replies import Line, Node
from windlass.core.job import Job, State
from windlass.workflows.picture import MOST_DRAWN, WORST, Drawn

WIDE, HIGH = 180.0, 44.0
"""A box."""

GAP_X, GAP_Y, EDGE = 24.0, 52.0, 16.0
SWEEPS = 4
"""How often layers are put in the order of their neighbours, to have fewer lines cross."""

CONDITIONS = {"": "success", "then": "success", "on error": "failure", "at the end": "end"}


ROW = 8
"""Boxes beside one another; more in a layer go below these."""


class Picture(NamedTuple):
    """``cut``: boxes that are not drawn."""

    nodes: list[Node]
    lines: list[Line]
    width: float
    height: float
    cut: int


def lay_out(whole: Sequence[Drawn], now: int, values: bool = True, culprit: str = "") -> Picture:
    """The positions of all that is drawn of a workflow. ``values``: the user may see error messages."""
    drawn = whole[:MOST_DRAWN]
    layers = layers_of(drawn)
    order_layers(layers, drawn)
    layers = [layer[first : first + ROW] for layer in layers for first in range(0, len(layer), ROW)]
    widest = max((len(layer) for layer in layers), default=0)
    width = 2 * EDGE + max(widest, 1) * WIDE + max(widest - 1, 0) * GAP_X
    places: dict[int, tuple[float, float]] = {}
    for depth, layer in enumerate(layers):
        taken = len(layer) * WIDE + (len(layer) - 1) * GAP_X
        left, top = (width - taken) / 2, EDGE + depth * (HIGH + GAP_Y)
        for place, number in enumerate(layer):
            places[number] = left + place * (WIDE + GAP_X), top
    nodes = [_node(one, *places[number], now, values, culprit) for number, one in enumerate(drawn)]
    lines = [
        Line(source=source, target=number, on=CONDITIONS.get(label, "success"))
        for number, one in enumerate(drawn)
        for source, label in one.sources.items()
        if source != number
    ]
    height = 2 * EDGE + max(len(layers), 1) * HIGH + max(len(layers) - 1, 0) * GAP_Y
    return Picture(nodes, lines, width, height, len(whole) - len(drawn))


def layers_of(drawn: Sequence[Drawn]) -> list[list[int]]:
    """Put each node into the first layer below all its sources. Sources come before their targets in ``drawn``."""
    depths: list[int] = []
    for number, one in enumerate(drawn):
        depths.append(max((depths[source] + 1 for source in one.sources if source < number), default=0))
    layers: list[list[int]] = [[] for _ in range(max(depths, default=-1) + 1)]
    for number, depth in enumerate(depths):
        layers[depth].append(number)
    return layers


def order_layers(layers: list[list[int]], drawn: Sequence[Drawn]) -> None:
    """Sort each layer by the mean position of its neighbours in the layer above, then in the one below."""
    sources = [list(one.sources) for one in drawn]
    targets: list[list[int]] = [[] for _ in drawn]
    for number, one in enumerate(drawn):
        for source in one.sources:
            targets[source].append(number)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            at = {number: place / max(len(row) - 1, 1) for row in layers for place, number in enumerate(row)}
            near = sources if down else targets
            layer.sort(key=lambda number: _middle([at[other] for other in near[number]], at[number]))


def _middle(places: Sequence[float], own: float) -> float:
    return sum(places) / len(places) if places else own


def _took(jobs: Sequence[Job], now: int) -> int | None:
    """The time from the first start to the last end; None if no job has started."""
    starts = [job.started_at for job in jobs if job.started_at]
    if not starts:
        return None
    return max(max(job.finished_at or now for job in jobs if job.started_at) - min(starts), 0)


def _node(one: Drawn, x: float, y: float, now: int, values: bool, culprit: str) -> Node:
    if len(one.jobs) == 1:
        job = one.jobs[0]
        error = job_rows.error_of(job) if job.state is State.FAILED and job.task else None
        return Node(
            id=job.id if job.task else "", label=show.one_line(job.task), state=str(job.state), x=x, y=y,
            error=job_rows.error_line(error, values) if error else "", took=_took(one.jobs, now) if job.task else None,
            group=one.group, culprit=job.id == culprit,
        )  # fmt: skip
    states = Counter(job.state for job in one.jobs)
    return Node(
        id="", label=show.one_line(one.jobs[0].task), state=str(min(states, key=WORST.index)), x=x, y=y,
        folded=len(one.jobs), states={str(state): count for state, count in states.most_common()},
        took=_took(one.jobs, now), group=one.group,
    )  # fmt: skip
