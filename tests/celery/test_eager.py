"""``apply()`` and ``task_always_eager``: the same canvas in place, with no worker and no store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.celery.kit import WAIT, declare, working
from windlass.celery import Celery, chain, chord, group
from windlass.celery.exceptions import ChordError, Ignore, MaxRetriesExceededError, Reject
from windlass.celery.result import EagerResult, GroupResult


@pytest.fixture
def t() -> SimpleNamespace:
    return declare(Celery("tests", broker="memory://", task_always_eager=True))


def test_a_task_in_place(t: SimpleNamespace) -> None:
    result = t.add.delay(1, 2)
    assert isinstance(result, EagerResult)
    assert (result.get(), result.state, result.name) == (3, "SUCCESS", "add")
    assert result.successful()
    assert result.ready()
    assert t.add.apply((4, 5)).get() == 9
    assert t.identity.delay((1, 2)).get() == [1, 2], "as it would be behind a worker"
    with pytest.raises(TypeError, match="add"):
        t.add.delay(1)


def test_a_failure_in_place(t: SimpleNamespace) -> None:
    result = t.fail.delay(1)
    assert (result.state, result.failed(), "ValueError" in result.traceback) == ("FAILURE", True, True)
    with pytest.raises(ValueError, match="failed"):
        result.get()
    assert isinstance(result.get(propagate=False), ValueError)
    with pytest.raises(ValueError, match="failed"):
        t.fail.apply(throw=True)
    t.app.conf.task_eager_propagates = True
    with pytest.raises(ValueError, match="failed"):
        t.fail.delay(1)


def test_retries_in_place(t: SimpleNamespace) -> None:
    @t.app.task(bind=True, max_retries=3)
    def work(self, until):  # type: ignore[no-untyped-def]
        if self.request.retries < until:
            self.retry(countdown=3600)
        return [self.request.retries, self.request.is_eager, self.request.called_directly]

    @t.app.task(bind=True)
    def changed(self, x):  # type: ignore[no-untyped-def]
        if x < 3:
            self.retry(args=(x + 1,))
        return x

    assert work.delay(3).get() == [3, True, False]
    assert changed.delay(0).get() == 3
    with pytest.raises(MaxRetriesExceededError):
        work.delay(4).get()


def test_states_in_place(t: SimpleNamespace) -> None:
    @t.app.task(bind=True)
    def work(self):  # type: ignore[no-untyped-def]
        self.update_state(state="OWN", meta={"a": 1})
        raise Ignore

    result = work.delay()
    assert (result.state, result.info) == ("OWN", {"a": 1})


def test_canvas_in_place(t: SimpleNamespace) -> None:
    result = (t.add.s(1, 1) | t.add.s(2) | t.add.s(3))()
    assert (result.get(), result.parent.get(), result.parent.parent.get()) == (7, 4, 2)
    grouped = group(t.add.s(i, i) for i in range(3))()
    assert isinstance(grouped, GroupResult)
    assert grouped.get() == [0, 2, 4]
    assert chord([t.add.s(1, 1), t.add.s(2, 2)])(t.total.s()).get() == 6
    assert (group(t.add.s(1, 1), t.add.s(2, 2)) | t.total.s() | t.add.s(1)).delay().get() == 7
    assert chain(t.identity.s(2), group(t.add.s(1), t.add.s(2)), t.total.s()).delay().get() == 7
    assert chord([], t.total.s())().get() == 0
    assert t.add.starmap([(1, 1), (2, 2)]).delay().get() == [2, 4]
    assert t.add.chunks([(1, 1), (2, 2), (3, 3)], 2)().get() == [[2, 4], [6]]
    assert t.replaced_by_chain.delay(1).get() == 112
    assert group(t.replaced_by_add.s(1, 1), t.add.s(1, 1)).delay().get() == [2, 2]


def test_errors_of_a_canvas_in_place(t: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="failed"):
        (t.add.s(1, 1) | t.fail.s() | t.note.s()).delay().get()
    with pytest.raises(ChordError, match="Dependency"):
        chord([t.add.s(1, 1), t.fail.s()])(t.note.s()).get()
    with pytest.raises(ChordError):
        (group(t.fail.s(), t.add.s(1, 1)) | t.note.s()).delay().get()
    assert t.seen == []


def test_callbacks_in_place(t: SimpleNamespace) -> None:
    t.add.apply_async((1, 2), link=[t.note.s(), t.note.si("done")])
    assert t.seen == [3, "done"]
    t.seen.clear()
    result = t.fail.apply_async((), link_error=[t.errback.s(), t.errback3.s()])
    assert t.seen[0] == ("errback", result.id)
    assert t.seen[1][:4] == ("errback3", result.id, "fail", "ValueError('failed with ()')")
    t.seen.clear()
    chord([t.fail.s()])(t.total.s().on_error(t.errback.s()))
    assert len(t.seen) == 1
    t.seen.clear()
    chain(t.add.s(1, 1), t.fail.s(), t.add.s(1)).apply_async(link_error=t.errback.s())
    assert len(t.seen) == 1


def test_calls_inside_tasks_in_place(t: SimpleNamespace) -> None:
    @t.app.task(bind=True)
    def outer(self):  # type: ignore[no-untyped-def]
        inner = t.ids.delay(1)
        return [self.request.id, inner.result]

    id, (root, parent, _) = outer.delay().get()
    assert (root, parent) == (id, id)


def test_a_chain_in_place_ends_where_a_task_leaves_off(t: SimpleNamespace) -> None:
    @t.app.task(bind=True)
    def leaving(self, how):  # type: ignore[no-untyped-def]
        if how == "own":
            self.update_state(state="SUCCESS", meta="own")
        raise Reject("no") if how == "reject" else Ignore

    for how, state in (("ignore", "IGNORED"), ("reject", "FAILURE"), ("own", "SUCCESS")):
        result = chain(t.add.s(1, 1), leaving.si(how), t.note.si("never"), t.note.si("nor this")).apply()
        assert (result.name, result.state, result.parent.get()) == (leaving.name, state, 2)
    assert t.seen == []


def test_a_task_may_ask_for_the_result_of_what_it_ran_in_place(t: SimpleNamespace) -> None:
    t.app.conf.task_always_eager = False

    @t.app.task(bind=True)
    def outer(self):  # type: ignore[no-untyped-def]
        inner = t.ids.apply((1,)).get()
        return [self.request.id, self.request.parent_id, self.request.root_id, *inner]

    def check(found: Any) -> None:
        id, parent, root, *inner = found
        assert (parent, root, inner) == (None, id, [id, id, 1])

    check(outer.apply().get())
    with working(t.app):
        check(outer.delay().get(timeout=WAIT))


def test_nothing_reaches_the_store(t: SimpleNamespace) -> None:
    t.add.delay(1, 2)
    chain(t.add.s(1, 1), t.add.s(1)).delay()
    jobs: Any = t.app.windlass.sync.jobs()
    assert jobs.jobs == []
