"""What a running Celery task knows and does: its request, retries, states, limits, revoking."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.celery.kit import WAIT, TooHot, soon, working
from tests.celery.tasks_kit import get
from windlass.celery import Celery, current_task, states
from windlass.celery.exceptions import (
    Ignore,
    MaxRetriesExceededError,
    Reject,
    Retry,
    SoftTimeLimitExceeded,
    TaskRevokedError,
    TimeLimitExceeded,
    TimeoutError,
)
from windlass.celery.result import AsyncResult, allow_join_result

# -- the request


def test_what_a_task_knows_of_its_call(app: Celery) -> None:
    @app.task(bind=True, time_limit=50, soft_time_limit=40)
    def outer(self, x, y=2):  # type: ignore[no-untyped-def]
        request = self.request
        child = inner.delay()
        return {
            "id": request.id, "args": request.args, "kwargs": request.kwargs, "retries": request.retries,
            "task": request.task, "called_directly": request.called_directly, "is_eager": request.is_eager,
            "routing_key": request.delivery_info["routing_key"], "redelivered": request.delivery_info["redelivered"],
            "timelimit": request.timelimit, "root_id": request.root_id, "parent_id": request.parent_id,
            "current": current_task.name, "hostname": request.hostname, "child": child.id,
            "get": request.get("nope", 7),
        }  # fmt: skip

    @app.task(bind=True)
    def inner(self):  # type: ignore[no-untyped-def]
        return [self.request.root_id, self.request.parent_id]

    assert outer.request.called_directly
    assert outer.request.id is None
    with working(app):
        result = outer.delay(1, y=5)
        said = get(result)
        assert said.pop("hostname").startswith("celery@")
        child = said.pop("child")
        assert said == {
            "id": result.id, "args": [1, 5], "kwargs": {}, "retries": 0, "task": outer.name, "called_directly": False,
            "is_eager": False, "routing_key": "celery", "redelivered": False, "timelimit": [50, 40],
            "root_id": result.id, "parent_id": None, "current": outer.name, "get": 7,
        }  # fmt: skip
        assert get(AsyncResult(child, app=app)) == [result.id, result.id]
        assert result.children == [child]


def test_waiting_inside_a_task_is_refused_unless_it_is_meant(app: Celery) -> None:
    @app.task
    def inner():  # type: ignore[no-untyped-def]
        return 1

    @app.task
    def outer(meant):  # type: ignore[no-untyped-def]
        result = inner.delay()
        if meant:
            with allow_join_result():
                return result.get(timeout=WAIT)
        return result.get(timeout=WAIT)

    with working(app):
        assert get(outer.delay(True)) == 1
        with pytest.raises(RuntimeError, match="Never call result"):
            get(outer.delay(False))


# -- retries


def test_retrying(app: Celery) -> None:
    @app.task(bind=True, max_retries=3, default_retry_delay=0.01)
    def work(self, until):  # type: ignore[no-untyped-def]
        if self.request.retries < until:
            raise self.retry(exc=ConnectionError("away"))
        return self.request.retries

    @app.task(bind=True, max_retries=1, default_retry_delay=0.01)
    def without_cause(self):  # type: ignore[no-untyped-def]
        self.retry()

    @app.task(bind=True, default_retry_delay=0.01)
    def not_thrown(self):  # type: ignore[no-untyped-def]
        if self.request.retries == 0:
            self.retry(throw=False)
        return self.request.retries

    @app.task(bind=True, max_retries=None, default_retry_delay=0)
    def for_ever(self):  # type: ignore[no-untyped-def]
        if self.request.retries < 20:
            self.retry()
        return self.request.retries

    with working(app):
        assert get(work.delay(3)) == 3
        with pytest.raises(ConnectionError, match="away"):
            get(work.delay(4))
        with pytest.raises(MaxRetriesExceededError, match="Can't retry"):
            get(without_cause.delay())
        assert get(not_thrown.delay()) == 1
        assert get(for_ever.delay()) == 20
    with pytest.raises(ConnectionError):
        work(1)
    with pytest.raises(Retry):
        without_cause()


def test_the_state_of_a_task_that_waits_for_its_retry(app: Celery) -> None:
    @app.task(bind=True)
    def work(self):  # type: ignore[no-untyped-def]
        raise self.retry(exc=TooHot(90, "the oven"), countdown=3600)

    with working(app):
        result = work.delay()
        soon(lambda: result.state == states.RETRY)
        assert isinstance(result.result, TooHot)
        assert (result.result.degrees, result.result.where, result.retries) == (90, "the oven", 1)
        assert not result.ready()
        with pytest.raises(TimeoutError):
            result.get(timeout=0.05)
        when = result.handle.info().due_at
        assert timedelta(minutes=59) < when - datetime.now(UTC) < timedelta(minutes=61)


def test_retrying_with_other_arguments(app: Celery) -> None:
    @app.task(bind=True, max_retries=5)
    def work(self, x, y=0):  # type: ignore[no-untyped-def]
        if x < 3:
            raise self.retry(args=(x + 1,), kwargs={"y": y + 10}, countdown=0)
        return [x, y, self.request.retries, self.request.id]

    @app.task(bind=True)
    def only_named(self, x, y=0):  # type: ignore[no-untyped-def]
        if not y:
            raise self.retry(kwargs={"y": 5}, countdown=0, queue="celery")
        return [x, y]

    with working(app):
        result = work.delay(0)
        assert get(result) == [3, 30, 3, result.id]
        assert get((work.s(2) | app.tasks[work.name].s(5).set(immutable=True))())[:2] == [5, 0]
        assert get(only_named.delay(1)) == [1, 5]


def test_autoretry(app: Celery) -> None:
    @app.task(
        bind=True, autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,),
        retry_kwargs={"max_retries": 2, "countdown": 0.01},
    )  # fmt: skip
    def work(self, kind):  # type: ignore[no-untyped-def]
        if kind == "heals" and self.request.retries == 2:
            return "healed"
        raise {"missing": FileNotFoundError, "value": ValueError}.get(kind, ConnectionError)(str(self.request.retries))

    with working(app):
        assert get(work.delay("heals")) == "healed"
        with pytest.raises(ConnectionError, match="2"):
            get(work.delay("stays"))
        with pytest.raises(FileNotFoundError, match="0"):
            get(work.delay("missing"))
        with pytest.raises(ValueError, match="0"):
            get(work.delay("value"))


def test_backoff(app: Celery) -> None:
    from windlass.celery.task_run import backoff

    @app.task(retry_backoff=3, retry_backoff_max=20, retry_jitter=False)
    def exact():  # type: ignore[no-untyped-def]
        return 1

    @app.task(retry_backoff=True, retry_backoff_max=600)
    def spread():  # type: ignore[no-untyped-def]
        return 1

    assert [backoff(exact, n) for n in range(5)] == [3, 6, 12, 20, 20]
    assert all(0 <= backoff(spread, 3) <= 8 for _ in range(50))
    assert all(0 <= backoff(spread, 60) <= 600 for _ in range(50))


# -- states of their own, ignoring, rejecting


def test_a_state_of_its_own(app: Celery) -> None:
    go_on = threading.Event()

    @app.task(bind=True)
    def work(self):  # type: ignore[no-untyped-def]
        self.update_state(state="PROGRESS", meta={"current": 3, "total": 4, "at": date(2026, 1, 1)})
        go_on.wait(WAIT)
        return "done"

    with working(app):
        result = work.delay()
        soon(lambda: result.state == "PROGRESS")
        assert result.info == {"current": 3, "total": 4, "at": date(2026, 1, 1)}
        assert result.handle.progress().percent == 75
        assert not result.ready()
        go_on.set()
        assert get(result) == "done"
        assert (result.state, result.info, result.status) == ("SUCCESS", "done", "SUCCESS")


def test_ignoring_keeps_what_was_said(app: Celery) -> None:
    @app.task(bind=True)
    def work(self, state):  # type: ignore[no-untyped-def]
        if state:
            self.update_state(state=state, meta={"exc_type": "ValueError", "exc_message": ["bad"], "more": 1})
        raise Ignore

    with working(app):
        failed = work.delay("FAILURE")
        with pytest.raises(ValueError, match="bad"):
            get(failed)
        assert failed.state == "FAILURE"
        own = work.delay("OWN")
        assert get(own)["more"] == 1
        assert own.state == "OWN"
        none = work.delay("")
        assert get(none) is None
        assert (none.state, none.ready()) == ("IGNORED", True)


def test_rejecting(app: Celery) -> None:
    tries: list[int] = []

    @app.task(bind=True, acks_late=True)
    def work(self, requeue):  # type: ignore[no-untyped-def]
        tries.append(1)
        if requeue and len(tries) == 3:
            return "third"
        raise Reject("not now", requeue=requeue)

    with working(app):
        assert get(work.delay(True)) == "third"
        result = work.delay(False)
        soon(result.ready)
        assert result.state == "FAILURE"
        assert result.handle.info().reason == "not now"


# -- limits and revoking


def test_time_limits(app: Celery) -> None:
    forever = threading.Event()

    @app.task(soft_time_limit=0.1)
    def soft():  # type: ignore[no-untyped-def]
        try:
            while not forever.wait(0.01):
                pass
        except SoftTimeLimitExceeded:
            return "cleaned up"

    @app.task(time_limit=0.1)
    def hard():  # type: ignore[no-untyped-def]
        while not forever.wait(0.01):
            pass

    @app.task
    def neither():  # type: ignore[no-untyped-def]
        while not forever.wait(0.01):
            pass

    with working(app):
        assert get(soft.delay()) == "cleaned up"
        with pytest.raises(TimeLimitExceeded):
            get(hard.delay())
        with pytest.raises(SoftTimeLimitExceeded):
            get(neither.apply_async(soft_time_limit=0.1))
        forever.set()


def test_revoking(app: Celery) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.task
    def work():  # type: ignore[no-untyped-def]
        started.set()
        while not go_on.wait(0.01):
            pass
        return "finished"

    waiting = work.apply_async(countdown=3600)
    waiting.revoke()
    assert waiting.state == "REVOKED"
    with pytest.raises(TaskRevokedError, match="revoked"):
        get(waiting)
    other = work.apply_async(countdown=3600)
    app.control.revoke([other.id])
    assert other.state == "REVOKED"
    with working(app):
        running = work.delay()
        started.wait(WAIT)
        running.revoke()
        assert running.state == "STARTED", "a task that runs goes on unless it is to be terminated"
        go_on.set()
        assert get(running) == "finished"
