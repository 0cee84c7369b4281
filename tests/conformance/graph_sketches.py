"""Random sketches of graphs, and the graphs drawn from them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from windlass.core.job import State
from windlass.core.links import Inject, On, Shape
from windlass.store.base import StoreSettings
from windlass.testing.conformance.bench import HOUR, START
from windlass.testing.conformance.graph_drafts import After, GraphDraft, done

SETTINGS = StoreSettings()

MANY_CRASHES = 99

TIME = HOUR // 2

LATE = START + TIME
"""The late hour: later than any life lasts by itself, and sooner than what is over is pruned."""


# ---- random plans -----------------------------------------------------------------------------------------------


class Sketch(NamedTuple):
    """A node in the making. ``sources`` are taken modulo the nodes before it. ``expires``: what becomes of it if it has
    not begun before the late hour comes."""

    join: bool
    sources: tuple[int, ...]
    ons: tuple[On, ...]
    spare: int
    hasty: bool
    fragile: bool
    expires: State | None


class Draft(NamedTuple):
    """A graph in the making; ``after``: its callbacks, by what end of the workflow they are met."""

    nodes: tuple[Sketch, ...]
    ends: tuple[On, ...]
    spare: int
    fail_fast: bool
    after: tuple[On, ...]


_ON = st.sampled_from([On.SUCCESS, On.SUCCESS, On.SUCCESS, On.DONE, On.FAILURE])

SKETCHES = st.builds(
    Sketch,
    join=st.sampled_from([False, False, True]),
    sources=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    ons=st.tuples(_ON, _ON, _ON),
    spare=st.sampled_from([0, 0, 0, 1]),
    hasty=st.sampled_from([False, False, False, True]),
    fragile=st.sampled_from([False, False, True]),
    expires=st.sampled_from([None, None, None, None, State.CANCELLED, State.FAILED]),
)

DRAFTS = st.builds(
    Draft,
    nodes=st.lists(SKETCHES, min_size=1, max_size=8).map(tuple),
    ends=st.tuples(*[st.sampled_from([On.SUCCESS, On.SUCCESS, On.DONE])] * 8),
    spare=st.sampled_from([0, 0, 0, 1]),
    fail_fast=st.sampled_from([False, False, True]),
    after=st.lists(st.sampled_from(list(On)), max_size=2).map(tuple),
)


def drawn(draft: Draft, id: str, parent: str = "", parent_on: On = On.SUCCESS) -> GraphDraft:
    """The plan of a draft. Whatever leads nowhere leads to the end."""
    plan = GraphDraft(id, parent=parent, parent_on=parent_on, name=f"life of {id}", fail_fast=draft.fail_fast)
    names = [f"{id}.{n}" for n in range(len(draft.nodes))]
    for n, sketch in enumerate(draft.nodes):
        edges = edges_of(sketch, names[:n])
        if sketch.join:
            plan.join(names[n], *edges, spare=0 if sketch.hasty else sketch.spare)
        else:
            fields: dict[str, Any] = {"max_crashes": 1 if sketch.fragile else MANY_CRASHES}
            if sketch.expires is not None:
                fields |= {"expires_at": LATE, "expire_to": sketch.expires}
            plan.job(names[n], *edges, spare=0 if sketch.hasty else sketch.spare, **fields)
    sources = {edge.source for node in plan.added for edge in node.after}
    ends = [After(name, on) for name, on in zip(names, draft.ends, strict=False) if name not in sources]
    plan.end(*ends, shape=Shape.MANY, spare=draft.spare)
    for n, on in enumerate(draft.after):
        plan.job(f"{id}.after{n}", After(id, on, Inject.NONE), aftermath=True, max_crashes=MANY_CRASHES)
    if draft.after:
        plan.job(f"{id}.last", f"{id}.after0", aftermath=True, max_crashes=MANY_CRASHES)
    return plan


def is_spared(plan: GraphDraft) -> bool:
    """Whether a workflow that is to fail fast may succeed in spite of something that does not."""
    [end] = [node for node in plan.added if node.id == plan.id]
    return plan.fields["fail_fast"] and (end.spare > 0 or any(edge.on is On.DONE for edge in end.after))


def edges_of(sketch: Sketch, before: list[str]) -> list[After]:
    """A node with a hasty edge is made so that it comes to the same in whichever order its edges are decided."""
    names = list(dict.fromkeys(before[source % len(before)] for source in sketch.sources)) if before else []
    edges = [After(name, on) for name, on in zip(names, sketch.ons, strict=False)]
    if not sketch.hasty or not edges:
        return edges
    if edges[0].on is On.SUCCESS:
        return [edges[0]._replace(hasty=True), *edges[1:]]
    return [done(edges[0].source, hasty=True), *(done(edge.source) for edge in edges[1:])]
