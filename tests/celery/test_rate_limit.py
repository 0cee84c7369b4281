"""``rate_limit`` of tasks, by the settings and at run time: Windlass's rates, for all workers together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.celery.kit import soon, working
from windlass.celery import Celery
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.rates import rate_of


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("10/m", "10/m"), ("5/s", "5/s"), ("100/h", "100/h"), (10, "10/s"), ("10", "10/s"), (0.5, "1/2000ms"),
        ("0.5/m", "1/120000ms"), (None, None), (0, None), ("0", None), ("0/m", None),
    ],
)  # fmt: skip
def test_rates(theirs: Any, ours: str | None) -> None:
    assert rate_of(theirs, "rate_limit") == ours


@pytest.mark.parametrize("wrong", ["10/d", "x", "-1", "10/", True, "nan", "10/s/m", []])
def test_rates_that_are_none(wrong: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"rate_limit is .*give a text such as"):
        rate_of(wrong, "rate_limit")


def declared(app: Celery, **options: Any) -> Any:
    app.task(name="t", **options)(lambda: 1)
    return app.windlass.tasks["t"].layer.get("rate")


def test_a_task_says_its_rate(app: Celery) -> None:
    rate = declared(app, rate_limit="10/m")
    assert rate.text == "10/m"


def test_the_settings_say_the_rate_of_others(app: Celery) -> None:
    app.conf.task_default_rate_limit = "3/s"
    app.task(name="free", rate_limit=0)(lambda: 1)
    assert declared(app).text == "3/s"
    assert "rate" not in app.windlass.tasks["free"].layer


def test_rates_can_be_switched_off(app: Celery) -> None:
    app.conf.worker_disable_rate_limits = True
    assert declared(app, rate_limit="1/h") is None


def test_a_limited_task_waits_and_is_let_go_at_run_time(app: Celery) -> None:
    @app.task(name="limited", rate_limit="1/h")
    def limited(x: int) -> int:
        return x

    with working(app):
        results = [limited.delay(n) for n in range(3)]
        soon(lambda: any(result.ready() for result in results))
        assert sum(result.ready() for result in results) == 1
        app.control.rate_limit("limited", None)
        assert sorted(result.get(timeout=10) for result in results) == [0, 1, 2]
        app.control.rate_limit("limited", "1000/s")
        assert limited.delay(7).get(timeout=10) == 7


def test_a_rate_holds_for_all_workers(app: Celery) -> None:
    with pytest.raises(ImproperlyConfigured, match="holds for all workers"):
        app.control.rate_limit("limited", "1/s", destination=["one@host"])
