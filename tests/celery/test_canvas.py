"""Chains, groups and chords as Celery's users write them: the cases Celery's own integration tests came to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.canvas_kit import Tasks, get
from tests.celery.kit import WAIT, soon
from windlass.celery import chain, chord, group, maybe_signature, signature, xstarmap
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.request import read_extra
from windlass.celery.result import AsyncResult, GroupResult

# -- chains


def test_a_chain_passes_results_on(anywhere: Tasks) -> None:
    t = anywhere
    assert get((t.add.s(4, 4) | t.add.s(8) | t.add.s(16))()) == 32
    assert get(chain(t.add.s(1, 1), t.add.s(2)).apply_async()) == 4
    assert get(chain([t.add.s(1, 1), t.add.s(2)]).delay()) == 4
    assert get(chain(t.add.s(i) if i else t.add.s(1, 0) for i in range(4))()) == 7


def test_a_chain_of_one(tasks: Tasks) -> None:
    result = chain(tasks.add.s(3, 4))()
    assert (get(result), result.parent) == (7, None)


def test_arguments_of_a_chain_go_to_its_first_task(tasks: Tasks) -> None:
    c = chain(tasks.add.s(10), tasks.add.s(100))
    assert get(c.delay(1)) == 111
    assert get(c.apply_async((2,))) == 112
    assert get(c(3)) == 113


def test_immutable_steps_take_nothing(tasks: Tasks) -> None:
    assert get((tasks.add.s(1, 1) | tasks.add.si(5, 5))()) == 10
    assert get((tasks.add.s(1, 1) | tasks.add.s(5, 5).set(immutable=True))()) == 10


def test_results_of_a_chain_have_their_parents(tasks: Tasks) -> None:
    result = (tasks.add.s(1, 1) | tasks.add.s(2) | tasks.add.s(3))()
    assert get(result) == 7
    assert (get(result.parent), get(result.parent.parent), result.parent.parent.parent) == (4, 2, None)
    assert result.as_list() == [result.id, result.parent.id, result.parent.parent.id]
    assert [value for _, value in result.parent.parent.collect()] == [2, 4, 7]
    assert result.parent.children == [result]


def test_a_complex_chain(tasks: Tasks) -> None:
    t = tasks
    inner = t.add.s(4) | t.replaced_by_add.s(8) | t.add.s(16) | t.add.s(32)
    assert get((t.add.s(2, 2) | inner | group(t.add.s(i) for i in range(4)))()) == [64, 65, 66, 67]


def test_a_group_in_a_chain_fans_out_and_in(anywhere: Tasks) -> None:
    t = anywhere
    assert get((t.identity.s(42) | group(t.identity.s(), t.identity.s()))()) == [42, 42]
    assert get((t.identity.s(42) | group(t.identity.s(), t.identity.s()) | t.identity.s())()) == [42, 42]
    assert get(chain(group(t.identity.s(42), t.identity.s(42)))()) == [42, 42]
    assert get((t.add.s(2, 2) | group(t.add.s(i) for i in range(4)) | t.add_to_all.s(8))()) == [12, 13, 14, 15]


def test_groups_behind_groups(tasks: Tasks) -> None:
    t = tasks
    result = (group(t.add.s(i, i) for i in range(3)) | group(t.add_to_all.s(1), t.total.s()))()
    assert get(result) == [[1, 3, 5], 6]
    deep = group(t.identity.s(1), t.identity.s(2)) | group(t.total.s(), t.total.s()) | t.total.s() | t.add.s(1)
    assert get(deep()) == 7


def test_chords_in_chains(tasks: Tasks) -> None:
    t = tasks
    c = chain(t.add.s(1, 1), chord(group(t.add.s(1), t.add.s(2)), t.total.s()), t.add.s(100))
    assert get(c()) == 107
    two = chain(
        chord(group(t.add.si(1, 2), t.add.si(1, 2)), t.total.s()), chord(group(t.add.s(1), t.add.s(2)), t.total.s())
    )
    assert get(two()) == 15
    assert get(chain(t.identity.s(5), chain(t.identity.s(), t.identity.s()), t.identity.s())()) == 5


def test_ids_of_parents_and_of_the_root(tasks: Tasks) -> None:
    t = tasks
    c = chain(t.ids.si(i=i) for i in range(5))
    c.freeze()
    result: Any = c()
    root, node, i = result.parent.parent.parent.parent, result, 4
    while node is not None:
        assert get(node) == [root.id, node.parent.id if node.parent else None, i]
        node, i = node.parent, i - 1


@pytest.mark.parametrize("by_or", [False, True])
def test_ids_around_a_chord(tasks: Tasks, by_or: bool) -> None:
    t = tasks
    root = t.ids.si(i=1)
    root_id = root.freeze().id
    members = [t.ids.si(i=i) for i in range(3, 10)]
    if by_or:
        g = root | t.ids.si(i=2) | group(members) | t.collect_ids.s(i=50) | t.ids.si(i=51)
    else:
        g = chain(root, t.ids.si(i=2), chord(group(members), chain(t.collect_ids.s(i=50) | t.ids.si(i=51))))
    result = g()
    kinds = [AsyncResult, AsyncResult, GroupResult, AsyncResult, AsyncResult]
    nodes: list[Any] = [result]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    assert [type(node) for node in nodes] == kinds
    last, body, header, second, first = nodes
    assert get(last) == [root_id, body.id, 51]
    found, own = get(body)
    assert own[0] == root_id
    assert own[1] in header.results
    assert [entry[:2] for entry in found] == [[root_id, second.id]] * 7
    assert get(second) == [root_id, first.id, 2]
    assert get(first) == [root_id, None, 1]


# -- groups


def test_a_group_gives_a_list_in_order(anywhere: Tasks) -> None:
    result = group(anywhere.add.s(i, i) for i in range(10))()
    assert get(result) == [i + i for i in range(10)]
    assert result.successful()
    assert (result.ready(), result.failed(), result.waiting(), result.completed_count(), len(result)) == (
        True, False, False, 10, 10,
    )  # fmt: skip


def test_an_empty_group(tasks: Tasks) -> None:
    result = group([])()
    assert (get(result), result.ready(), result.successful(), list(result)) == ([], True, True, [])


def test_groups_in_groups_are_taken_apart(tasks: Tasks) -> None:
    t = tasks
    c = group(t.add.si(1, 10), group(t.add.si(1, 100), group(t.add.si(1, 1000), t.add.si(1, 2000))))
    assert get(c()) == [11, 101, 1001, 2001]
    assert get(group(group(t.identity.s(42), t.identity.s(42)))()) == [42, 42]
    header = [t.identity.s(1), group(t.identity.s(2), t.identity.s(3)), t.identity.s(4)]
    assert get(chord(header)(t.identity.s())) == [1, 2, 3, 4]
    assert get(group(t.identity.s(1) | group(t.add.s(1), t.add.s(2)), t.identity.s(9))()) == [[2, 3], 9]
    assert get(group((chord((t.identity.si(42),), t.identity.s()),))()) == [[42]]


def test_what_is_made_of_nothing(tasks: Tasks) -> None:
    t = tasks
    assert chain()() is None
    assert chain([]).delay() is None
    assert get(group(t.identity.s(1), chain())()) == [1]
    result = group([])()
    result.save()
    again = GroupResult.restore(result.id, app=t.app)
    assert again is not None
    assert again.results == []


def test_a_group_takes_no_callback(tasks: Tasks) -> None:
    with pytest.raises(TypeError, match="use a chord"):
        group(tasks.add.s(1, 1)).apply_async(link=tasks.note.s())
    tasked = group(tasks.add.s(1, 1), tasks.add.s(2, 2))
    tasked.link(tasks.note.s("all"))
    assert get(tasked()) == [2, 4]
    soon(lambda: tasks.seen)
    assert tasks.seen == ["all"], "once, when all of them succeeded"


def test_countdowns_of_a_group(tasks: Tasks) -> None:
    skewed = group(tasks.identity.s(i) for i in range(4)).skew(start=1, stop=3)
    assert [task.options["countdown"] for task in skewed.tasks] == [1, 2, 3, 3]


def test_chains_in_groups(tasks: Tasks) -> None:
    t = tasks
    result = group(t.add.s(1, 1) | t.add.s(2), t.add.s(5, 5))()
    assert get(result) == [4, 10]
    assert get(group(chain(t.identity.s(), t.add.s(1)), t.identity.s()).delay(42)) == [43, 42]
    c = chain(t.identity.s(7), group(t.identity.s() | t.identity.s(), t.identity.s() | t.add.s(1)))
    assert get(c()) == [7, 8]


def test_arguments_of_a_group_go_to_each(tasks: Tasks) -> None:
    g = group(tasks.add.s(1), tasks.add.s(2))
    assert get(g.delay(10)) == [11, 12]
    assert get(g(20)) == [21, 22]
    assert get(group(tasks.add.s(y=1), tasks.add.s(y=2)).apply_async((5,))) == [6, 7]


def test_a_failed_member_of_a_group(tasks: Tasks) -> None:
    result = group(tasks.add.s(1, 1), tasks.fail.s(), tasks.add.s(2, 2))()
    soon(result.ready)
    assert result.failed()
    assert not result.successful()
    assert result.completed_count() == 2
    with pytest.raises(ValueError, match="failed with"):
        result.get(timeout=WAIT)
    values = result.get(timeout=WAIT, propagate=False)
    assert (values[0], type(values[1]), values[2]) == (2, ValueError, 4)


def test_a_group_saved_and_restored(tasks: Tasks) -> None:
    result = group(tasks.add.s(i, i) for i in range(3))()
    result.save()
    again = GroupResult.restore(result.id, app=tasks.app)
    assert again == result
    assert get(again) == [0, 2, 4]
    assert GroupResult.restore("never", app=tasks.app) is None
    soon(lambda: (result.delete(), GroupResult.restore(result.id, app=tasks.app))[1] is None)


def test_a_large_group_and_a_large_chord(anywhere: Tasks) -> None:
    t = anywhere
    assert get(group(t.identity.s(i) for i in range(300))()) == list(range(300))
    assert get(chord(t.identity.s(i) for i in range(400))(t.total.s())) == sum(range(400))


# -- chords


def test_a_chord(anywhere: Tasks) -> None:
    t = anywhere
    result = chord([t.add.s(i, i) for i in range(5)])(t.total.s())
    assert get(result) == 20
    assert isinstance(result.parent, GroupResult)
    assert get(result.parent) == [0, 2, 4, 6, 8]
    assert get(chord((t.add.s(i, i) for i in range(5)), t.total.s())()) == 20
    assert get((group(t.add.s(i, i) for i in range(5)) | t.total.s()).delay()) == 20


def test_a_header_of_one_is_still_a_list(tasks: Tasks) -> None:
    t = tasks
    assert get(chord([t.add.s(2, 5)], body=t.add_to_all.s(9))()) == [16]
    assert get((group([t.add.s(2, 5)]) | t.add_to_all.s(9))()) == [16]
    assert get(chain(group(t.add.s(2, 5)), t.add_to_all.s(9))()) == [16]


def test_an_empty_header(tasks: Tasks) -> None:
    t = tasks
    assert get(chord([], body=t.add_to_all.s(9))()) == []
    assert get((group([]) | t.add_to_all.s(9))()) == []
    assert get(chain(t.identity.s(1), group([]), t.total.s())()) == 0


def test_nested_chords(anywhere: Tasks) -> None:
    t = anywhere
    c = chord(
        [chord([t.add.s(1, 2), t.add.s(3, 4)], t.add.s([5])), chord([t.add.s(6, 7)], t.add.s([10]))],
        t.add_to_all.s(["a"]),
    )
    assert get(c()) == [[3, 7, 5, "a"], [13, 10, "a"]]
    same = group([group([t.add.s(1, 2), t.add.s(3, 4)]) | t.add.s([5]), group([t.add.s(6, 7)]) | t.add.s([10])])
    assert get((same | t.add_to_all.s(["a"]))()) == [[3, 7, 5, "a"], [13, 10, "a"]]
    deep = group([group([group([group([t.add.s(1, 2)]) | t.add.s([3])]) | t.add.s([4])]) | t.add.s([5])])
    assert get((deep | t.add.s([6]))()) == [[[[3, 3], 4], 5], 6]


def test_chains_and_groups_as_bodies(tasks: Tasks) -> None:
    t = tasks
    assert get(chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s() | t.add.s(10))()) == 16
    assert get(chord([t.add.s(1, 1), t.add.s(2, 2)], group(t.total.s(), t.add_to_all.s(1)))()) == [6, [3, 5]]
    body = chord([t.total.s(), t.add_to_all.s(1) | t.total.s()], t.total.s())
    assert get(chord([t.add.s(1, 1), t.add.s(2, 2)], body)()) == 14


def test_chains_in_headers(tasks: Tasks) -> None:
    t = tasks
    c = chord([chain(t.add.s(1, 1), t.add.s(2)), chain(t.add.s(3, 3), group(t.add.s(1), t.add.s(2)), t.total.s())])
    assert get(c(t.total.s())) == 4 + 15


def test_a_chord_without_a_body_is_refused(tasks: Tasks) -> None:
    with pytest.raises(ImproperlyConfigured, match="body"):
        chord([tasks.add.s(1, 1)]).delay()


# -- map, starmap, chunks


def test_map_starmap_and_chunks(anywhere: Tasks) -> None:
    t = anywhere
    assert get(t.identity.map([1, 2, 3]).delay()) == [1, 2, 3]
    assert get(t.add.starmap(zip(range(3), range(3), strict=True)).apply_async()) == [0, 2, 4]
    chunked = t.add.chunks(zip(range(10), range(10), strict=True), 4)
    assert get(chunked()) == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert get(chunked.group().delay()) == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert get(chain(xstarmap(t.add.s(), [[1, 1], [2, 2]]), t.total.s())()) == 6
    assert get((chunked.group() | t.identity.s())()) == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]


def test_values_pass_on_from_tasks_that_keep_none(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)

    @app.task(ignore_result=True)
    def quiet(x):  # type: ignore[no-untyped-def]
        return x + 1

    with working(app):
        assert get(chain(quiet.s(1), quiet.s(), t.identity.s())()) == 3
        assert get(chord([quiet.s(1), quiet.s(2)])(t.identity.s())) == [2, 3]
        quiet.apply_async((5,), link=t.note.s())
        soon(lambda: t.seen == [6])
        assert get(chain(t.identity.s(1), quiet.s())()) is None


def test_options_of_a_whole(tasks: Tasks) -> None:
    t = tasks

    def priorities(*results: Any) -> list[int]:
        return [result.handle.info().priority for result in results]

    whole = chain(t.add.s(1, 1), t.add.s(2)).apply_async(priority=8)
    assert (get(whole), priorities(whole.parent, whole)) == (4, [8, 5]), "of a chain: the first task's"
    whole = chain(t.add.s(1, 1).set(priority=2), t.add.s(2).set(priority=3)).set(priority=8).delay()
    assert (get(whole), priorities(whole.parent, whole)) == (4, [8, 3])
    whole = group(t.add.s(1, 1), t.add.s(2, 2)).apply_async(priority=3)
    assert (get(whole), priorities(*whole)) == ([2, 4], [3, 3]), "of a group: each one's"
    whole = chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s()).apply_async(priority=7, countdown=0.01)
    assert (get(whole), priorities(*whole.parent, whole)) == (6, [7, 7, 7]), "of a chord: header's and body's"
    assert read_extra(whole.handle.info().headers).eta is None, "only the header waits"
    named = chain(t.add.s(1, 1), t.add.s(1)).apply_async(task_id="the-last")
    assert (named.id, get(named)) == ("the-last", 3)
    assert chord([t.add.s(1, 1)], t.total.s()).apply_async(task_id="the-body").id == "the-body"


# -- signatures as values


def test_signatures_travel_as_arguments(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)

    @app.task
    def call_back(x, callback):  # type: ignore[no-untyped-def]
        return maybe_signature(callback, app=app).delay(x).id

    with working(app):
        for callback in (t.add.s(5), t.add.s(2) | t.add.s(3), chord([t.add.s(2), t.add.s(3)], t.total.s())):
            id = get(call_back.delay(1, callback))
            assert get(AsyncResult(id, app=app)) in (6, 7)


def test_what_a_signature_is(tasks: Tasks) -> None:
    t = tasks
    sig = t.add.s(2, y=3).set(countdown=1, queue="other")
    assert (sig.task, sig.args, sig.kwargs, sig.options) == ("add", (2,), {"y": 3}, {"countdown": 1, "queue": "other"})
    assert sig["task"] == "add"
    clone = sig.clone((1,), {"z": 1}, priority=3)
    assert (clone.args, clone.kwargs, clone.options["priority"], sig.args) == ((1, 2), {"y": 3, "z": 1}, 3, (2,))
    assert t.add.si(1).clone((5,)).args == (1,)
    assert t.add.s(1, 2)() == 3
    assert signature("add", (1, 2), app=t.app)() == 3
    assert get(t.app.signature("add", args=(1, 2)).delay()) == 3
    assert get(signature(dict(t.add.s(1, 2)), app=t.app).delay()) == 3
    assert repr(t.add.s(1, y=2)) == "add(1, y=2)"
    assert ~t.add.s(1, 2) == 3
    frozen = t.add.s(1, 2)
    id = frozen.freeze().id
    assert (frozen.id, frozen.apply_async().id) == (id, id)


def test_a_canvas_can_be_sent_more_than_once(tasks: Tasks) -> None:
    t = tasks
    c = chord([t.add.s(1, 1), t.add.s(2, 2)], t.total.s())
    assert (get(c()), get(c())) == (6, 6)
    c = t.add.s(1, 1) | t.add.s(1)
    assert c().id != c().id


def test_calls_that_do_not_fit_are_refused_where_they_are_made(tasks: Tasks) -> None:
    t = tasks
    with pytest.raises(TypeError, match="add"):
        t.add.delay(1)
    with pytest.raises(TypeError, match="too many positional"):
        chain(t.add.s(1, 1), t.add.s(1, 2)).delay()
    with pytest.raises(ImproperlyConfigured, match="did you mean 'countdown'"):
        t.add.apply_async((1, 2), countdwon=3)
