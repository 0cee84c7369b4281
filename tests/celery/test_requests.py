"""What a task knows of its call, and what becomes of it over retries and replacements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.celery.kit import WAIT, soon, working
from windlass.celery import Celery, chord, signals
from windlass.celery.exceptions import ImproperlyConfigured

Tasks = SimpleNamespace


def get(result: Any) -> Any:
    return result.get(timeout=WAIT)


@pytest.fixture
def t(anywhere: Tasks) -> Tasks:
    return anywhere


@pytest.fixture
def app() -> Celery:
    return Celery("requests", broker="memory://")


def test_limits_are_those_of_the_call_before_those_of_the_task(app: Celery) -> None:
    @app.task(bind=True)
    def plain(self):  # type: ignore[no-untyped-def]
        return [self.request.time_limit, self.request.soft_time_limit, self.request.timelimit]

    limited = app.task(bind=True, name="limited", time_limit=60, soft_time_limit=45)(lambda self: plain.run())
    assert limited.name == "limited"

    with working(app):
        assert get(plain.delay()) == [None, None, None]
        assert get(plain.apply_async(time_limit=30, soft_time_limit=20)) == [30, 20, [30, 20]]
        assert get(plain.apply_async(time_limit=30)) == [30, None, [30, None]]


def test_properties_of_the_message(app: Celery) -> None:
    @app.task(bind=True)
    def properties(self):  # type: ignore[no-untyped-def]
        if not self.request.retries:
            self.retry(countdown=0, priority=3)
        return self.request.properties

    with working(app):
        found = get(properties.apply_async(app_id="1234", argsrepr="()", kwargsrepr="{}", priority=7))
        assert (found["app_id"], found["priority"]) == ("1234", 3)
        with pytest.raises(ImproperlyConfigured, match="app_idd"):
            properties.apply_async(app_idd="1234")


def test_nesting_of_replacements(app: Celery) -> None:
    @app.task(bind=True)
    def nested(self, times, seen):  # type: ignore[no-untyped-def]
        seen.append(self.request.replaced_task_nesting)
        return self.replace(nested.s(times - 1, seen)) if times else seen

    with working(app):
        assert get(nested.delay(0, [])) == [0]
        assert get(nested.delay(3, [])) == [0, 1, 2, 3]


def test_a_retry_keeps_what_was_given_by_name(app: Celery) -> None:
    @app.task(bind=True)
    def by_place(self, foo, bar, label=None, *, only="o"):  # type: ignore[no-untyped-def]
        if not self.request.retries:
            self.retry(args=(foo + 1, bar + 1), countdown=0)
        return [foo, bar, label, only]

    @app.task(bind=True)
    def by_name(self, foo, bar):  # type: ignore[no-untyped-def]
        if not self.request.retries:
            self.retry(kwargs={"foo": foo + 1}, countdown=0)
        return [foo, bar]

    with working(app):
        assert get(by_place.delay(foo=1, bar=2, label="kept", only="k")) == [2, 3, "kept", "k"]
        assert get(by_name.delay(1, 2)) == [2, 2]
        assert get(by_name.delay(bar=2, foo=1)) == [2, 2]


def test_a_retry_with_other_arguments_stays_in_its_chord(app: Celery) -> None:
    @app.task(bind=True)
    def changed(self, x):  # type: ignore[no-untyped-def]
        if x < 2:
            self.retry(args=(x + 1,), countdown=0)
        self.add_to_chord(identity.s("more"))
        return [x, self.request.group is not None]

    @app.task
    def identity(x):  # type: ignore[no-untyped-def]
        return x

    with working(app):
        assert get(chord([changed.s(0)], identity.s())()) == [[2, True], "more"]


@pytest.mark.parametrize("own", [0, 1, 3])
def test_a_limit_of_retries_that_the_task_gives_holds_for_autoretry_too(app: Celery, own: int) -> None:
    runs: list[int] = []

    @app.task(bind=True, autoretry_for=(ValueError,), max_retries=5, retry_kwargs={"countdown": 0})
    def work(self):  # type: ignore[no-untyped-def]
        runs.append(self.request.retries)
        try:
            raise ValueError("again")
        except ValueError as error:
            raise self.retry(exc=error, max_retries=own, countdown=0) from error

    assert isinstance(work.apply().result, ValueError)
    assert runs == list(range(own + 1))
    runs.clear()
    with working(app), pytest.raises(ValueError, match="again"):
        get(work.delay())
    assert runs == list(range(own + 1))


def test_task_received_comes_before_task_prerun(t: Tasks) -> None:
    seen: list[Any] = []

    def received(request: Any, **_: Any) -> None:
        seen.append(("received", request.id, request.task_name))

    def prerun(task_id: str, **_: Any) -> None:
        seen.append(("prerun", task_id))

    signals.task_received.connect(received)
    signals.task_prerun.connect(prerun)
    try:
        result = t.add.delay(1, 1)
        assert get(result) == 2
        soon(lambda: len(seen) == 2)
    finally:
        signals.task_received.disconnect(received)
        signals.task_prerun.disconnect(prerun)
    assert seen == [("received", result.id, "add"), ("prerun", result.id)]
