"""Works that cannot be planned: each mistake is named with its place."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.workflows.plan_kit import app, step, two
from windlass import ConfigError, Windlass, Work, chain, chord, flow, group
from windlass.core.links import Inject
from windlass.workflows.plan import make_plan

# -- mistakes


A = step.s("a")

short: Any = two  # the type checker knows better than to call it so


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (chain(two.s(1), two.s(2, 3)), r"step 2 of the chain: task two.*too many positional.*first argument; \.si"),
        (chain(two.s(1), two.s(x=3)), r"step 2 of the chain: task two.*multiple values for argument 'x'"),
        (chain(two.s(1), short.si()), r"step 2 of the chain: task two.*missing a required argument: 'x'"),
        (chain(two.s()), r"step 1 of the chain: task two.*missing a required argument: 'x'"),
        (chain(two.s(1), two.s(z=3)), r"step 2 of the chain: task two.*unexpected keyword argument 'z'"),
        (chain(two.s(1), two.s("x")), r"step 2 of the chain: task two.*Expected `int`, got `str` - at `\$\.y`"),
        (group(A, chain(A, two.s(1, 2))), r"step 2 of the chain in member 2 of the group: task two"),
        (chord([A], two.s(1, 2)), r"the body of the chord: task two"),
        (chord([A, short.si()], A), r"member 2 of the group in the header of the chord: task two"),
        (flow(short.si(), [A]), r"the parent of the flow: task two"),
        (chain(A).on_error(two.s(1, 2)), r"a callback by on_error\(\): task two"),
        (two.map([1, "x"]), r"item 1: task two"),
        (chain(A, chain(A).fail_fast()), r"step 2 of the chain: fail_fast\(\) is of a whole workflow"),
        (group(A.named("x")), r"member 1 of the group: named\(\) is of a whole workflow"),
        (chain(A, group(A).with_id("x")), r"with_id\(\) is of a whole workflow"),
        (chain(A).on_end(chain(A).fail_fast()), r"a callback by on_end\(\): fail_fast\(\)"),
        (chain(A, A.if_fails("ignore")), r"step 2 of the chain: if_fails\(\) is for the works a flow needs"),
        (chain(A).if_fails("ignore"), r"if_fails\(\) is for the works a flow needs"),
        (group([A] * 251).at_least(250), r"at_least\(\) can count up to 250 members, not 251"),
        (flow(A, [A.if_fails("continue")] * 251), r"if_fails\('continue'\) works in a flow of up to 250"),
        (group(A.set(id="x"), A.set(id="x")), r"member 2 of the group: id 'x' is in use in this workflow already"),
        (chain(A.set(id="w")).with_id("w"), r"step 1 of the chain: id 'w' is in use"),
        (chain(A).then(Windlass("b", "memory://").sig("x")), r"then\(\): x\(\) is of <app b>, and the workflow is of"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(work: Work[Any], says: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=says):
        make_plan(app, work)


def test_a_task_known_by_name_is_not_checked_unless_it_is_declared() -> None:
    first, second, _ = make_plan(app, chain(app.sig("else.where", {"q": 1}), app.sig("else.where", {"z": 1}))).nodes
    assert (first.payload, second.payload, second.links.ins[0].inject) == (b'{"q":1}', b'{"z":1}', Inject.RESULT)
    with pytest.raises(TypeError, match=r"step 1 of the chain: task two.*unexpected keyword argument 'q'"):
        make_plan(app, chain(app.sig("two", {"x": 0, "q": 1})))


def test_a_task_without_a_place_for_the_value() -> None:
    @app.task(name="only.keywords")
    async def only(*, x: int = 0) -> None: ...

    with pytest.raises(TypeError, match=r"step 2 of the chain: .*no first argument to take a value.*\.si"):
        make_plan(app, chain(two.s(1), only.s()))
    assert make_plan(app, chain(two.s(1), only.si(x=2))).nodes[1].payload == b'{"x":2}'


def test_a_work_that_contains_itself() -> None:
    inner: Any = group(A)
    inner.members = (chain(A, inner), A)
    with pytest.raises(ConfigError, match=r"step 2 of the chain in member 1 of the group.*contains itself"):
        make_plan(app, inner)
    with pytest.raises(ConfigError, match="contains itself"):
        make_plan(app, chain(A, inner))


def test_a_work_nested_beyond_reason() -> None:
    work: Work[Any] = A
    for _ in range(3000):
        work = group(work)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # as it is, unless another test's tool has raised it
    try:
        with pytest.raises(ConfigError, match="nested too deeply"):
            make_plan(app, work)
    finally:
        sys.setrecursionlimit(limit)


def test_too_many_callbacks() -> None:
    work = chain(A)
    for _ in range(101):
        work = work.then(A)
    with pytest.raises(ConfigError, match="more than 100 callbacks"):
        make_plan(app, work)
