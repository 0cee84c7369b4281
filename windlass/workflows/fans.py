"""Fans: a value that more nodes want than a node may have edges goes out through a tree of joins that pass it on."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.links import WIDTH, In, Inject, On, Out, Shape
from windlass.errors import ConfigError
from windlass.support.ids import new_id
from windlass.workflows.nodes import Node


def spread(nodes: list[Node], fixed: bool) -> list[Node]:
    """All nodes in order, with joins that pass a value on wherever a node would have too many edges out. ``fixed``:
    the ids of joins follow from those of their sources.
    """
    wide = [node for node in nodes if len(node.outs) > WIDTH]
    if not wide:
        return nodes
    known = {node.id: node for node in nodes}
    fans = {node.number: fan(node, known, fixed) for node in wide}
    whole: list[Node] = []
    for node in nodes:
        fanned = fans.get(node.number, ())
        node.number = len(whole)
        whole += (node, *fanned)
    return whole


def fan(node: Node, known: dict[str, Node], fixed: bool) -> list[Node]:
    """A tree of joins between a node and those that begin with its success. Other edges stay where they are."""
    kept = [out for out in node.outs if out.on is not On.SUCCESS]
    if len(kept) >= WIDTH:
        raise ConfigError(f"a work has more than {WIDTH} callbacks, or works that go on when it failed; use fewer")
    targets = [known[out.target] for out in node.outs if out.on is On.SUCCESS]
    made: list[Node] = []
    while len(targets) > WIDTH - len(kept):
        count = -(-len(targets) // WIDTH)
        parts = [targets[len(targets) * n // count : len(targets) * (n + 1) // count] for n in range(count)]
        level = [relay(len(made) + place, node, part, fixed) for place, part in enumerate(parts)]
        made, targets = level + made, level
    node.outs = [*kept, *(Out(target.id) for target in targets)]
    return made


def relay(number: int, source: Node, targets: Sequence[Node], fixed: bool) -> Node:
    """A join between a source and some of its targets."""
    id = f"{source.id}~{number}"[-256:] if fixed else new_id()
    node = Node(id, None, [], [], Shape.ONE, aftermath=source.aftermath and all(one.aftermath for one in targets))
    wanted = False
    for target in targets:
        place = next(place for place, edge in enumerate(target.ins) if edge.source == source.id)
        edge = target.ins[place]
        wanted |= edge.inject is not Inject.NONE
        target.ins[place] = In(id, On.SUCCESS, edge.inject)
        node.outs.append(Out(target.id))
    node.ins.append(In(source.id, On.SUCCESS, Inject.RESULT if wanted else Inject.NONE))
    return node
