"""Whose error callbacks run when what they belong to is never reached."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.celery.kit import WAIT, soon
from windlass.celery import chain, chord, group

Tasks = SimpleNamespace


def ended(t: Tasks, result: Any, *expected: Any) -> None:
    """It failed, and exactly these error callbacks ran."""
    with pytest.raises(ValueError, match="failed with"):
        result.get(timeout=WAIT)
    soon(lambda: len(t.seen) >= len(expected))
    jobs = t.app.windlass.sync.jobs
    soon(lambda: not any(jobs(state=state).jobs for state in ("ready", "running", "waiting")))
    assert sorted(map(str, t.seen)) == sorted(map(str, expected))
    t.seen.clear()


@pytest.mark.parametrize("how", ["option", "method"])
def test_a_failed_header_calls_the_error_callbacks_of_each_task_of_a_body(anywhere: Tasks, how: str) -> None:
    t = anywhere
    bodies = {
        2: lambda: group(t.total.s(), t.total.s()),
        1: lambda: chord([t.total.s(), t.total.s()], t.total.s()),
        3: lambda: group(chord([t.total.s()], group(t.total.s(), t.total.s())), t.total.s()),
    }
    for count, body in bodies.items():
        c = chord([t.add.s(1, 1), t.fail.s()], body())
        if how == "option":
            result = c.apply_async(link_error=t.note.si("called"))
        else:
            c.link_error(t.note.si("called"))
            result = c.apply_async()
        ended(t, result, *["called"] * count)


def test_own_error_callbacks_of_a_body_that_is_not_reached(tasks: Tasks) -> None:
    t = tasks
    body = group(t.total.s().on_error(t.note.si("own")), t.total.s())
    ended(t, chord([t.fail.s()], body).apply_async(link_error=t.note.si("chord")), "own", "chord", "chord")
    single = group(t.total.s().set(link_error=t.note.si("single")), t.total.s())
    ended(t, chord([t.fail.s()], single).apply_async(), "single")
    ended(t, chain(group(t.fail.s(), t.add.s(1, 1)), group(t.total.s().on_error(t.note.si("next")))).delay(), "next")


def test_error_callbacks_of_a_body_that_is_reached_run_for_what_fails(tasks: Tasks) -> None:
    t = tasks
    failing = t.fail.s().on_error(t.note.si("own"))
    ended(t, chord([t.add.s(1, 1)], group(failing, t.total.s())).apply_async(link_error=t.note.si("chord")),
          "own", "chord")  # fmt: skip


def test_an_error_callback_of_a_body_hears_of_the_body(tasks: Tasks) -> None:
    t = tasks
    body = group(t.total.s(), t.total.s())
    result = chord([t.fail.s()], body).apply_async(link_error=t.errback.s())
    ended(t, result, *[("errback", member.id) for member in result])


@pytest.mark.parametrize("made", ["chord", "chain", "or", "option"])
def test_the_setting_calls_error_callbacks_for_each_failed_task_of_a_header(tasks: Tasks, made: str) -> None:
    t = tasks
    t.app.conf.task_allow_error_cb_on_chord_header = True
    header = [t.fail.s(1), t.add.s(1, 1), t.fail.s(2)]
    if made == "option":
        ended(t, chain(group(header), t.total.s()).apply_async(link_error=t.note.si("c")), "c", "c", "c")
        return
    c: Any = chord(header, t.total.s()) if made == "chord" else chain(group(header), t.total.s())
    if made == "or":
        c = t.add.s(1, 1) | group(t.fail.si(1), t.add.s(1), t.fail.si(2)) | t.total.s() | t.add.s(1)
    c.link_error(t.note.si("c"))
    ended(t, c.apply_async(), "c", "c", "c")


def test_what_is_linked_to_a_chords_header_is_not_linked_to_the_callers_signatures(tasks: Tasks) -> None:
    t = tasks
    header = [t.fail.s(), t.add.s(1, 1)]
    c = chord(header, t.total.s().on_error(t.note.si("body")))
    for task in c.tasks:
        task.link_error(t.note.si("header"))
    assert header == [t.fail.s(), t.add.s(1, 1)]
    ended(t, c(), "header", "body")
