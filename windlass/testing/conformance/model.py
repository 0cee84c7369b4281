"""What becomes of a graph, worked out from the rules alone: a model to compare engines with.

``foretell(plan, deeds)`` answers what every node has come to after these deeds, which are what workers and people did,
in order. It shares no code with the engines or ``core.graph``: it has no counters, records or bounded steps; each deed
is followed to its last consequence at once. Culprits are sets, as it may be open which of two edges broke first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from windlass.core.job import State
from windlass.core.links import On, Shape
from windlass.testing.conformance.graph_drafts import After, DraftNode, GraphDraft


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
    """What a node has come to: ``ready`` stands for everything from the release to the end. ``blames``: possible
    culprits.
    """

    state: State
    blames: frozenset[str]


OPEN, MET, BROKEN = "open", "met", "broken"

WAITING, READY, SUCCEEDED, FAILED, CANCELLED, SKIPPED = (
    State.WAITING, State.READY, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED,
)  # fmt: skip
OVER = {SUCCEEDED, FAILED, CANCELLED, SKIPPED}

MEETS = {On.SUCCESS: {SUCCEEDED}, On.FAILURE: {FAILED}, On.DONE: OVER}


def foretell(plan: GraphDraft, deeds: Iterable[Deed]) -> dict[str, Fate]:
    """The fate of every node after these deeds. For graphs that adopt others, ask their models."""
    world = GraphModel(plan)
    for deed in deeds:
        world.do(deed)
    return world.fates()


class GraphModel:
    """A graph in the middle of its life. A deed that the rules make impossible is a mistake of the caller.

    ``outer``: the model of the job that adopts this graph, if any. Consequences in one model may reach the others.
    """

    def __init__(self, plan: GraphDraft, outer: GraphModel | None = None) -> None:
        self.plan, self.outer = plan, outer
        self.nodes = {node.id: node for node in plan.added}
        self.state = dict.fromkeys(self.nodes, WAITING)
        # An edge is its target and its place among the target's edges.
        self.adopted: list[GraphModel] = []
        self.edges = {(id, at): OPEN for id, node in self.nodes.items() for at in range(len(node.after))}
        self.given_up: set[str] = set()
        # Jobs that expire, and those that have expired.
        self.mortal = {id for id, node in self.nodes.items() if node.fields.get("expires_at")}
        self.expired: set[str] = set()
        self.stopping = ""
        # Jobs that wait for a graph they adopted, or did last, and those that are replaced by it.
        self.awaits: dict[str, GraphModel] = {}
        self.replaced: set[str] = set()
        self.to_outer = OPEN
        self.scapegoats: dict[str, frozenset[str]] = {}
        self.running: frozenset[str] = frozenset()
        self.todos: deque[Callable[[], None]] = outer.todos if outer is not None else deque()
        if outer is None:
            self.begin()

    def begin(self) -> None:
        for node in self.plan.added:
            if not node.after:
                self.decide(node)
        self.follow()

    def fates(self) -> dict[str, Fate]:
        return {id: Fate(self.state[id], self.blames(id)) for id in self.state}

    def family(self) -> list[GraphModel]:
        """All models that can reach one another."""
        found = [self if self.outer is None else self.outer.family()[0]]
        for world in found:
            found += world.adopted
        return found

    def adopt(self, id: str, plan: GraphDraft, replaced: bool, running: frozenset[str]) -> GraphModel:
        """A running job adopts a graph, whose life begins."""
        for world in self.family():
            world.running = running
        self.state[id] = WAITING
        inner = self.awaits[id] = GraphModel(plan, self)
        inner.running = running
        self.adopted.append(inner)
        (self.replaced.add if replaced else self.replaced.discard)(id)
        inner.begin()
        return inner

    def do(self, deed: Deed) -> None:
        """Apply one deed, and follow it to its last consequence."""
        for world in self.family():
            world.running = deed.running
        ends = {Kind.SUCCEED: SUCCEEDED, Kind.FAIL: FAILED, Kind.CANCEL: CANCELLED}
        if deed.kind in ends:
            self.end(deed.id, ends[deed.kind])
        elif deed.kind is Kind.STOP:
            self.stop("cancel")
        elif deed.kind is Kind.RETRY and not self.stopping:
            self.restart(deed.id)
        else:
            self.retry_all()
        self.follow()

    def expire(self, running: frozenset[str]) -> None:
        """The time of all jobs that can expire has passed; running ones go on."""
        for world in self.family():
            world.running = running
            for id in [id for id in world.nodes if id in world.mortal - running]:
                if world.state[id] in (WAITING, READY):
                    world.expired.add(id)
                    world.end(id, world.nodes[id].fields.get("expire_to", CANCELLED))
        self.follow()

    def follow(self) -> None:
        """Follow consequences first come, first served: new ones come after those that are waiting."""
        while self.todos:
            self.todos.popleft()()

    # -- forwards

    def end(self, id: str, state: State) -> None:
        was, self.state[id] = self.state[id], state
        self.todos.append(partial(self.spread, id))
        inner = self.awaits.get(id)
        if inner is not None and was is WAITING and inner.state[inner.plan.id] is WAITING and not inner.stopping:
            inner.stop("cancel")

    def spread(self, id: str) -> None:
        """Decide the open edges behind a node that ended."""
        node, state = self.nodes[id], self.state[id]
        if state not in OVER:
            return
        edges = [(target, at, edge) for target, at, edge in self.behind(id) if self.edges[target.id, at] is OPEN]
        breaks = any(not self.meets(id, edge.on) for _, _, edge in edges)
        fatal = breaks and state is FAILED and node.shape is Shape.CALL and not node.aftermath
        if fatal and self.plan.fields.get("fail_fast") and not self.stopping:
            self.stop("fail")
        for target, at, edge in edges:
            self.edges[target.id, at] = MET if self.meets(id, edge.on) else BROKEN
            settled = OPEN not in self.into(target.id)
            if self.is_idle(target.id) and (settled or (edge.hasty and state is not SUCCEEDED)):
                self.decide(target)
        if id == self.plan.id and self.outer is not None and self.to_outer is OPEN:
            self.to_outer = MET if self.meets(id, self.plan.parent_on) else BROKEN
            self.outer.come_back(self.plan.parent, self)

    def meets(self, id: str, on: On) -> bool:
        """Whether this end meets the edge. An expired job counts as failed, even if its state is cancelled."""
        return self.state[id] in MEETS[on] or (on is On.FAILURE and id in self.expired)

    def is_idle(self, id: str) -> bool:
        """Whether a node waits, and only for its edges."""
        return self.state[id] is WAITING and id not in self.awaits

    def come_back(self, id: str, inner: GraphModel) -> None:
        """The graph a job waits for is over."""
        if self.state[id] is not WAITING or self.awaits.get(id) is not inner:
            return
        stopped = "" if self.nodes[id].aftermath else self.stopping
        if inner.to_outer is BROKEN:
            self.end(id, CANCELLED if stopped == "cancel" else FAILED)
            self.given_up.add(id)
            # In a stopped graph it is open which job ended first.
            self.scapegoats[id] = frozenset(inner.state) if inner.stopping else inner.blames(inner.plan.id)
        elif id in self.replaced:
            self.end(id, SUCCEEDED)
        elif stopped:
            self.end(id, CANCELLED)
        else:
            self.state[id] = READY

    def decide(self, node: DraftNode) -> None:
        stopped = "" if node.aftermath else self.stopping
        if self.is_beyond(node) or (stopped and node.id == self.plan.id):
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
        self.todos.append(self.cancel_all)

    def cancel_all(self) -> None:
        for node in self.plan.added:
            doomed = self.state[node.id] in (WAITING, READY) and node.id not in self.running
            if doomed and node.shape is Shape.CALL and not node.aftermath:
                self.end(node.id, CANCELLED)

    # -- backwards

    def restart(self, id: str) -> None:
        self.state[id] = WAITING if OPEN in self.into(id) else READY
        self.forget(id)
        self.todos.append(partial(self.reopen, id))

    def forget(self, id: str) -> None:
        """Forget what the last run left."""
        self.given_up.discard(id)
        self.awaits.pop(id, None)
        self.replaced.discard(id)
        self.scapegoats.pop(id, None)
        self.mortal.discard(id)
        self.expired.discard(id)

    def reopen(self, id: str) -> None:
        """Open again the edges broken by this node's end, and those it met if nothing came of them."""
        for target, at, _ in self.behind(id):
            edge, state = self.edges[target.id, at], self.state[target.id]
            if edge is BROKEN or (edge is MET and state not in (READY, SUCCEEDED)):
                self.edges[target.id, at] = OPEN
                gave_up = state is SKIPPED or (target.shape is not Shape.CALL and state in (FAILED, CANCELLED))
                if edge is BROKEN and gave_up:
                    self.wait_again(target.id)
        if id == self.plan.id and self.outer is not None:
            self.outer.reopen_outer(self.plan.parent, self)

    def reopen_outer(self, id: str, inner: GraphModel) -> None:
        """The graph of a job starts again; a job that was replaced by it follows."""
        state = self.state[id]
        if inner.to_outer is OPEN or (inner.to_outer is MET and state in (READY, SUCCEEDED)):
            return
        inner.to_outer = OPEN
        if self.awaits.get(id) is inner and id in self.replaced and state in (FAILED, CANCELLED):
            self.wait_again(id)

    def wait_again(self, id: str) -> None:
        self.state[id] = WAITING
        self.given_up.discard(id)
        self.scapegoats.pop(id, None)
        self.mortal.discard(id)
        self.expired.discard(id)
        self.todos.append(partial(self.reopen, id))

    def retry_all(self) -> None:
        """Let all failed and cancelled jobs wait, and the end at once; then decide the nodes that wait for nothing."""
        self.stopping = ""
        for node in self.plan.added:
            if self.is_retried(node):
                self.forget(node.id)
                self.wait_again(node.id)
            elif node.id == self.plan.id and self.state[node.id] in OVER:
                self.wait_again(node.id)
        self.follow()
        for node in self.plan.added:
            if self.is_idle(node.id) and OPEN not in self.into(node.id):
                self.decide(node)

    def is_beyond(self, node: DraftNode) -> bool:
        """Whether more of its edges are broken than it can spare."""
        return self.into(node.id).count(BROKEN) > node.spare

    def lacks(self, id: str) -> bool:
        """Whether it can do nothing, and nothing under way will change that."""
        return OPEN not in self.into(id) and self.is_beyond(self.nodes[id])

    def is_retried(self, node: DraftNode) -> bool:
        return node.shape is Shape.CALL and not node.aftermath and self.state[node.id] in (FAILED, CANCELLED)

    # -- looking around

    def behind(self, id: str) -> list[tuple[DraftNode, int, After]]:
        """The edges out of a node: target, place there, edge."""
        found = []
        for node in self.plan.added:
            found += [(node, at, edge) for at, edge in enumerate(node.after) if edge.source == id]
        return found

    def into(self, id: str) -> list[str]:
        return [self.edges[id, at] for at in range(len(self.nodes[id].after))]

    def blames(self, id: str) -> frozenset[str]:
        """Every job that may be named as the culprit of a node that was given up."""
        if id in self.scapegoats:
            return self.scapegoats[id]
        found: set[str] = set()
        for at, edge in enumerate(self.nodes[id].after):
            if self.edges[id, at] is BROKEN:
                found |= self.blames(edge.source) if edge.source in self.given_up else {edge.source}
        return frozenset(found)
