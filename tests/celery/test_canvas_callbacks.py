"""Failures in canvases, and callbacks of tasks, chains, groups and chords."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.celery.canvas_kit import Tasks, get
from tests.celery.kit import soon
from windlass.celery import chain, chord, group
from windlass.celery.exceptions import ChordError
from windlass.celery.result import AsyncResult

# -- errors


def test_a_failed_step_of_a_chain(anywhere: Tasks) -> None:
    t = anywhere
    result = (t.add.s(1, 1) | t.fail.s() | t.add.s(2))()
    with pytest.raises(ValueError, match=r"failed with \(2,\)"):
        get(result)
    assert (result.parent.state, result.state, get(result.parent.parent)) == ("FAILURE", "FAILURE", 2)
    assert isinstance(AsyncResult(result.id, app=t.app).result, ValueError)


def test_a_failed_header(anywhere: Tasks) -> None:
    t = anywhere
    result = chord([t.add.s(1, 1), t.fail.s(3), t.add.s(2, 2)])(t.total.s())
    with pytest.raises(ChordError, match=r"Dependency .* raised ValueError") as caught:
        get(result)
    assert isinstance(caught.value, ValueError), "Celery raises now the one and now the other"
    assert isinstance(caught.value.__cause__, ValueError)
    assert result.state == "FAILURE"
    soon(result.parent.ready)
    assert result.parent.completed_count() == 2, "the rest of the header runs all the same"
    assert t.seen == []


def test_a_failed_body(tasks: Tasks) -> None:
    result = chord([tasks.add.s(1, 1)])(tasks.fail.s())
    with pytest.raises(ValueError, match=r"failed with \(\[2\],\)"):
        get(result)


def test_errors_of_inner_chords_reach_the_outside(tasks: Tasks) -> None:
    t = tasks
    result = chord([chord([t.fail.s(), t.add.s(1, 1)], t.total.s()), t.add.s(1, 1)])(t.total.s())
    with pytest.raises(ChordError):
        get(result)
    result = (t.add.s(1, 1) | chord([t.fail.s(), t.add.s(1)], t.total.s()) | t.add.s(1))()
    with pytest.raises((ChordError, ValueError)):
        get(result)


@pytest.mark.parametrize("whole", ["chain", "or", "call"])
def test_an_error_callback_of_a_chain_runs_once_with_the_failed_task(tasks: Tasks, whole: str) -> None:
    t = tasks
    c = chain(t.add.s(1, 1), t.fail.s(), t.add.s(2), t.add.s(3))
    if whole == "chain":
        c.link_error(t.errback.s())
        result = c.delay()
    elif whole == "or":
        result = c.on_error(t.errback.s()).delay()
    else:
        result = c.apply_async(link_error=t.errback.s())
    with pytest.raises(ValueError, match="failed"):
        get(result)
    soon(lambda: t.seen)
    assert t.seen == [("errback", result.parent.parent.id)]


def test_an_error_callback_with_three_arguments(anywhere: Tasks) -> None:
    t = anywhere
    result = t.fail.apply_async((1,), link_error=t.errback3.s())
    soon(lambda: t.seen)
    ((kind, id, task, exc, traceback),) = t.seen
    assert (kind, id, task, exc) == ("errback3", result.id, "fail", "ValueError('failed with (1,)')")
    assert "raise ValueError" in traceback


def test_error_callbacks_with_arguments_of_their_own(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)
    seen = t.seen

    @app.task
    def by_id(task_id, note):  # type: ignore[no-untyped-def]
        seen.append((task_id, note))

    @app.task
    def by_three(request, exc, traceback, note):  # type: ignore[no-untyped-def]
        seen.append((request.id, type(exc), note))

    @app.task(bind=True)
    def bound(self, task_id):  # type: ignore[no-untyped-def]
        seen.append((task_id, self.request.parent_id))

    with working(app):
        result = t.fail.apply_async(link_error=[by_id.s("one"), by_three.s("three"), bound.s(), t.note.si("nothing")])
        soon(lambda: len(seen) == 4)
    assert set(seen) == {(result.id, "one"), (result.id, ValueError, "three"), (result.id, result.id), "nothing"}


def test_error_callbacks_of_a_chord_run_once(tasks: Tasks) -> None:
    t = tasks
    result = chord([t.fail.s(1), t.fail.s(2)])(t.total.s().on_error(t.errback.s()))
    with pytest.raises(ChordError):
        get(result)
    soon(lambda: t.seen)
    assert t.seen == [("errback", result.id)], "it hears of the body, whose error names the task that failed"
    assert re.search(r"Dependency (\S+) raised", str(result.result))[1] in result.parent.results  # type: ignore[index]
    t.seen.clear()
    result = (group(t.fail.s(1), t.fail.s(2)) | t.total.s()).apply_async(link_error=t.errback.s())
    soon(lambda: t.seen)
    with pytest.raises(ChordError):
        get(result)
    assert len(t.seen) == 1


@pytest.mark.parametrize("where", ["header", "body"])
@pytest.mark.parametrize("kind", ["task", "chain", "chain's end", "group", "chord", "replaced"])
def test_errors_anywhere_in_a_chord(tasks: Tasks, where: str, kind: str) -> None:
    """Whatever part of a chord fails: the result has the error, and the chord's error callbacks run once."""
    t = tasks
    bad = {
        "task": t.fail.si(),
        "chain": chain(t.identity.si(42), t.fail.si(), t.identity.si(42)),
        "chain's end": chain(t.identity.si(42), t.fail.si()),
        "group": group(t.identity.si(42), t.fail.si()),
        "chord": chord((t.fail.si(), t.identity.si(42)), t.identity.si(42)),
        "replaced": t.replaced_by_failure.si(),
    }[kind]
    c = chord((bad,), t.identity.s()) if where == "header" else chord((t.identity.si(42),), bad)
    c.link_error(t.errback.s())
    c.link_error(t.note.si("immutable"))
    result = c.delay()
    with pytest.raises(ValueError, match="failed with"):
        get(result)
    each = 1 if kind != "group" or where == "header" else len([s for s in bad.tasks if s.task == "fail"])
    soon(lambda: len(t.seen) == 2 * each)
    assert t.seen.count("immutable") == each


def test_an_error_before_a_group(tasks: Tasks) -> None:
    t = tasks
    with pytest.raises(ValueError, match="failed"):
        get((t.add.s(1, 1) | t.fail.s() | group(t.add.s(1), t.add.s(1)))())
    with pytest.raises(ValueError, match="failed"):
        get((t.add.s(1, 1) | t.add.s(1) | group(t.add.s(1), t.fail.s()))())


def test_error_callbacks_of_a_group_run_for_each_failure(tasks: Tasks) -> None:
    t = tasks
    result = group(t.fail.s(1), t.add.s(1, 1), t.fail.s(2)).apply_async(link_error=t.errback.s())
    soon(lambda: len(t.seen) == 2)
    assert {id for _, id in t.seen} == {result.results[0].id, result.results[2].id}


def test_error_callbacks_of_a_header_by_setting(tasks: Tasks) -> None:
    t = tasks
    t.app.conf.task_allow_error_cb_on_chord_header = True
    c = chord([t.fail.s(1), t.fail.s(2)], t.total.s())
    c.link_error(t.errback.s())
    c.delay()
    soon(lambda: len(t.seen) == 3)


def test_callbacks_of_a_task(anywhere: Tasks) -> None:
    t = anywhere
    result = t.add.apply_async((1, 2), link=[t.note.s(), t.add.s(10) | t.note.s(), t.note.si("done")])
    assert get(result) == 3
    soon(lambda: len(t.seen) == 3)
    assert set(t.seen) == {3, 13, "done"}
    assert [get(child) for child in result.children] == [3, 13, "done"]


def test_callbacks_in_canvases(tasks: Tasks) -> None:
    t = tasks
    c = chain(t.add.s(1, 1), t.add.s(2))
    c.link(t.note.s())
    assert get(c()) == 4
    soon(lambda: t.seen == [4])
    t.seen.clear()
    inner = chain(t.add.s(1), t.add.s(2))
    inner.link(t.note.s())
    assert get(chain(t.add.s(1, 1), inner, t.add.s(10))()) == 15
    soon(lambda: t.seen == [5])
    t.seen.clear()
    assert get(chord([t.add.s(1, 1)])(t.total.s(), link=t.note.s())) == 2
    soon(lambda: t.seen == [2])
