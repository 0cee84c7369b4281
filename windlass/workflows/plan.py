"""From a work to the nodes of a graph: which jobs there are, and which edges join them. Pure; sends nothing.

A job has at most one edge in: whatever several sources lead to is a join. A group is a join that makes a list of its
members' values; one that is wider than a node may be is a tree of joins whose lists are put into one. A value that more
nodes want than a node may have edges goes out through a tree of joins that pass it on. Last comes the end, the join
that bears the workflow's id, and behind it the callbacks of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from windlass.connections.sender import batches
from windlass.core.draft import Draft
from windlass.core.graph import NewGraph
from windlass.core.job import NewJob
from windlass.core.links import WIDTH, Inject, On, Out, Shape
from windlass.core.terms import Terms
from windlass.errors import ConfigError, PayloadError
from windlass.support.ids import new_id
from windlass.workflows.fans import spread
from windlass.workflows.flows import Flow
from windlass.workflows.nodes import Edge, Feed, Node, connect
from windlass.workflows.outline import Outline, Part, encode_outline
from windlass.workflows.signature import Signature
from windlass.workflows.work import PLAIN, App, Chain, Chord, Group, Work, said_of

PART = 250
"""A part of a plan, as it is sent, has at most so many nodes, and at most about as many bytes as a batch of jobs."""

PLAIN_TERMS = Terms()
MOST_CALLBACKS = 100
"""Callbacks of one work. Their edges are not spread over joins, as others are."""


class Plan:
    """A workflow ready to be sent. Enqueue middleware may change its drafts until its nodes are made of them."""

    def __init__(self, app: App, graph: NewGraph, steps: list[Node]) -> None:
        self.graph, self.steps = graph, steps
        self._source, self._meta = app.connections.source, app.connections.plain_meta

    @property
    def drafts(self) -> list[Draft]:
        return [node.draft for node in self.steps if node.draft is not None]

    @property
    def nodes(self) -> list[NewJob]:
        """All of them, in an order in which every edge leads forward."""
        return [node.to_job(self._source, self._meta) for node in self.steps]

    def part(self, first: int) -> Sequence[NewJob]:
        """As many nodes from number ``first`` on as go into one call."""
        return batches([node.to_job(self._source, self._meta) for node in self.steps[first : first + PART]])[0]


def make_plan(app: App, work: Work[Any], *, parent: str = "", replaced: bool = False) -> Plan:
    """The nodes of a work. ``parent``: the job that waits for its end, or is ``replaced`` by it."""
    extras = work.extras
    maker = Planner(app, extras.id)
    outline, end = maker.whole(work)
    if parent:
        end.outs.append(Out(parent))
    nodes = spread(maker.nodes, maker.fixed)
    shown = encode_outline(outline, [node.number for node in maker.nodes])
    meta: dict[str, Any] = {} if shown is None else {"outline": shown, "nodes": len(nodes)}
    if replaced:
        meta["replaced"] = True
    graph = NewGraph(
        id=maker.id, nodes=len(nodes), name=extras.name or name_of(work), fail_fast=extras.fail_fast, parent=parent,
        size=sum(node.draft is not None and not node.aftermath for node in nodes),
        digest=digest(nodes, extras.fail_fast) if extras.id else maker.id, meta=msgspec.json.encode(meta),
    )  # fmt: skip
    return Plan(app, graph, nodes)


class Planner:
    """Places works one by one. Every node is made behind those that lead to it."""

    def __init__(self, app: App, id: str) -> None:
        self.app, self.id, self.fixed = app, id or new_id(), bool(id)
        self.nodes: list[Node] = []
        self._late: list[Edge] = []
        self._trail: list[tuple[str, int]] = []
        self._above: set[int] = set()
        self._ids: set[str] = {self.id}
        self._aftermath = False

    # -- the whole

    def whole(self, work: Work[Any]) -> tuple[Part, Node]:
        """Place a work, its end and its callbacks."""
        if work.extras.if_fails:
            raise ConfigError("if_fails() is for the works a flow needs: flow(parent, needs=[work.if_fails(...)])")
        outline: Part
        if isinstance(work, Group):
            edges, outline = self._members(work, None)
            shape, spare = Shape.MANY, spare_of(work)
            if spare and self._late:  # what is counted must be counted in one join, which has no room for others then
                edges, shape, spare = [Edge(self._join(edges, shape, spare))], Shape.ONE, 0
        else:
            tail, outline = self._bare(work, None)
            edges, shape, spare = [Edge(tail)], Shape.ONE, 0
        late = self._late
        if len(edges) + len(late) > WIDTH:
            late = [Edge(self._gather(late), inject=Inject.NONE)] if late else []
        end = self._join(self._narrow(edges, WIDTH - len(late)) + late, shape, spare, self.id)
        return self._callbacks(work, end, outline, None), end

    # -- works

    def place(self, work: Work[Any], feed: Feed | None, *, needed: bool = False) -> tuple[Node, Part]:
        """A work that is a part of another: the node that has its value, and how it looks."""
        extras = work.extras
        if extras is PLAIN:
            return self._bare(work, feed)
        if extras.fail_fast or extras.name or extras.id:
            said = said_of(msgspec.structs.replace(PLAIN, fail_fast=extras.fail_fast, name=extras.name, id=extras.id))
            raise ConfigError(f"{self.where()}: {said[0]} is of a whole workflow; say it of the outermost work")
        if extras.if_fails and not needed:
            raise ConfigError(f"{self.where()}: if_fails() is for the works a flow needs, and this is none of them")
        tail, outline = self._bare(work, feed)
        if work.has_callbacks:
            if tail.shape is Shape.CALL and work.kind != "call":
                # The last job of a chain is skipped when an earlier one fails; a join behind it fails with it.
                tail = self._join([Edge(tail)], Shape.ONE)
            outline = self._callbacks(work, tail, outline, feed)
        return tail, outline

    def _bare(self, work: Work[Any], feed: Feed | None) -> tuple[Node, Part]:
        if isinstance(work, Signature):
            return self._call(work, feed)
        if id(work) in self._above:
            raise ConfigError(f"{self.where() or 'the workflow'}: this {work.kind} contains itself")
        self._above.add(id(work))
        try:
            if isinstance(work, Group):
                return self._group(work, feed)
            if isinstance(work, Flow):
                return self._flow(work, feed)
            if isinstance(work, Chord):
                return self._chord(work, feed)
            if isinstance(work, Chain):
                return self._chain(work, feed)
        except RecursionError:
            raise ConfigError(f"the {work.kind} is nested too deeply") from None
        finally:
            self._above.discard(id(work))
        raise ConfigError(f"{self.where()}: {work!r} is no work Windlass knows")

    def _call(self, call: Signature[Any], feed: Feed | None) -> tuple[Node, Part]:
        fed = feed is not None and feed.inject is Inject.RESULT and not call.immutable
        if call.app is not self.app:
            raise ConfigError(f"{self.where()}: {call!r} is of {call.app!r}, and the workflow is of {self.app!r}")
        try:
            draft = self.app.submitting.draft(call, fed=fed, stable=self.fixed)
        except (PayloadError, ConfigError) as error:
            hint = " (the value of what comes before it is its first argument; .si(...) takes none)" if fed else ""
            raise type(error)(f"{self.where()}{': ' if self._trail else ''}{error}{hint}") from error
        if draft.terms is not None:
            draft.terms = self._member_terms(draft.task, draft.terms)
        if "id" in call.options:
            if draft.id in self._ids:
                raise ConfigError(f"{self.where()}: id {draft.id!r} is in use in this workflow already")
            self._ids.add(draft.id)
        elif self.fixed:
            draft.id = self._new_id()
        node = Node(draft.id, draft, [], [], aftermath=self._aftermath, number=len(self.nodes))
        self.nodes.append(node)
        if feed is not None:
            connect(
                feed.source, node, feed.on, Inject.NONE if feed.inject is Inject.RESULT and not fed else feed.inject
            )
        return node, node.number

    def _member_terms(self, task: str, terms: Terms) -> Terms | None:
        """A member is a member whatever else there is: it is neither another job's double nor left out."""
        for option, said in (("unique", terms.unique), ("seq", terms.seq)):
            if said:
                place = f"{self.where()}: " if self._trail else ""
                raise ConfigError(
                    f"{place}task {task} has {option}=, which a member of a workflow cannot have"
                    + ("; .set(unique=False) switches it off" if option == "unique" else "")
                )
        own = msgspec.structs.replace(terms, max_ready=0, drop_oldest=False)
        return None if own == PLAIN_TERMS else own

    def _chain(self, work: Chain[Any], feed: Feed | None) -> tuple[Node, Part]:
        outline = Outline("chain")
        tail = None
        for place, step in enumerate(work.steps, 1):
            self._trail.append(("step {} of the chain", place))
            tail, part = self.place(step, feed)
            self._trail.pop()
            outline.add(part)
            feed = Feed(tail)
        if tail is None:
            raise ConfigError(f"{self.where() or 'the workflow'}: a chain of nothing has no result")
        outline.tail = tail.number
        return tail, outline

    def _chord(self, work: Chord[Any], feed: Feed | None) -> tuple[Node, Part]:
        outline = Outline("chord")
        self._trail.append(("the header of the chord", 0))
        tail, part = self.place(work.header, feed)
        outline.add(part)
        self._trail[-1] = ("the body of the chord", 0)
        tail, part = self.place(work.body, Feed(tail))
        self._trail.pop()
        outline.add(part)
        outline.tail = tail.number
        return tail, outline

    def _group(self, work: Group[Any], feed: Feed | None) -> tuple[Node, Part]:
        edges, outline = self._members(work, feed)
        tail = self._join(self._in_turn(edges, feed), Shape.MANY, spare_of(work))
        outline.tail = tail.number
        return tail, outline

    def _members(self, work: Group[Any], feed: Feed | None) -> tuple[list[Edge], Outline]:
        """The members of a group, and the edges from them."""
        if len(work.members) > WIDTH and spare_of(work):
            raise ConfigError(
                f"{self.where() or 'the group'}: at_least() can count up to {WIDTH} members, not {len(work.members)}; "
                "use keep_errors() and let what comes next count the Failure values"
            )
        outline = Outline("group", tail=-1)
        on = On.DONE if work.keeps_errors or work.least == 0 else On.SUCCESS
        edges = []
        for place, member in enumerate(work.members, 1):
            self._trail.append(("member {} of the group", place))
            tail, part = self.place(member, feed)
            self._trail.pop()
            outline.add(part)
            edges.append(Edge(tail, on))
        return edges, outline

    def _flow(self, work: Flow[Any], feed: Feed | None) -> tuple[Node, Part]:
        outline = Outline("flow")
        edges = []
        for place, need in enumerate(work.needs, 1):
            self._trail.append(("need {} of the flow", place))
            tail, part = self.place(need, feed, needed=True)
            self._trail.pop()
            outline.add(part)
            edges.append(Edge(tail, *IF_FAILS[need.extras.if_fails or "fail"]))
        if any(edge.hasty for edge in edges):
            if len(edges) > WIDTH:
                raise ConfigError(
                    f"{self.where() or 'the flow'}: if_fails('continue') works in a flow of up to {WIDTH} works, not "
                    f"{len(edges)}; make some of them a group"
                )
            # The parent may be over before all of them are; the workflow is not.
            self._late += [Edge(edge.source, On.DONE, Inject.NONE) for edge in edges]
        needs = self._join(self._in_turn(edges, feed), Shape.MANY)
        self._trail.append(("the parent of the flow", 0))
        tail, part = self.place(work.parent, Feed(needs, inject=Inject.ASIDE))
        self._trail.pop()
        outline.add(part)
        outline.tail = tail.number
        return tail, outline

    def _callbacks(self, work: Work[Any], tail: Node, outline: Part, feed: Feed | None) -> Part:
        """What hangs at the end of a work. It is no part of what the work comes to, so never a reason to wait."""
        extras = work.extras
        if not work.has_callbacks:
            return outline
        if len(extras.then) + len(extras.on_error) + len(extras.on_end) > MOST_CALLBACKS:
            raise ConfigError(f"{self.where() or 'the workflow'}: more than {MOST_CALLBACKS} callbacks of one work")
        whole = Outline("work", tail=tail.number)
        whole.add(outline)
        before, self._aftermath = self._aftermath, True
        failed = Feed(tail, On.FAILURE)
        if extras.on_error and feed is not None and work.kind != "call":
            # A work that never began did not fail: what came before it did, and the join behind it only followed.
            failed = Feed(self._join([Edge(tail, On.FAILURE), Edge(feed.source, feed.on, Inject.NONE)], Shape.ONE))
        for handler in extras.then:
            whole.add(self._handler("then", handler, Feed(tail)))
        for handler in extras.on_error:
            whole.add(self._handler("on_error", handler, failed))
        for handler in extras.on_end:
            whole.add(self._handler("on_end", handler, Feed(tail, On.DONE, Inject.NONE)))
        self._aftermath = before
        return whole

    def _handler(self, kind: str, handler: Work[Any], feed: Feed) -> Outline:
        self._trail.append((f"a callback by {kind}()", 0))
        if handler.kind != "call" and feed.on is not On.SUCCESS:
            # One edge for the condition; whatever the handler begins with follows from there.
            feed = Feed(self._join([Edge(*feed)], Shape.ONE), inject=feed.inject)
        late, self._late = self._late, []  # the end does not wait for callbacks
        outline = Outline(kind)
        outline.add(self.place(handler, feed)[1])
        self._late = late
        self._trail.pop()
        return outline

    # -- joins

    def _join(self, edges: Iterable[Edge], shape: Shape, spare: int = 0, id: str = "") -> Node:
        node = Node(id or self._new_id(), None, [], [], shape, spare, self._aftermath, len(self.nodes))
        self.nodes.append(node)
        for source, on, inject, hasty in edges:
            connect(source, node, on, inject, hasty)
        return node

    def _in_turn(self, edges: list[Edge], feed: Feed | None) -> list[Edge]:
        """The edges of a list, and where all of its items may fail, or there are none, one from what comes before.

        If that fails, nothing of the list ever began, and a list of failures would be taken for its value.
        """
        if feed is None or any(edge.on is On.SUCCESS for edge in edges):
            return self._narrow(edges, WIDTH)
        return [*self._narrow(edges, WIDTH - 1), Edge(feed.source, feed.on, Inject.NONE)]

    def _narrow(self, edges: list[Edge], width: int) -> list[Edge]:
        """The same list by at most ``width`` edges: what is too much goes through joins, put into one list again."""
        while len(edges) > width:
            parts = even_parts(edges, WIDTH)
            edges = [Edge(self._join(part, Shape.MANY), inject=Inject.SPLICE) for part in parts]
        return edges

    def _gather(self, edges: list[Edge]) -> Node:
        """One node that is over when all of these are."""
        while len(edges) > WIDTH:
            parts = even_parts(edges, WIDTH)
            edges = [Edge(self._join(part, Shape.MANY), inject=Inject.NONE) for part in parts]
        return self._join(edges, Shape.MANY)

    def _new_id(self) -> str:
        """Random, or given by the workflow's own id: then whoever submits it again makes the same nodes."""
        return f"{self.id}.{len(self.nodes)}"[-256:] if self.fixed else new_id()

    def where(self) -> str:
        """The place that is being worked on, in words."""
        return " in ".join(words.format(number) for words, number in reversed(self._trail))


IF_FAILS: dict[str, tuple[On, Inject, bool]] = {
    "fail": (On.SUCCESS, Inject.RESULT, False),
    "ignore": (On.DONE, Inject.RESULT, False),
    "remove": (On.DONE, Inject.IF_SUCCEEDED, False),
    "continue": (On.DONE, Inject.IF_SUCCEEDED, True),
}


def spare_of(group: Group[Any]) -> int:
    """How many members may fail; where all may, no edge from them ever breaks."""
    return len(group.members) - group.least if group.least > 0 else 0


def even_parts(edges: Sequence[Edge], width: int) -> Iterator[Sequence[Edge]]:
    """As few parts of at most ``width`` as there can be, all about as long."""
    count = -(-len(edges) // width)
    for place in range(count):
        yield edges[len(edges) * place // count : len(edges) * (place + 1) // count]


# -- what is said of the whole


def digest(nodes: Iterable[Node], fail_fast: bool) -> str:
    """The same for the same calls joined in the same way, whoever submits them and with whatever options."""
    hash = hashlib.blake2b(b"fail fast" if fail_fast else b"", digest_size=16)
    for node in nodes:
        task, payload = (node.draft.task, node.draft.payload) if node.draft else ("", b"")
        hash.update(msgspec.json.encode((node.id, task, payload, node.ins, node.outs, node.spare, node.shape)))
    return hash.hexdigest()


def name_of(work: Work[Any]) -> str:
    """``chain of shop.charge, shop.ship``: the kind, and the first of its tasks."""
    names: dict[str, None] = {}
    more = False
    for name in islice(task_names(work), 10_000):
        more = len(names) == 3 and name not in names
        if more:
            break
        names[name] = None
    what = ", ".join(names) + (", …" if more else "")
    return what if work.kind == "call" else f"{work.kind} of {what or 'nothing'}"[:256]


def task_names(work: Work[Any]) -> Iterator[str]:
    if isinstance(work, Signature):
        yield work.name
    for part in islice(work.parts(), 100):  # a wide group is mostly of one task
        yield from task_names(part)
