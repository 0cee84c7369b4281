"""Plans: every work becomes a graph that keeps the rules of graphs and comes to what the work means.

The plan of a random work is run here by the rules of ``core.graph`` alone, and what it comes to is compared with what
the work itself says, read as a plain recursive program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.thorough import played
from tests.unit.workflows.plan_kit import app, step, two
from windlass import ConfigError, Signature, Work, chain, chord, flow, group
from windlass.core.graph import decided, verdict
from windlass.core.job import NewJob, State
from windlass.core.links import WIDTH, Edge, Inject, On, Shape
from windlass.workflows import plan
from windlass.workflows.flows import Flow
from windlass.workflows.plan import Plan, make_plan
from windlass.workflows.work import Chain, Chord, Group

FAILURE = "failure"


# -- a plan, run by the rules


@dataclasses.dataclass
class Ran:
    """What a run of a plan, or of a work, came to."""

    calls: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    state: State = State.SUCCEEDED
    value: Any = None


def check_rules(made: Plan, parent: str = "") -> list[NewJob]:
    """The graph is one that engines take, and every edge leads forward."""
    nodes = made.nodes
    known = {node.id: place for place, node in enumerate(nodes)}
    assert len(known) == len(nodes) == made.graph.nodes
    assert made.graph.id in known
    for place, node in enumerate(nodes):
        links = node.links
        assert links is not None
        assert len(links.ins) <= WIDTH
        assert len(links.outs) <= WIDTH
        assert (links.shape is Shape.CALL) == bool(node.task)
        assert not node.task or len(links.ins) <= 1
        assert len({edge.source for edge in links.ins}) == len(links.ins), "one edge between two nodes"
        for edge in links.ins:
            assert known[edge.source] < place
            (out,) = [out for out in nodes[known[edge.source]].links.outs if out.target == node.id]
            assert out.on is edge.on
        for out in links.outs:
            assert out.target == parent or node.id in [edge.source for edge in nodes[known[out.target]].links.ins]
    counted = [node for node in nodes if node.task and not node.links.aftermath]
    assert made.graph.size == len(counted)
    return nodes


def run_plan(made: Plan, failing: set[str]) -> Ran:
    ran = Ran()
    states: dict[str, State] = {}
    values: dict[str, Any] = {}
    for node in check_rules(made):
        links = node.links
        assert links is not None
        broken = sum(decided(edge.on, states[edge.source]) is Edge.BROKEN for edge in links.ins)
        state = verdict(links.shape, broken, links.spare)
        if state is State.READY:
            items = list(carried(links.ins, states, values))
            state, value = State.SUCCEEDED, items if links.shape is Shape.MANY else items[0] if items else None
            if node.task:
                state, value = call(ran, node, links.ins[0].inject if links.ins else Inject.NONE, items, failing)
            values[node.id] = value
        states[node.id] = state
    ran.state, ran.value = states[made.graph.id], values.get(made.graph.id)
    return ran


def carried(ins: Iterable[Any], states: dict[str, State], values: dict[str, Any]) -> Iterable[Any]:
    for edge in ins:
        succeeded = states[edge.source] is State.SUCCEEDED
        if edge.inject is Inject.SPLICE:
            yield from values[edge.source]
        elif edge.inject is not Inject.NONE and (succeeded or edge.inject is not Inject.IF_SUCCEEDED):
            yield values[edge.source] if succeeded else FAILURE


def call(ran: Ran, node: NewJob, inject: Inject, items: list[Any], failing: set[str]) -> tuple[State, Any]:
    (name,) = msgspec.json.decode(node.payload)["*args"]
    brought = ["aside" if inject is Inject.ASIDE else "given", items[0]] if items else []
    ran.calls.append((name, brought))
    return (State.FAILED, None) if name in failing else (State.SUCCEEDED, [name, *brought])


# -- a work, run as what it says


NOTHING = object()


class Failed(Exception):
    pass


class Model:
    def __init__(self, failing: set[str]) -> None:
        self.failing = failing
        self.calls: list[tuple[str, Any]] = []

    def run(self, work: Work[Any], given: Any = NOTHING) -> Any:
        return self.finish(work, lambda: self.bare(work, given))

    def finish(self, work: Work[Any], body: Callable[[], Any]) -> Any:
        try:
            value = body()
        except Failed:
            self.after(work, failure=FAILURE)
            raise
        self.after(work, value)
        return value

    def after(self, work: Work[Any], value: Any = NOTHING, failure: Any = NOTHING) -> None:
        """The callbacks. What never begins is over all the same: ``on_end`` of that runs."""
        extras = work.extras
        for handlers, brought in ((extras.then, value), (extras.on_error, failure)):
            for handler in handlers:
                self.skip(handler) if brought is NOTHING else self.quietly(handler, brought)
        for handler in extras.on_end:
            self.quietly(handler, NOTHING)

    def quietly(self, work: Work[Any], given: Any) -> Any:
        try:
            return self.run(work, given)
        except Failed:
            return FAILURE

    def bare(self, work: Work[Any], given: Any) -> Any:
        if isinstance(work, Signature):
            brought = [] if given is NOTHING or work.immutable else ["given", given]
            return self.call(work, brought)
        if isinstance(work, Group):
            return self.group(work, given)
        if isinstance(work, Flow):
            return self.flow(work, given)
        steps = work.steps if isinstance(work, Chain) else [work.header, work.body] if isinstance(work, Chord) else []
        for place, one in enumerate(steps):
            try:
                given = self.run(one, given)
            except Failed:
                for skipped in steps[place + 1 :]:
                    self.skip(skipped)
                raise
        return given

    def call(self, work: Signature[Any], brought: list[Any]) -> Any:
        self.calls.append((work.args[0], brought))
        if work.args[0] in self.failing:
            raise Failed
        return [work.args[0], *brought]

    def group(self, work: Group[Any], given: Any) -> list[Any]:
        values = [self.quietly(member, given) for member in work.members]
        bad = values.count(FAILURE)
        least = 0 if work.keeps_errors else work.least if work.least >= 0 else len(values)
        if len(values) - bad < least:
            raise Failed
        return values

    def flow(self, work: Flow[Any], given: Any) -> Any:
        found = []
        fatal = False
        for need in work.needs:
            value = self.quietly(need, given)
            policy = need.extras.if_fails or "fail"
            fatal |= value == FAILURE and policy == "fail"
            if value != FAILURE or policy == "ignore":
                found.append(value)
        if fatal:
            self.skip(work.parent)
            raise Failed
        return self.finish(work.parent, lambda: self.call(work.parent, ["aside", found]))

    def skip(self, work: Work[Any]) -> None:
        for part in work.parts():
            self.skip(part)
        self.after(work)


def run_work(work: Work[Any], failing: set[str]) -> Ran:
    model = Model(failing)
    try:
        value = model.run(work)
    except Failed:
        return Ran(model.calls, State.FAILED)
    return Ran(model.calls, State.SUCCEEDED, value)


# -- random works


names = st.integers(0, 10**6)

calls = st.tuples(names, st.booleans()).map(lambda one: (step.si if one[1] else step.s)(f"n{one[0]}"))


def decorated(works: st.SearchStrategy[Work[Any]]) -> st.SearchStrategy[Work[Any]]:
    ways = st.lists(st.tuples(st.sampled_from(["then", "on_error", "on_end"]), works), max_size=2)
    return st.tuples(works, ways).map(with_callbacks)


def with_callbacks(drawn: tuple[Work[Any], list[tuple[str, Work[Any]]]]) -> Work[Any]:
    work, ways = drawn
    for way, handler in ways:
        work = getattr(work, way)(handler)
    return work


def tolerant(drawn: tuple[list[Work[Any]], int]) -> Group[Any]:
    members, how = drawn
    made: Group[Any] = group(members)
    return made if how < 0 else made.keep_errors() if how == 0 else made.at_least(min(how, len(members)))


def needing(drawn: tuple[Signature[Any], list[tuple[Work[Any], str]]]) -> Flow[Any]:
    parent, needs = drawn
    return flow(parent, [need.if_fails(what) if what else need for need, what in needs])


def larger(works: st.SearchStrategy[Work[Any]]) -> st.SearchStrategy[Work[Any]]:
    policies = st.sampled_from(["", "fail", "ignore", "remove", "continue"])
    groups = st.tuples(st.lists(works, max_size=4), st.integers(-2, 3)).map(tolerant)
    return st.one_of(
        st.lists(works, min_size=1, max_size=4).map(lambda some: chain(*some)),
        groups,
        st.tuples(groups, works).map(lambda drawn: chord(*drawn)),
        st.tuples(calls, st.lists(st.tuples(works, policies), max_size=3)).map(needing),
        decorated(works),
    )


works = st.recursive(calls, larger, max_leaves=12)


def renamed(made: Plan) -> set[str]:
    return {draft.payload.decode() for draft in made.drafts}


@settings(max_examples=played(100, 400), deadline=None)
@given(works, st.data())
def test_a_plan_comes_to_what_its_work_says(work: Work[Any], data: st.DataObject) -> None:
    made = make_plan(app, work)
    labels = sorted({msgspec.json.decode(payload)["*args"][0] for payload in renamed(made)})
    failing = set(data.draw(st.lists(st.sampled_from(labels), max_size=3))) if labels else set()
    ran, meant = run_plan(made, failing), run_work(work, failing)
    assert (ran.state, ran.value) == (meant.state, meant.value)
    assert sorted(ran.calls, key=repr) == sorted(meant.calls, key=repr)


@settings(max_examples=played(40, 100), deadline=None)
@given(works)
def test_narrow_nodes_change_nothing(work: Work[Any]) -> None:
    """With nodes of three edges the smallest group is a tree; what comes of it is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "WIDTH", 3)
        patch.setattr(plan, "MOST_CALLBACKS", 1_000)
        try:
            made = make_plan(app, work)
        except ConfigError:
            assume(False)
    ran, meant = run_plan(made, set()), run_work(work, set())
    assert (ran.state, ran.value) == (meant.state, meant.value)
    assert sorted(ran.calls, key=repr) == sorted(meant.calls, key=repr)


@settings(max_examples=played(40, 100), deadline=None)
@given(works)
def test_the_same_work_under_an_id_is_the_same_plan(work: Work[Any]) -> None:
    one, other = make_plan(app, work.with_id("w")), make_plan(app, work.with_id("w"))
    assert one.graph == other.graph
    assert [(node.id, node.links) for node in one.nodes] == [(node.id, node.links) for node in other.nodes]
    assert make_plan(app, chain(work, step.si("more")).with_id("w")).graph.digest != one.graph.digest
    check_rules(one)


# -- shapes


def shape(work: Work[Any]) -> list[str]:
    """Each node by its task or shape, with the numbers of its sources."""
    made = make_plan(app, work)
    nodes = check_rules(made)
    at = {node.id: place for place, node in enumerate(nodes)}
    return [
        f"{node.task or node.links.shape.name}({','.join(str(at[edge.source]) for edge in node.links.ins)})"
        for node in nodes
    ]


def test_the_shape_of_the_usual_works() -> None:
    a = step.s("a")
    assert shape(chain(a, a)) == ["step()", "step(0)", "ONE(1)"]
    assert shape(group(a, a)) == ["step()", "step()", "MANY(0,1)"]
    assert shape(group(a, a) | a) == ["step()", "step()", "MANY(0,1)", "step(2)", "ONE(3)"]
    assert shape(chord([a, a], a)) == shape(group(a, a) | a)
    assert shape(group(a) | group(a, a)) == ["step()", "MANY(0)", "step(1)", "step(1)", "MANY(2,3)", "ONE(4)"]
    assert shape(chord([], a)) == ["MANY()", "step(0)", "ONE(1)"]
    assert shape(chain(a, group(), a)) == ["step()", "MANY(0)", "step(1)", "ONE(2)"]
    assert shape(group()) == ["MANY()"]
    assert shape(a | (a | a)) == shape(chain(a, a, a))
    assert shape(chain(chain(a, a), chain(a))) == shape(chain(a, a, a))
    assert shape(flow(a, [a, a])) == ["step()", "step()", "MANY(0,1)", "step(2)", "ONE(3)"]


def test_callbacks_hang_at_the_end_and_are_no_part_of_it() -> None:
    made = make_plan(app, chain(step.s("a"), step.s("b")).on_error(step.s("e")).then(step.s("t")).on_end(step.si("z")))
    nodes = check_rules(made)
    behind = {msgspec.json.decode(node.payload)["*args"][0]: node for node in nodes if node.links.aftermath}
    edges = {name: node.links.ins[0] for name, node in behind.items()}
    assert {name: (edge.source, edge.on, edge.inject) for name, edge in edges.items()} == {
        "e": (made.graph.id, On.FAILURE, Inject.RESULT),
        "t": (made.graph.id, On.SUCCESS, Inject.RESULT),
        "z": (made.graph.id, On.DONE, Inject.NONE),
    }
    assert made.graph.size == 2


def test_a_parent_is_told_of_the_end_whatever_the_work() -> None:
    for work in (step.si("a"), chain(step.si("a")), group(), group(step.si("a") for _ in range(600))):
        made = make_plan(app, work, parent="job")
        nodes = check_rules(made, "job")
        ends = [node.id for node in nodes if any(out.target == "job" for out in node.links.outs)]
        assert ends == [made.graph.id]
        assert made.graph.parent == "job"


@pytest.mark.parametrize("size", [WIDTH, WIDTH + 1, 2 * WIDTH, WIDTH * WIDTH + 1])
def test_wide_groups_are_trees(size: int) -> None:
    work = chain(step.s("a"), group(step.si(f"n{place}") for place in range(size)), step.s("z"))
    made = make_plan(app, work)
    assert run_plan(made, set()).value == ["z", "given", [[f"n{place}"] for place in range(size)]]
    assert made.graph.nodes < size * 1.02 + 10


def test_a_workflow_waits_for_all_that_a_hasty_flow_left_behind() -> None:
    many = [flow(step.si("p"), [step.si("a").if_fails("continue"), step.si("b")]) for _ in range(200)]
    made = make_plan(app, chain(group(many), step.s("z")))
    nodes = check_rules(made)
    reach = {made.graph.id}
    for node in reversed(nodes):
        if any(out.target in reach for out in node.links.outs):
            reach.add(node.id)
    assert all(node.id in reach for node in nodes if node.task)


def test_members_are_counted_in_one_join_whatever_else_the_end_waits_for() -> None:
    hasty = flow(step.si("p"), [step.si("a").if_fails("continue"), step.si("b")])
    work = group([*[step.si(f"n{place}") for place in range(WIDTH - 1)], hasty]).at_least(WIDTH - 1)
    assert run_plan(make_plan(app, work), {"n7"}).state is State.SUCCEEDED
    assert run_plan(make_plan(app, work), {"n7", "n8"}).state is State.FAILED


def test_a_part_is_bounded_by_count_and_by_bytes() -> None:
    made = make_plan(app, group(two.si(1) for _ in range(600)))
    assert [len(made.part(first)) for first in (0, 250, 500)] == [250, 250, 104]
    large = "x" * 300_000
    made = make_plan(app, group(step.si(large) for _ in range(8)))
    first, sizes = 0, []
    while first < made.graph.nodes:
        sizes.append(len(made.part(first)))
        first += sizes[-1]
    assert sizes == [3, 3, 3]


def test_options_of_a_node_are_kept() -> None:
    work = chain(two.options(queue="slow", priority=9).s(1, 2), two.s(3).set(id="mine", delay=5, headers={"a": "b"}))
    first, second, _ = make_plan(app, work).nodes
    assert (first.queue, first.priority) == ("slow", 9)
    assert (second.id, second.delay) == ("mine", 5000)
    assert msgspec.json.decode(second.meta)["headers"] == {"a": "b"}
    assert second.payload == b'{"y":3}'


def test_names() -> None:
    def name(work: Work[Any]) -> str:
        return make_plan(app, work).graph.name

    assert name(chain(step.s(1), two.s())) == "chain of step, two"
    assert name(chord([two.si(1) for _ in range(2000)], step.s())) == "chord of two, step"
    assert name(group()) == "group of nothing"
    assert name(group(app.sig(f"t{n}") for n in range(9))) == "group of t0, t1, t2, …"
    assert name(chain(two.s(1)).named("order 42")) == "order 42"
    assert name(two.si(1).on_end(step.si())) == "two"
