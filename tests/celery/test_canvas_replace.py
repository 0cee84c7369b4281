"""Tasks of canvases that are replaced by other work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.canvas_kit import Tasks, get
from tests.celery.kit import WAIT, soon
from windlass.celery import chain, chord, group
from windlass.celery.exceptions import ChordError, ImproperlyConfigured

# -- replacing


def test_replaced_tasks(anywhere: Tasks) -> None:
    t = anywhere
    assert get(t.replaced_by_add.delay(1, 2)) == 3
    assert get(t.replaced_by_chain.delay(1)) == 112
    assert get(t.replaced_by_group.delay(1)) == [1, 2, 3]
    assert get((t.add.s(1, 1) | t.replaced_by_add.s(5) | t.add.s(10))()) == 17


def test_replaced_tasks_in_groups_and_chords(tasks: Tasks) -> None:
    t = tasks
    assert get(group(t.replaced_by_chain.s(1), t.add.s(1, 1), t.replaced_by_add.s(2, 2))()) == [112, 2, 4]
    assert get(chord([t.replaced_by_add.s(1, 1), t.replaced_by_chain.s(1)])(t.total.s())) == 114
    assert get(chord([t.replaced_by_group.s(1), t.replaced_by_group.s(2)])(t.identity.s())) == [[1, 2, 3], [2, 3, 4]]
    assert get(chord([t.add.s(1, 1)])(t.replaced_by_add.s([5]))) == [2, 5]


def test_a_replaced_task_keeps_its_callbacks(tasks: Tasks) -> None:
    t = tasks
    assert get(t.replaced_by_add.apply_async((1, 2), link=t.note.s())) == 3
    soon(lambda: t.seen == [3])
    t.seen.clear()
    result = t.replaced_by_failure.apply_async(link_error=t.errback.s())
    with pytest.raises(ValueError, match="7"):
        get(result)
    soon(lambda: t.seen)


def test_replaced_by_a_chain_with_callbacks(app: Any) -> None:
    from tests.celery.kit import declare, working

    t = declare(app)

    @app.task(bind=True)
    def with_callback(self, x):  # type: ignore[no-untyped-def]
        c = chain(t.identity.s(x), t.identity.s())
        c.link(t.note.si("inner"))
        return self.replace(c)

    @app.task(bind=True)
    def with_errback(self, x):  # type: ignore[no-untyped-def]
        c = chain(t.identity.s(x), t.fail.s())
        c.link_error(t.note.si("inner error"))
        return self.replace(c)

    with working(app):
        c = chain(t.identity.s("Hello "), with_callback.s(), t.add.s("world"))
        c.link(t.note.s())
        assert get(c()) == "Hello world"
        soon(lambda: set(t.seen) == {"inner", "Hello world"})
        t.seen.clear()
        c = chain(t.identity.s("Hello "), with_errback.s(), t.add.s("never"))
        c.link_error(t.note.si("outer error"))
        with pytest.raises(ValueError, match="failed"):
            get(c())
        soon(lambda: sorted(t.seen) == ["inner error", "outer error"])


def test_replaced_tasks_in_nested_chords(tasks: Tasks) -> None:
    t = tasks
    first = chord([t.add.s(1, 2), t.replaced_by_add.s(3, 4)], t.add_to_all.s(5)) | t.total.s()
    second = chord([t.replaced_by_add.s(6, 7), t.add.s(0, 0)], t.add_to_all.s(8)) | t.total.s()
    assert get(chord([first, second], t.add_to_all.s(9))()) == [29, 38]


def test_a_replacement_that_fails_fails_the_chord(tasks: Tasks) -> None:
    t = tasks
    with pytest.raises(ChordError):
        get(chord([t.add.s(1, 1), t.replaced_by_failure.s()])(t.total.s()))


def test_replacing_by_nothing_is_refused(app: Any) -> None:
    from tests.celery.kit import working

    @app.task(bind=True)
    def nothing(self):  # type: ignore[no-untyped-def]
        return self.replace(chain())

    with working(app), pytest.raises(ImproperlyConfigured, match="empty chain"):
        nothing.delay().get(timeout=WAIT)
