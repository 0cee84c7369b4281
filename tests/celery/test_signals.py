"""Signals, loggers and exceptions."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.celery.kit import WAIT, TooHot, working
from windlass.celery import Celery, signals
from windlass.celery.rebuild import RemoteError, rebuild
from windlass.celery.utils.log import get_task_logger


def test_signals_around_a_run(app: Celery) -> None:
    seen: list[Any] = []

    @app.task(bind=True, name="work")
    def work(self, how):  # type: ignore[no-untyped-def]
        if how == "retry" and not self.request.retries:
            raise self.retry(countdown=0)
        if how == "fail":
            raise ValueError("no")
        return "value"

    def receiver(name: str, *fields: str) -> Any:
        def receive(sender: Any, **kwargs: Any) -> None:
            seen.append((name, sender.name, *(kwargs[field] for field in fields)))

        return receive

    connected = [
        (signals.task_prerun, receiver("prerun", "args")),
        (signals.task_postrun, receiver("postrun", "state", "retval")),
        (signals.task_success, receiver("success", "result")),
        (signals.task_failure, receiver("failure", "exception")),
        (signals.task_retry, receiver("retry", "reason")),
    ]
    for signal, receive in connected:
        signal.connect(receive, sender=work)
    try:
        with working(app, concurrency=1):
            work.delay("go").get(timeout=WAIT)
            assert seen == [
                ("prerun", "work", ["go"]), ("success", "work", "value"), ("postrun", "work", "SUCCESS", "value")
            ]  # fmt: skip
            seen.clear()
            work.delay("fail").get(timeout=WAIT, propagate=False)
            assert [entry[0] for entry in seen] == ["prerun", "failure", "postrun"]
            seen.clear()
            work.delay("retry").get(timeout=WAIT)
            assert [entry[0] for entry in seen] == ["prerun", "retry", "postrun", "prerun", "success", "postrun"]
    finally:
        for signal, receive in connected:
            signal.disconnect(receive, sender=work)
    assert not any(signal.receivers for signal, _ in connected)


def test_signals_of_a_worker_and_of_publishing(app: Celery) -> None:
    seen: list[str] = []

    @app.task(bind=True, name="work")
    def work(self):  # type: ignore[no-untyped-def]
        return self.request.headers

    @signals.worker_ready.connect
    def ready(sender: Any, **kwargs: Any) -> None:
        seen.append("ready")

    @signals.worker_shutdown.connect
    def shutdown(sender: Any, **kwargs: Any) -> None:
        seen.append("shutdown")

    @signals.before_task_publish.connect(sender="work")
    def publish(sender: Any, headers: Any, body: Any, **kwargs: Any) -> None:
        headers["trace"] = "abc"
        seen.append(f"publish {sender}")

    @signals.after_task_publish.connect
    def published(sender: Any, headers: Any, **kwargs: Any) -> None:
        seen.append(f"published {headers['task']}")

    try:
        with working(app):
            assert work.delay().get(timeout=WAIT) == {"trace": "abc"}
            work.s().apply_async().get(timeout=WAIT)
    finally:
        signals.worker_ready.disconnect(ready)
        signals.worker_shutdown.disconnect(shutdown)
        signals.before_task_publish.disconnect(publish, sender="work")
        signals.after_task_publish.disconnect(published)
    assert seen == ["ready", *["publish work", "published work"] * 2, "shutdown"]


def test_a_receiver_that_raises_does_no_harm(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    signal = signals.Signal("mine")

    @signal.connect
    def bad(**kwargs: Any) -> None:
        raise ValueError("a receiver's own")

    @signal.connect(sender="other")
    def never(**kwargs: Any) -> None:
        raise AssertionError

    ((receiver, answer),) = signal.send(sender="x")
    assert receiver is bad
    assert isinstance(answer, ValueError)
    assert "a receiver of mine raised" in caplog.text


def test_a_failure_is_logged_once(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    """Celery's own line says it, and the worker's says it no second time."""

    @app.task(bind=True, name="work", max_retries=1)
    def work(self):  # type: ignore[no-untyped-def]
        raise self.retry(exc=ValueError("no"), countdown=0)

    with working(app):
        work.delay().get(timeout=WAIT, propagate=False)
    said = [(record.name, record.levelname) for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == [("celery.app.trace", "ERROR")]


def test_signals_that_are_never_sent_are_refused() -> None:
    with pytest.raises(ImportError, match="use worker_init"):
        from windlass.celery.signals import celeryd_init  # noqa: F401
    with pytest.raises(ImportError):
        from windlass.celery.signals import nonsense  # noqa: F401


def test_loggers_of_tasks() -> None:
    logger = get_task_logger("some.module")
    assert isinstance(logger, logging.Logger)
    assert logger.name == "some.module"
    assert logger.parent is logging.getLogger("celery.task")
    with pytest.raises(RuntimeError, match="__name__"):
        get_task_logger("celery.task")


# -- exceptions


def test_exceptions_by_class_where_it_is_loaded() -> None:
    hot = rebuild("tests.celery.kit.TooHot", "90 degrees in here", [90, "here"])
    assert isinstance(hot, TooHot)
    assert hot.degrees == 90
    without = rebuild("tests.celery.kit.TooHot", "90 degrees")
    assert isinstance(without, TooHot)
    assert without.args == ("90 degrees",)
    assert rebuild("KeyError", "'k'", ["k"]).args == ("k",)
    assert isinstance(rebuild("json.decoder.JSONDecodeError", "bad"), ValueError)


@pytest.mark.parametrize(
    "kind", ["antigravity.Boom", "os.system", "builtins.eval", "SystemExit", "print", "subprocess.Popen", "a.b.c", ""]
)
def test_nothing_else_is_imported_or_called(kind: str) -> None:
    import sys

    error = rebuild(kind, "text", ["echo"])
    assert isinstance(error, RemoteError)
    assert type(error).__name__ == (kind.rpartition(".")[2] or "Error")
    assert "antigravity" not in sys.modules
