"""Builders: what can be written, that nothing written changes, and what is said to mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.drafts import draft_of
from windlass import (
    Chain,
    Chord,
    ConfigError,
    Flow,
    Group,
    Signature,
    State,
    Windlass,
    Work,
    chain,
    chord,
    flow,
    group,
)

app = Windlass("works", "memory://")


@app.task(name="add")
async def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(name="total")
async def total(xs: list[int]) -> int:
    return sum(xs)


def plain(x: int) -> int:
    return x


def test_what_is_written_is_what_it_is() -> None:
    a, b = add.s(1), add.s(2)
    assert chain(a, b).steps == (a, b)
    assert chain([a, b]).steps == (a, b)
    assert (a | b | total.si([])).steps[:2] == (a, b)
    assert group(a, b).members == group([a, b]).members == group(x for x in (a, b)).members == (a, b)
    assert isinstance(chord([a, b], total.s()), Chord)
    assert isinstance(chord([a, b])(total.s()), Chord)
    assert isinstance(chord(group(a, b), total.s()), Chord)
    assert isinstance(flow(a, needs=[b]), Flow)
    assert isinstance(group(a) | total.s(), Chain)
    assert len(group(a, b)) == 2


def test_works_are_values() -> None:
    a = add.s(1)
    decorated = (
        a.on_error(add.s(1)).on_end(add.si(1)).then(add.s()).if_fails("ignore").named("x").with_id("y").fail_fast()
    )
    assert not a.has_callbacks
    assert decorated.has_callbacks
    assert (decorated.extras.name, decorated.extras.id, decorated.extras.fail_fast) == ("x", "y", True)
    other = a.set(queue="slow", priority=9)
    assert (dict(a.options), other.options["queue"], other.options["priority"]) == ({}, "slow", 9)
    assert other.set(priority=1).options == {"queue": "slow", "priority": 1}
    members = [a]
    made = group(members)
    members.append(a)
    assert len(made) == 1
    kept = made.keep_errors()
    assert (made.keeps_errors, kept.keeps_errors, kept.at_least(1).keeps_errors) == (False, True, False)
    assert chord([a], a).keep_errors().header.keeps_errors
    assert chord([a], a).at_least(0).header.least == 0


def test_a_chain_with_something_said_of_it_stays_whole() -> None:
    inner = chain(add.s(1), add.s(2)).on_error(add.s())
    assert (inner | add.s(3)).steps[0] is inner
    assert len((chain(add.s(1), add.s(2)) | add.s(3)).steps) == 3


def test_signatures() -> None:
    one = add.s(1, y=2)
    assert (one.name, one.task, one.args, one.kwargs, one.immutable) == ("add", add, (1,), {"y": 2}, False)
    assert add.si(1).immutable
    assert add.options(queue="slow").si(1).options == {"queue": "slow"}
    named = app.sig("else.where", {"x": 1}, queue="other", immutable=True)
    assert (named.name, named.task, named.kwargs, named.immutable) == ("else.where", None, {"x": 1}, True)
    assert repr(one) == "add(1, y=2)"
    assert repr(add.map(range(3))) == "add.map(3 items)"
    assert repr(chain(one, one)) == "chain(add(1, y=2), add(1, y=2))"
    assert repr(group([one] * 7)).endswith("… 2 more)")
    assert repr(chord([one], total.s())) == "chord([add(1, y=2)], total())"
    assert repr(flow(one, [one])) == "flow(add(1, y=2), needs=[add(1, y=2)])"


def test_maps_and_chunks() -> None:
    draft = draft_of(add.map([1, 2]))
    assert (draft.payload, draft.options["each"]) == (b'{"each":[[1],[2]]}', "map")
    assert draft_of(add.starmap([(1, 2), [3, 4]])).payload == b'{"each":[[1,2],[3,4]]}'
    assert draft_of(add.map([])).payload == b'{"each":[]}'
    assert draft_of(add.options(queue="slow").map([1])).resolved.queue == "slow"
    parts = add.chunks(((n, n) for n in range(5)), 2)
    assert isinstance(parts, Group)
    assert [len(part.args) for part in parts.members if isinstance(part, Signature)] == [2, 2, 1]
    with pytest.raises(TypeError, match=r"item 1: task add.*missing a required argument: 'x'"):
        draft_of(add.starmap([(1,), ()]))
    with pytest.raises(ConfigError, match=r"chunks\(\.\.\., 0\): give a whole number"):
        add.chunks([(1,)], 0)


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda: chain(), "chain\\(\\) of nothing"),
        (lambda: chain(add), "step 1 of the chain is <task add> without arguments; call it"),
        (
            lambda: group(add.s(1), plain),
            "member 2 of the group is the plain function plain; declare it with @app.task",
        ),
        (lambda: add.s(1) | plain, "the right side of | is the plain function plain"),
        (lambda: add.s(1) | 5, "the right side of | is 5; give a work"),
        (lambda: chord([add.s(1)], plain), "the body of the chord is the plain function"),
        (lambda: chord([plain], add.s()), "member 1 of the group is the plain function"),
        (lambda: flow(add, []), "the parent of the flow is <task add> without arguments"),
        (lambda: flow(group(), []), r"flow\(\): the parent is group\(\); give one call"),
        (lambda: flow(add.s(1), [plain]), "need 1 of the flow is the plain function"),
        (lambda: add.s(1).on_error(plain), r"on_error\(\) is the plain function"),
        (lambda: add.s(1).then(add), r"then\(\) is <task add> without arguments"),
        (lambda: add.s(1).if_fails("ignor"), r"if_fails\('ignor'\) \(did you mean 'ignore'\?\)"),
        (lambda: add.s(1).set(quue="x"), r"task add got an unknown option 'quue' \(did you mean 'queue'\?\)"),
        (lambda: app.sig("x", {}, prioritty=1), r"app.sig\('x'\) got an unknown option 'prioritty' \(did you mean"),
        (lambda: app.sig(plain), "the plain function plain; declare it with @app.task"),
        (lambda: app.sig(add), "is <task add> without arguments"),
        (lambda: app.sig("x", [1]), "the arguments are \\[1\\]; give a mapping by name"),
        (lambda: app.sig("not a name"), "task name 'not a name' is not usable"),
        (lambda: group(add.s(1)).at_least(2), r"at_least\(2\) of a group of 1; give a whole number from 0 to 1"),
        (lambda: group(add.s(1)).at_least(-1), "at_least"),
        (lambda: chain(add.s(1)).named(""), "named"),
        (lambda: chain(add.s(1)).named("a\nb"), "named"),
        (lambda: chain(add.s(1)).with_id(""), "job id '' is not usable"),
    ],
)
def test_a_mistake_is_named_where_it_is_written(write: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("side of |", r"side of \|")):
        write()


async def test_a_work_without_a_call_is_over_at_once() -> None:
    handle = await group()
    assert (await handle, await handle.state(), handle.id) == ([], State.SUCCEEDED, "")
    assert await (await group(group(), group(group()))) == [[], [[]]]
    assert await (await chain(group(), group(group()))) == [[]]
    assert (await handle.cancel(), await handle.retry(), await handle.forget()) == (False, False, False)
    assert str(await handle.progress()) == "0 of 0"
    assert (await handle.jobs(), (await handle.tree()).children) == ([], [])
    assert "group of nothing" in await handle.mermaid()
    assert (await handle.dot()).startswith('digraph "group of nothing"')
    info = await handle.info()
    assert info is not None
    assert info.total == 0


def test_a_work_without_a_call_from_sync_code() -> None:
    handle = group().delay()
    assert (handle.get(), handle.state, handle.cancel()) == ([], State.SUCCEEDED, False)


def test_an_app_is_found_however_deep() -> None:
    work: Work[Any] = group(group(), group(chain(group(), add.s())))
    assert work.find_app() is app
    assert group().on_end(add.si(1)).find_app() is app
    assert group(group()).find_app() is None


async def test_what_is_said_of_workflows_is_not_said_of_jobs() -> None:
    for work, said in (
        (add.s(1).with_id("x"), r"with_id\(\) is for workflows.*\.set\(id=\.\.\.\)"),
        (add.s(1).fail_fast(), r"fail_fast\(\) is for workflows"),
        (add.s(1).named("x"), r"named\(\) is for workflows"),
    ):
        with pytest.raises(ConfigError, match=said):
            await work
    with pytest.raises(ConfigError, match=r"add\(1\): on_error\(\), on_end\(\) is for workflows"):
        await app.enqueue_many([add.s(1).on_error(add.s()).on_end(add.si(1))])
