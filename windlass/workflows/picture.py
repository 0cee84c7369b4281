"""Workflows as pictures: a tree of what was put together, and the graph of what waits for what, for Mermaid and DOT.

Pure: works on records that were read. Names come from users, so every text is escaped for the language it goes into.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.codec import decode_any
from windlass.core.failure import read_error, shown
from windlass.core.graph import GraphInfo
from windlass.core.job import Job, State
from windlass.core.links import Inject, Links, On, Shape
from windlass.handles.results import decode

MOST_DRAWN = 400
"""Nodes in one picture; what is more is counted in its last node."""

FOLD_FROM, FOLD_OVER = 60, 4
"""In a picture of more nodes than the first, more jobs alike than the second are drawn as one."""

_NO_LINKS = Links()


# -- the tree


class Tree(msgspec.Struct, kw_only=True):
    """A job of a workflow, or a work it is made of: ``kind`` says which. The workflow itself is the root.

    Kinds: ``workflow``, ``job``, ``chain``, ``group``, ``chord``, ``flow``; and as the last children of a work its
    callbacks, ``then``, ``on_error`` and ``on_end``. Only workflows and jobs have an id.
    """

    kind: str = "job"
    id: str = ""
    task: str = ""
    name: str = ""
    state: State = State.WAITING
    reason: str = ""
    result: Any = None
    error: str = ""
    children: list[Tree] = []

    def walk(self) -> Iterator[Tree]:
        """This node and all below it, in order."""
        open = [self]
        while open:
            node = open.pop()
            yield node
            open += reversed(node.children)


def meta_of(graph: GraphInfo) -> dict[str, Any]:
    """What its author said of a workflow; nothing where that is damaged."""
    meta = shown(decode_any, graph.meta)
    return meta if isinstance(meta, dict) else {}


def make_tree(graph: GraphInfo, members: Sequence[Job]) -> Tree:
    """A workflow as its author wrote it; a flat list of its jobs where its outline or some of its jobs are gone."""
    meta = meta_of(graph)
    children = shown(lambda outline: list(_parts([outline], members)), meta.get("outline"))
    if "outline" not in meta or len(members) != meta.get("nodes") or not isinstance(children, list):
        children = [_leaf(job) for job in members if job.task]
    state = graph.state if graph.state.terminal else State.RUNNING
    return Tree(kind="workflow", id=graph.id, name=graph.name, state=state, reason=graph.reason, children=children)


def _parts(parts: Iterable[Any], members: Sequence[Job]) -> Iterator[Tree]:
    for part in parts:
        if isinstance(part[0], int):
            first, count = part
            yield from (_leaf(job) for job in members[first : first + count])
            continue
        kind, tail, inner = part
        children = list(_parts(inner, members))
        if kind == "work":
            work, *callbacks = children
            work.children += callbacks
            yield work
        else:
            yield Tree(kind=kind, state=_state(members[tail] if tail >= 0 else None, children), children=children)


def _leaf(job: Job) -> Tree:
    error = read_error(job.error)
    return Tree(
        id=job.id, task=job.task, state=job.state, reason=job.reason, result=shown(decode, job.result),
        error=f"{error.type}: {error.message}" if error else "",
    )  # fmt: skip


def _state(tail: Job | None, children: Sequence[Tree]) -> State:
    """The state of a work: its join's, or what its parts come to."""
    if tail is not None and not tail.task and tail.state.terminal:
        return tail.state
    states = [child.state for child in children]
    if not all(state.terminal for state in states):
        return State.WAITING if all(state is State.WAITING for state in states) else State.RUNNING
    if not states or states[-1] is State.SUCCEEDED:
        return State.SUCCEEDED
    return min(states, key=WORST.index)


WORST = [
    State.FAILED, State.CANCELLED, State.SKIPPED, State.RUNNING, State.READY, State.SCHEDULED, State.WAITING,
    State.SUCCEEDED,
]  # fmt: skip


# -- the graph that is drawn


class Folding(msgspec.Struct, frozen=True):
    """Which jobs alike are drawn as one: more than ``over``, in a picture of more than ``since`` nodes. ``open``: the
    first jobs of those that are drawn one by one after all, the worst ``most``. ``apart``: one that is never folded.
    """

    since: int = FOLD_FROM
    over: int = FOLD_OVER
    open: frozenset[str] = frozenset()
    most: int = 100
    apart: str = ""


FOLDING = Folding()


class Drawn(msgspec.Struct):
    """One node of a picture: a job, many jobs alike, or a join (``label`` is empty). ``jobs``: whose it is.

    ``group``: the first job of all those alike that are drawn as one, or were until they were unfolded.
    """

    label: str
    state: State
    sources: dict[int, str] = {}
    jobs: Sequence[Job] = ()
    group: str = ""


def drawing(members: Sequence[Job], folding: Folding = FOLDING) -> list[Drawn]:
    """What is drawn, in order; ``sources`` are places in the list, with the condition of the edge."""
    kept, edges = _collapse(members)
    boxes, groups = _boxes(kept, edges, folding)
    at: dict[Any, int] = {}
    jobs: list[list[Job]] = []
    sources: list[dict[int, str]] = []
    names: list[str] = []
    for number, job in enumerate(kept):
        place = at.setdefault(boxes[number], len(jobs))
        if place == len(jobs):
            jobs.append([])
            sources.append({})
            names.append(groups.get(number, ""))
        jobs[place].append(job)
        for source, label in edges[number].items():
            sources[place][at[boxes[source]]] = label
    return [_drawn(*one) for one in zip(jobs, sources, names, strict=True)]


def _boxes(
    kept: Sequence[Job], edges: Sequence[Mapping[int, str]], folding: Folding
) -> tuple[list[Any], dict[int, str]]:  # fmt: skip
    """For each job what stands for the box it is drawn in; and of those that are one of many alike, their group."""
    alone: list[Any] = [("alone", number) for number in range(len(kept))]
    if len(kept) <= folding.since:
        return alone, {}
    alike: dict[int, list[int]] = {}
    for number, name in enumerate(_alike(kept, edges)):
        if kept[number].task:
            alike.setdefault(name, []).append(number)
    boxes, groups = alone, dict[int, str]()
    for name, numbers in alike.items():
        if len(numbers) <= folding.over:
            continue
        group = kept[numbers[0]].id
        groups.update(dict.fromkeys(numbers, group))
        worst = sorted(numbers, key=lambda number: WORST.index(kept[number].state))
        shown = set(worst[: folding.most]) if group in folding.open else set[int]()
        for number in numbers:
            if number not in shown and kept[number].id != folding.apart:
                boxes[number] = name
    return boxes, groups


def _drawn(jobs: Sequence[Job], sources: dict[int, str], group: str) -> Drawn:
    if len(jobs) == 1:
        return Drawn(jobs[0].task, jobs[0].state, sources, jobs, group)
    states = Counter(job.state for job in jobs)
    worst = min(states, key=WORST.index)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return Drawn(f"{jobs[0].task} × {len(jobs):,} ({counts})", worst, sources, jobs, group)


def _collapse(members: Sequence[Job]) -> tuple[list[Job], list[dict[int, str]]]:
    """Jobs and the joins that say something, with the edges between them. Others are drawn as the edges they join."""
    kept: list[Job] = []
    edges: list[dict[int, str]] = []
    through: dict[str, dict[int, str]] = {}
    proper: set[str] = set()
    for job in members:
        links = job.links or _NO_LINKS
        if not links.aftermath:
            proper.add(job.id)
        given: dict[int, str] = {}
        for edge in links.ins:
            if links.shape is Shape.ONE and len(links.ins) > 1 and edge.inject is Inject.NONE:
                continue  # it only says when
            condition = CONDITIONS[edge.on] if links.aftermath and edge.source in proper else ""
            for source, label in through.get(edge.source, {}).items():
                given[source] = condition or label
        if job.task or _says_something(links, given):
            through[job.id] = {len(kept): ""}
            kept.append(job)
            edges.append(given)
        else:
            through[job.id] = given
    return kept, edges


CONDITIONS = {On.SUCCESS: "then", On.FAILURE: "on error", On.DONE: "at the end"}
"""What is written at the edge to a callback."""


def _says_something(links: Links, given: Mapping[int, str]) -> bool:
    """A join that many come to and many leave from, or on whose failure something depends."""
    conditional = any(out.on is On.FAILURE for out in links.outs)
    return len(given) > 1 and (conditional or (len(links.outs) > 1 and links.shape is Shape.MANY))


def _alike(kept: Sequence[Job], edges: Sequence[Mapping[int, str]]) -> list[int]:
    """A number for each node, the same for nodes of the same task that stand alike in the graph."""
    forward: list[int] = []
    for job, given in zip(kept, edges, strict=True):
        forward.append(hash((job.task, frozenset((forward[source], label) for source, label in given.items()))))
    targets: list[list[tuple[int, str]]] = [[] for _ in kept]
    whole = [0] * len(kept)
    for number in range(len(kept) - 1, -1, -1):
        whole[number] = hash((forward[number], frozenset(targets[number])))
        for source, label in edges[number].items():
            targets[source].append((whole[number], label))
    return whole


# -- languages

COLOURS = {
    "succeeded": ("#d8f3dc", "#2d6a4f"),
    "failed": ("#ffd6d6", "#b00020"),
    "cancelled": ("#fff3cd", "#8a6d00"),
    "skipped": ("#f1f1f1", "#777777"),
    "running": ("#d6e6ff", "#1d4ed8"),
    "ready": ("#d7f5f7", "#0e7490"),
    "scheduled": ("#eee0ff", "#6d28d9"),
    "waiting": ("#ffffff", "#999999"),
}
"""State: fill and border."""


def draw_mermaid(graph: GraphInfo, members: Sequence[Job]) -> str:
    """A Mermaid flowchart."""
    nodes = drawing(members)
    lines = ["flowchart TD"]
    for number, node in enumerate(nodes[:MOST_DRAWN]):
        shape = f'["{mermaid_text(node.label)}"]' if node.label else "(( ))"
        lines.append(f"  n{number}{shape}:::{node.state}")
        for source, label in node.sources.items():
            lines.append(f"  n{source} {f'-.->|{label}|' if label else '-->'} n{number}")
    if len(nodes) > MOST_DRAWN:
        lines.append(f'  more["… {len(nodes) - MOST_DRAWN:,} more"]')
    if not nodes:
        lines.append(f'  none["{mermaid_text(graph.name)}"]:::{_shown(graph)}')
    for state, (fill, border) in COLOURS.items():
        lines.append(f"  classDef {state} fill:{fill},stroke:{border},color:#111111")
    return "\n".join(lines) + "\n"


def mermaid_text(text: str) -> str:
    """Text that is nothing but text inside quotes: whatever could mean something is written as its code."""
    return "".join(char if char.isalnum() or char in " ._-:/@,()×…" else f"#{ord(char)};" for char in text)


def draw_dot(graph: GraphInfo, members: Sequence[Job]) -> str:
    """A Graphviz digraph."""
    nodes = drawing(members)
    lines = [f"digraph {dot_text(graph.name or graph.id)} {{", "  rankdir=TB;"]
    lines.append('  node [shape=box, style="rounded,filled", fontname="sans-serif"];')
    for number, node in enumerate(nodes[:MOST_DRAWN]):
        fill, border = COLOURS[node.state]
        shape = f"label={dot_text(node.label)}" if node.label else 'label="", shape=circle, width=0.15'
        lines.append(f'  n{number} [{shape}, fillcolor="{fill}", color="{border}"];')
        for source, label in node.sources.items():
            look = f" [label={dot_text(label)}, style=dashed]" if label else ""
            lines.append(f"  n{source} -> n{number}{look};")
    if len(nodes) > MOST_DRAWN:
        lines.append(f'  more [label="… {len(nodes) - MOST_DRAWN:,} more", shape=plain];')
    return "\n".join([*lines, "}"]) + "\n"


def dot_text(text: str) -> str:
    """A quoted string; what cannot be printed is left out."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shown(graph: GraphInfo) -> State:
    return graph.state if graph.state.terminal else State.RUNNING
