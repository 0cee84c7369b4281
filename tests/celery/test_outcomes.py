"""What a task raises about itself, the limits that hold for it, and which ``except`` catches which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import windlass
from tests.celery.kit import WAIT, working
from windlass import errors
from windlass.celery import Celery, exceptions, uuid


def get(result: Any) -> Any:
    return result.get(timeout=WAIT)


# -- Reject and requeue


def test_a_job_put_back_is_redelivered(anywhere: SimpleNamespace) -> None:
    assert get(anywhere.put_back.delay()) == 0
    assert anywhere.seen == [False, True]


# -- classes


OURS_AND_THEIRS = [
    (exceptions.Reject, errors.Reject),
    (exceptions.TaskPredicate, errors.Signal),
    (exceptions.SoftTimeLimitExceeded, errors.SoftTimeout),
    (exceptions.TimeLimitExceeded, errors.TaskTimeout),
    (exceptions.WorkerLostError, errors.WorkerCrashed),
    (exceptions.OperationalError, errors.StoreUnavailable),
    (exceptions.TimeoutError, errors.ResultTimeout),
]
KINDS_OF_OURS = [
    (exceptions.Retry, errors.Retry),
    (exceptions.Ignore, errors.Cancel),
    (exceptions.NotRegistered, errors.UnknownTask),
    (exceptions.TaskRevokedError, errors.JobCancelled),
    (exceptions.ImproperlyConfigured, errors.ConfigError),
    (exceptions.TimeoutError, TimeoutError),
    (exceptions.NotRegistered, KeyError),
]


@pytest.mark.parametrize(("theirs", "ours"), OURS_AND_THEIRS)
def test_one_class_under_both_names(theirs: type[Exception], ours: type[Exception]) -> None:
    with pytest.raises(theirs):
        raise ours("x")
    with pytest.raises(ours):
        raise theirs("x")


@pytest.mark.parametrize(("theirs", "ours"), KINDS_OF_OURS)
def test_celerys_is_a_kind_of_ours(theirs: type[Exception], ours: type[Exception]) -> None:
    with pytest.raises(ours):
        raise theirs("x")


@pytest.mark.parametrize("name", ["Retry", "Ignore", "Reject", "TimeoutError", "TaskRevokedError", "NotRegistered",
                                  "MaxRetriesExceededError", "SoftTimeLimitExceeded", "TimeLimitExceeded",
                                  "WorkerLostError"])  # fmt: skip
def test_each_can_be_raised_bare_and_read(name: str) -> None:
    kind = getattr(exceptions, name)
    with pytest.raises(kind) as caught:
        raise kind()
    assert repr(caught.value).startswith(kind.__name__)


def test_ours_raised_in_a_task_means_the_same(app: Celery) -> None:
    tries: list[int] = []
    handled: list[str] = []

    @app.task(bind=True, default_retry_delay=0)
    def work(self, what):  # type: ignore[no-untyped-def]
        tries.append(self.request.retries)
        if what == "retry" and not self.request.retries:
            raise windlass.Retry(delay=0)
        if what == "policy" and not self.request.retries:
            raise windlass.Retry("by the task's own delay")
        if what == "reject":
            raise windlass.Reject("never")
        return what

    work.on_failure = lambda *args: handled.append("failure")  # type: ignore[method-assign]
    work.on_retry = lambda *args: handled.append("retry")  # type: ignore[method-assign]
    with working(app):
        assert get(work.delay("retry")) == "retry"
        assert get(work.delay("policy")) == "policy"
        with pytest.raises(exceptions.Reject, match="never"):
            get(work.delay("reject"))
    assert tries == [0, 1, 0, 1, 0]
    assert handled == ["retry", "retry"]


def test_celerys_raised_in_a_native_task_means_the_same(app: Celery) -> None:
    tries: list[int] = []

    @app.windlass.task(queue="celery", retries=2)
    def native(what: str) -> str:
        tries.append(1)
        if what == "retry" and len(tries) == 1:
            raise exceptions.Retry(when=0)
        if what == "ignore":
            raise exceptions.Ignore
        return what

    with working(app):
        assert native.delay("retry").get(timeout=WAIT) == "retry"
        with pytest.raises(windlass.JobCancelled):
            native.delay("ignore").get(timeout=WAIT)
    assert len(tries) == 3


def test_waiting_too_long_is_the_same_error_in_both_words(app: Celery) -> None:
    app.task(name="never")(lambda: None)
    with pytest.raises(windlass.ResultTimeout):
        app.send_task("never").get(timeout=0.01)
    app.close()


# -- limits


def test_a_task_sees_the_limits_that_hold(app: Celery) -> None:
    app.conf.update(task_time_limit=90, task_soft_time_limit=80)

    def limits(self: Any) -> list[Any]:
        return [self.request.time_limit, self.request.soft_time_limit, self.request.timelimit]

    of_app = app.task(name="of_app", bind=True)(limits)
    of_task = app.task(name="of_task", bind=True, time_limit=50, soft_time_limit=40)(limits)
    with working(app):
        assert get(of_app.delay()) == [90, 80, [90, 80]]
        assert get(of_task.delay()) == [50, 40, [50, 40]]
        assert get(of_task.apply_async(time_limit=45)) == [45, 40, [45, 40]]
        assert get(of_task.apply_async(soft_time_limit=1.5, time_limit=2)) == [2, 1.5, [2, 1.5]]


def test_limits_that_make_no_sense_fail_their_own_calls_alone(app: Celery) -> None:
    bad = app.task(name="bad", time_limit=1, soft_time_limit=2)(lambda: "ran")
    good = app.task(name="good", time_limit=20)(lambda: "ran")
    with working(app):
        assert get(good.delay()) == "ran"
        with pytest.raises(ValueError, match="bad: soft_time_limit=2 is above time_limit=1"):
            bad.delay()
        with pytest.raises(ValueError, match="good: soft_time_limit=30 is above time_limit=20"):
            good.apply_async(soft_time_limit=30)
        with pytest.raises(ValueError, match="above time_limit"):
            (good.s() | bad.si())()
        assert get(bad.apply_async(time_limit=20)) == "ran"


def test_a_soft_limit_of_the_settings_above_a_tasks_own_hard_one_does_not_hold(app: Celery) -> None:
    app.conf.task_soft_time_limit = 100

    @app.task(name=uuid(), bind=True, time_limit=60)
    def work(self):  # type: ignore[no-untyped-def]
        return self.request.timelimit

    with working(app):
        assert get(work.delay()) == [60, None]
