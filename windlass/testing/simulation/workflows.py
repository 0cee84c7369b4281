"""Workflows in a story: graphs of any shape, submitted in parts over the same bad network as everything else."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from windlass.core.graph import NewGraph
from windlass.core.job import NewJob, State
from windlass.core.links import Edge, In, Inject, Links, On, Out, Shape
from windlass.errors import StoreError
from windlass.store.answers import Accept, GraphAnswer
from windlass.testing.simulation.process import drive

if TYPE_CHECKING:
    from windlass.store.memory.records import GraphRow, Row
    from windlass.testing.simulation.world import World

EDGES = (On.SUCCESS,) * 6 + (On.DONE, On.FAILURE)


class Workflow(NamedTuple):
    """A graph as its client holds it, to be submitted ``step`` nodes at a time."""

    graph: NewGraph
    nodes: list[NewJob]
    step: int

    @property
    def jobs(self) -> list[str]:
        return [node.id for node in self.nodes if node.task]


def make_workflow(rng: random.Random, id: str, queues: tuple[str, ...]) -> Workflow:
    """Nodes in topological order, a third of them joins; nodes that lead nowhere lead to the end."""
    ids = [f"{id}-{n}" for n in range(rng.randint(1, 10))]
    ins: dict[str, list[In]] = {id: []}
    outs: defaultdict[str, list[Out]] = defaultdict(list)
    for n, node in enumerate(ids):
        ins[node] = []
        for source in rng.sample(ids[:n], min(n, rng.choice((0, 1, 1, 1, 2, 3)))):
            on = rng.choice(EDGES)
            ins[node].append(In(source, on))
            outs[source].append(Out(node, on, hasty=rng.random() < 0.1))
    for node in ids:
        if not outs[node] or rng.random() < 0.1:
            on = rng.choice((On.SUCCESS, On.SUCCESS, On.DONE))
            ins[id].append(In(node, on))
            outs[node].append(Out(id, on))
    nodes = [_make_node(rng, node, queues, ins[node], outs[node]) for node in ids]
    after = [_make_after(rng, id, on, queues) for on in On if rng.random() < 0.3]
    ends = [Out(job.id, edge.on) for job in after if job.links for edge in job.links.ins]
    nodes.append(_join(id, Links(ins[id], ends, shape=Shape.MANY)))
    size = sum(1 for node in nodes if node.task)
    nodes += after
    graph = NewGraph(id=id, nodes=len(nodes), size=size, digest=id, fail_fast=rng.random() < 0.2)
    return Workflow(graph, nodes, rng.choice((2, 5, 1_000)))


def _make_node(rng: random.Random, id: str, queues: tuple[str, ...], ins: list[In], outs: list[Out]) -> NewJob:
    spare = 1 if ins and rng.random() < 0.15 else 0
    if rng.random() < 0.3:
        return _join(id, Links(ins, outs, spare, rng.choice((Shape.ONE, Shape.MANY))))
    return NewJob(
        id=id, task="t", queue=rng.choice(queues), payload=b"{}", priority=rng.randint(0, 9),
        links=Links(ins, outs, spare),
        delay=rng.randint(1, 10_000) if rng.random() < 0.15 else 0,
        expires_in=rng.randint(5_000, 40_000) if rng.random() < 0.05 else 0,
    )  # fmt: skip


def _join(id: str, links: Links) -> NewJob:
    return NewJob(id=id, task="", queue="", payload=b"", links=links)


def _make_after(rng: random.Random, graph: str, on: On, queues: tuple[str, ...]) -> NewJob:
    links = Links([In(graph, on, Inject.NONE)], aftermath=True)
    return NewJob(id=f"{graph}-on-{on.name}", task="t", queue=rng.choice(queues), payload=b"{}", links=links)


class Submission:
    """A client that repeats its parts until the whole workflow is accepted."""

    def __init__(self, world: World, workflow: Workflow) -> None:
        self.world, self.workflow = world, workflow
        self.staged, self.done = 0, False

    def ask(self) -> None:
        if self.done:
            return
        graph, nodes, step = self.workflow
        first, part = self.staged, self.workflow.nodes[self.staged : self.staged + step]
        commit = first + len(part) >= len(nodes)
        call = self.world.store.insert_graph
        self.world.history.sent.update(self.workflow.jobs)
        self.world.send(self.world.client, lambda: drive(call(graph, first, part, commit)), self._answered)
        self.world.client.later(1_000, self.ask)

    def _answered(self, answer: GraphAnswer | StoreError) -> None:
        if isinstance(answer, StoreError) or self.done:
            return
        self.staged = answer.staged if answer.status is not Accept.CONFLICT else self.staged
        if answer.status is Accept.CONFLICT:
            self.world.history.wrong.append(f"{self.workflow.graph.id} is a conflict: {answer.reason}")
        elif answer.staged == len(self.workflow.nodes) and self.workflow.graph.id in self.world.hub.graphs:
            self.done = True
            self.world.history.accepted.update(self.workflow.jobs)


def are_over(world: World) -> bool:
    graphs = world.hub.graphs.values()
    return not world.hub.todos and all(graph.finished_at for graph in graphs)


def workflows_end_well(world: World) -> Iterator[str]:
    """Check that every workflow has ended, and that its counts are right."""
    for graph in world.hub.graphs.values():
        if not graph.finished_at or graph.todos:
            yield f"{graph.new.id} is under way for ever ({graph.todos} todos)"
        rows = [row for id in graph.members if (row := world.hub.known(id)) is not None]
        for state in State:
            real = sum(1 for row in rows if row.state is state and row.task and not _is_after(row))
            if state.terminal and real != graph.counts[state]:
                yield f"{graph.new.id} counts {graph.counts[state]} jobs as {state}, but has {real}"
        for row in rows:
            yield from _edges_are_counted(world, graph, row)


def _is_after(row: Row) -> bool:
    return row.links is not None and row.links.links.aftermath


def _edges_are_counted(world: World, graph: GraphRow, row: Row) -> Iterator[str]:
    place = row.links
    assert place is not None
    states: list[Edge] = []
    for edge in place.links.ins:
        source = world.hub.known(edge.source)
        if source is not None and source.links is not None:
            pairs = zip(source.links.links.outs, source.links.edges, strict=True)
            states += [state for out, state in pairs if out.target == row.id]
    if (states.count(Edge.OPEN), states.count(Edge.BROKEN)) != (place.open, place.broken):
        yield f"{row.id} counts {place.open} open and {place.broken} broken edges, but has {states}"
    if row.state is State.SKIPPED and place.broken <= place.links.spare:
        yield f"{row.id} of {graph.new.id} was skipped, and {place.broken} of its edges are broken"
