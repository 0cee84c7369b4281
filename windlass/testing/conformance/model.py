"""What becomes of a graph, told from the rules alone: a model to hold engines against.

``foretell(plan, deeds)`` answers what every node has come to after these deeds, which are what workers and people did,
in order. It shares no code with the engines or with ``core.graph``: no counters, no todos, no steps; each deed is
followed to its last consequence at once. Blame is told as a set, for which of two broken edges came first may be open.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from windlass.core.job import State
from windlass.core.links import On, Shape
from windlass.testing.conformance.plans import After, Node, Plan


class Kind(StrEnum):
    """What can be done to a graph."""

    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    STOP = "stop"
    RETRY = "retry"
    RETRY_ALL = "retry all"


class Deed(NamedTuple):
    """One thing done: a job ended or was retried by hand (``id``), or the whole was stopped or retried.

    ``running``: the jobs that run at that moment. If this deed stops the graph, they end later, as they like.
    """

    kind: Kind
    id: str = ""
    running: frozenset[str] = frozenset()


class Fate(NamedTuple):
    """Where a node is: ``ready`` stands for everything from the release to the end. ``blames``: possible culprits."""

    state: State
    blames: frozenset[str]


OPEN, MET, BROKEN = "open", "met", "broken"

WAITING, READY, SUCCEEDED, FAILED, CANCELLED, SKIPPED = (
    State.WAITING, State.READY, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED,
)  # fmt: skip
OVER = {SUCCEEDED, FAILED, CANCELLED, SKIPPED}

MEETS = {On.SUCCESS: {SUCCEEDED}, On.FAILURE: {FAILED}, On.DONE: OVER}


def foretell(plan: Plan, deeds: Iterable[Deed]) -> dict[str, Fate]:
    """The fate of every node after these deeds."""
    world = World(plan)
    for deed in deeds:
        world.do(deed)
    return {id: Fate(world.state[id], world.blames(id)) for id in world.state}


class World:
    """A graph in the middle of its life. Deeds that are impossible by the rules are a mistake of the caller."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.nodes = {node.id: node for node in plan.added}
        self.state = dict.fromkeys(self.nodes, WAITING)
        # An edge is its target and its place among the target's edges.
        self.edges = {(id, at): OPEN for id, node in self.nodes.items() for at in range(len(node.after))}
        self.given_up: set[str] = set()
        self.stopping = ""
        self.running: frozenset[str] = frozenset()
        for node in plan.added:
            if not node.after:
                self.decide(node)

    def do(self, deed: Deed) -> None:
        self.running = deed.running
        ends = {Kind.SUCCEED: SUCCEEDED, Kind.FAIL: FAILED, Kind.CANCEL: CANCELLED}
        if deed.kind in ends:
            self.end(deed.id, ends[deed.kind])
        elif deed.kind is Kind.STOP:
            self.stop("cancel")
        elif deed.kind is Kind.RETRY and not self.stopping:
            self.retry(deed.id)
        else:
            self.retry_all()

    # -- forwards

    def end(self, id: str, state: State) -> None:
        """A node ends, and whatever follows from that."""
        self.state[id] = state
        node, broke = self.nodes[id], False
        for target, at, edge in self.behind(id):
            if self.edges[target.id, at] is not OPEN:
                continue
            self.edges[target.id, at] = MET if state in MEETS[edge.on] else BROKEN
            broke = broke or self.edges[target.id, at] is BROKEN
            settled = all(self.edges[target.id, n] is not OPEN for n in range(len(target.after)))
            if self.state[target.id] is WAITING and (settled or (edge.hasty and state is not SUCCEEDED)):
                self.decide(target)
        fatal = broke and state is FAILED and node.shape is Shape.CALL and not node.aftermath
        if fatal and self.plan.fields.get("fail_fast") and not self.stopping:
            self.stop("fail")

    def decide(self, node: Node) -> None:
        broken = sum(self.edges[node.id, at] is BROKEN for at in range(len(node.after)))
        stopped = "" if node.aftermath else self.stopping
        if broken > node.spare or (stopped and node.id == self.plan.id):
            given_up = SKIPPED if node.shape is Shape.CALL else FAILED
            if stopped == "cancel" or (stopped and node.shape is Shape.CALL):
                given_up = CANCELLED
            self.given_up.add(node.id)
            self.end(node.id, given_up)
        elif node.shape is not Shape.CALL:
            self.end(node.id, SUCCEEDED)
        elif stopped:
            self.end(node.id, CANCELLED)
        else:
            self.state[node.id] = READY

    def stop(self, how: str) -> None:
        self.stopping = how
        for node in self.plan.added:
            doomed = self.state[node.id] in (WAITING, READY) and node.id not in self.running
            if doomed and node.shape is Shape.CALL and not node.aftermath:
                self.end(node.id, CANCELLED)

    # -- backwards

    def retry(self, id: str) -> None:
        self.state[id] = WAITING if OPEN in self.into(id) else READY
        self.given_up.discard(id)
        self.reopen(id)

    def reopen(self, id: str) -> None:
        """What broke because of this node's end is open again, and so on."""
        for target, at, _ in self.behind(id):
            if self.edges[target.id, at] is not BROKEN:
                continue
            self.edges[target.id, at] = OPEN
            state, join = self.state[target.id], target.shape is not Shape.CALL
            if state is SKIPPED or (join and state in (FAILED, CANCELLED)):
                self.state[target.id] = WAITING
                self.given_up.discard(target.id)
                self.reopen(target.id)

    def retry_all(self) -> None:
        """Everything that failed or was cancelled, and the end; then whatever no edge holds any more is decided."""
        self.stopping = ""
        again = [node for node in self.plan.added if self.is_retried(node)]
        for node in again:
            self.state[node.id] = WAITING
        end = self.nodes[self.plan.id]
        if self.state[end.id] in (FAILED, CANCELLED):
            again.append(end)
            self.state[end.id] = WAITING
        for node in again:
            self.given_up.discard(node.id)
            self.reopen(node.id)
        for node in again:
            if self.state[node.id] is WAITING and OPEN not in self.into(node.id):
                self.decide(node)

    def is_retried(self, node: Node) -> bool:
        return node.shape is Shape.CALL and not node.aftermath and self.state[node.id] in (FAILED, CANCELLED)

    # -- looking around

    def behind(self, id: str) -> list[tuple[Node, int, After]]:
        """The edges out of a node: target, place there, edge."""
        found = []
        for node in self.plan.added:
            found += [(node, at, edge) for at, edge in enumerate(node.after) if edge.source == id]
        return found

    def into(self, id: str) -> list[str]:
        return [self.edges[id, at] for at in range(len(self.nodes[id].after))]

    def blames(self, id: str) -> frozenset[str]:
        """Everyone who may be named as the culprit of a node that was given up."""
        found: set[str] = set()
        for at, edge in enumerate(self.nodes[id].after):
            if self.edges[id, at] is BROKEN:
                found |= self.blames(edge.source) if edge.source in self.given_up else {edge.source}
        return frozenset(found)
