"""Canvases as values that are used more than once: ids they bring along, parts that are set, generators."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.celery.kit import WAIT, soon
from windlass import IdConflict
from windlass.celery import Signature, chain, chord, group, maybe_signature, signature
from windlass.celery.exceptions import ChordError, ImproperlyConfigured

Tasks = SimpleNamespace


def get(result: Any) -> Any:
    return result.get(timeout=WAIT)


# -- ids of their own


def test_a_frozen_canvas_runs_each_time_and_has_its_id_the_first_time(anywhere: Tasks) -> None:
    t = anywhere
    canvases = [
        chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s()),
        chain(t.add.s(1, 1), t.add.s(4)),
        group(t.add.s(1, 1), t.add.s(2, 2)),
        t.add.s(1, 1) | group(t.add.s(1), t.add.s(2)) | t.total.s(),
    ]
    for canvas, value in zip(canvases, [6, 6, [2, 4], 7], strict=True):
        frozen = canvas.freeze()
        first, second = canvas.apply_async(), canvas.apply_async()
        assert (get(first), get(second)) == (value, value)
        assert first.id == frozen.id != second.id
        assert canvas.id == frozen.id


def test_a_callback_with_an_id_runs_in_every_place_it_is_linked_in(anywhere: Tasks) -> None:
    t = anywhere
    callback, errback = t.note.s(), t.errback.s()
    known = callback.freeze()
    errback.freeze()
    c = chain(t.add.s(1, 1), t.add.s(1))
    c.tasks[0].link(callback)
    c.link(callback)
    assert (get(c()), get(c())) == (3, 3)
    soon(lambda: len(t.seen) == 4)
    assert sorted(t.seen) == [2, 2, 3, 3]
    assert get(known) in (2, 3), "one of them has the id, and keeps it"
    t.seen.clear()
    failed = [t.fail.apply_async(args, link_error=errback).id for args in ((), (1,))]
    both = group(t.fail.s().on_error(errback), t.fail.s(2).on_error(errback))()
    soon(lambda: len(t.seen) == 4)
    assert {id for _, id in t.seen} == {*failed, both[0].id, both[1].id}


def test_a_replacement_with_a_used_id_runs(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)

    @app.task(bind=True)
    def handing_over(self, sig):  # type: ignore[no-untyped-def]
        return self.replace(maybe_signature(sig, app))

    with working(app):
        sig = t.add.s(1, 1) | t.add.s(1)
        sig.freeze()
        assert [get(handing_over.delay(sig)) for _ in range(2)] == [3, 3]


def test_an_id_that_the_call_itself_gives_is_used_once(tasks: Tasks) -> None:
    t = tasks
    c = chain(t.add.s(1, 1), t.add.s(1))
    assert get(c.apply_async(task_id="mine")) == 3
    with pytest.raises(IdConflict, match="mine"):
        c.apply_async(task_id="mine")
    frozen = chain(t.add.s(1, 1), t.add.s(1))
    frozen.freeze("other")
    assert frozen.apply_async(task_id="third").id == "third"
    named = t.add.s(4) | t.add.s(2).set(task_id="42")
    assert named.id is None
    named.freeze("42")
    assert named.id == "42"


# -- parts


def test_parts_of_a_signature_can_be_set(tasks: Tasks) -> None:
    t = tasks
    sig = t.add.s(1)
    sig.args, sig.kwargs, sig.options, sig.immutable = (2,), {"y": 3}, {"priority": 2}, True
    assert dict(sig) == {
        "task": "add", "args": (2,), "kwargs": {"y": 3}, "options": {"priority": 2}, "subtask_type": None,
        "immutable": True,
    }  # fmt: skip
    assert get(sig.delay()) == 5
    sig.task, sig.args, sig.kwargs = "identity", (7,), {}
    assert (sig.name, get(sig.delay())) == ("identity", 7)
    sig.subtask_type = "mine"
    assert sig["subtask_type"] == "mine"
    c = chain(t.add.s(1, 1), t.fail.s())
    c.tasks[1] = t.add.s(5)
    assert get(c()) == 7
    c.tasks = [t.add.s(2, 2)]
    assert get(c()) == 4
    h = chord([t.fail.s()], t.fail.s())
    h.tasks, h.body = [t.add.s(1, 1), t.add.s(2, 2)], t.total.s()
    assert (h.header.subtask_type, get(h())) == ("group", 6)


# -- generators


def test_a_generator_is_read_when_the_canvas_is_sent(tasks: Tasks) -> None:
    t = tasks
    read: list[int] = []

    def members() -> Iterator[Any]:
        for i in range(3):
            read.append(i)
            yield t.add.s(i, i)

    for made, value in ((chord(members(), t.total.s()), 6), (group(members()), [0, 2, 4])):
        read.clear()
        assert read == []
        assert (get(made()), get(made())) == (value, value)
        assert read == [0, 1, 2]


@pytest.mark.parametrize(
    "look",
    [
        lambda g: signature(json.loads(json.dumps(g))).tasks, lambda g: dict(g)["kwargs"]["tasks"],
        lambda g: {**g}["kwargs"]["tasks"], lambda g: copy.deepcopy(g).tasks, lambda g: g.clone().tasks,
        lambda g: dict(g.items())["kwargs"]["tasks"], lambda g: g.get("kwargs")["tasks"], len, list,
        lambda g: next(value for value in g.values() if isinstance(value, dict) and value)["tasks"],
        lambda g: g.tasks,
    ],
)  # fmt: skip
def test_every_look_at_a_group_of_a_generator_sees_its_tasks(app: Any, look: Any) -> None:
    from tests.celery.kit import declare

    t = declare(app)
    made = group(t.add.s(i, i) for i in range(3))
    assert made == group(t.add.s(i, i) for i in range(3))
    made = group(t.add.s(i, i) for i in range(3))
    seen = look(made)
    assert seen == 3 if isinstance(seen, int) else seen
    assert [task.args for task in made.tasks] == [(0, 0), (1, 1), (2, 2)]


def test_a_generator_of_something_else_is_refused_when_it_is_sent(tasks: Tasks) -> None:
    with pytest.raises(TypeError, match="no signature"):
        chord((i for i in range(3)), tasks.total.s())()


# -- groups of one, and what is added while they run


def test_a_group_of_one_that_ends_in_a_group_has_that_ones_results(tasks: Tasks) -> None:
    t = tasks
    assert get(group(t.add.s(1, 2) | group(t.add.s(1), t.add.s(2)))()) == [4, 5]
    assert get(group(t.identity.si(1), chain(t.identity.si(5), group(t.identity.si(3), t.identity.si(4))))()) == [
        1, [3, 4],
    ]  # fmt: skip


def test_tasks_add_to_their_chord(anywhere: Tasks) -> None:
    t = anywhere
    result = (group(t.adding.s([1, 2, 3]), t.add.s(1, 1)) | t.identity.s())()
    assert get(result) == ["own", 11, 12, 13, 2]
    assert get(result.parent) == ["own", 2], "what the caller knows of is what was in the header"
    assert get(chord([t.adding_chord.s([1, 2, 3])], t.identity.s())()) == ["own", 36]
    both = group(t.add.s(1, 1) | t.adding.si([1]), t.add.s(1, 1)) | group(t.identity.s(), t.identity.s())
    assert get(both()) == [["own", 11, 2], ["own", 11, 2]]
    assert get(chord([t.adding.s([])], t.identity.s())()) == ["own"]


def test_adding_where_there_is_no_chord_is_refused(tasks: Tasks) -> None:
    t = tasks
    for outside in (t.adding.s([1]), group(t.adding.s([1]), t.add.s(1, 1)), chain(t.adding.s([1]), t.identity.s())):
        with pytest.raises(ValueError, match="not member of any chord"):
            get(outside.delay())
    with pytest.raises(ChordError, match="lazy"):
        get(chord([t.adding.s([1], lazy=True)], t.identity.s())())


def test_what_is_added_and_fails_fails_the_chord(tasks: Tasks) -> None:
    with pytest.raises(TypeError):
        get(chord([tasks.adding.s(["text"])], tasks.identity.s())())


def test_replacing_by_an_empty_group_gives_an_empty_list(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)

    @app.task(bind=True)
    def emptied(self, what):  # type: ignore[no-untyped-def]
        return self.replace(group([]) if what == "group" else chain())

    with working(app):
        assert get(emptied.delay("group")) == []
        assert get(chain(emptied.si("group"), t.total.s())()) == 0
        with pytest.raises(ImproperlyConfigured, match="replace with an empty chain"):
            get(emptied.delay("chain"))


# -- classes and results as values


def test_signatures_of_the_users_own_classes(app: Any) -> None:
    from tests.celery.kit import declare

    t = declare(app)

    @Signature.register_type()
    class my_group(group):
        def __init__(self, *tasks: Any, **options: Any) -> None:
            super().__init__(*tasks, **options)
            self.subtask_type = "my_group"

    try:
        made = my_group(t.add.s(1, 1), t.add.s(2, 2))
        again = signature(json.loads(json.dumps(made)))
        assert (type(again), again.subtask_type, len(again)) == (my_group, "my_group", 2)
        assert type(signature(dict(group(t.add.s(1, 1))))) is group
    finally:
        del Signature.TYPES["my_group"]
    sig = t.add.s(1, 1)
    with pytest.raises(ImproperlyConfigured, match="give headers="):
        sig.stamp(run="1")
    sig.id = "given"
    assert sig.options == {"task_id": "given"}


def test_results_in_place_can_be_copied(app: Any) -> None:
    from tests.celery.kit import declare

    t = declare(app)
    for result in (t.add.apply((1, 2)), t.fail.apply()):
        again = copy.copy(result)
        assert (again.id, again.state, again.result, again.name) == (
            result.id,
            result.state,
            result.result,
            result.name,
        )
    assert app.GroupResult("g", [result], result).parent is result


def test_arguments_that_are_no_list_are_refused(app: Any) -> None:
    from tests.celery.kit import declare

    t = declare(app)
    for call in (t.add.apply_async, t.add.apply):
        for args in ("12", 12, {"x": 1}):
            with pytest.raises(TypeError, match="args must be a list or tuple"):
                call(args)
        with pytest.raises(TypeError, match="must be a mapping"):
            call((), "12")
