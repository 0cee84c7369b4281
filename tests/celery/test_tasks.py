"""Tasks as Celery's users write them: options, calls, the request, retries, states of their own, results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.celery.kit import TooHot, soon, working
from tests.celery.tasks_kit import get
from windlass.celery import Celery, Task, current_app, shared_task, uuid
from windlass.celery.exceptions import (
    AlreadyRegistered,
    ImproperlyConfigured,
    NotRegistered,
    TaskRevokedError,
)
from windlass.celery.result import AsyncResult, result_from_tuple

# -- declaring


def test_names_and_kinds_of_tasks(app: Celery) -> None:
    @app.task
    def plain(x):  # type: ignore[no-untyped-def]
        """What it does."""
        return x

    @app.task(name="other.name", bind=True)
    def bound(self, x):  # type: ignore[no-untyped-def]
        return self.name, x

    class Own(Task):
        name = "own"
        greeting = "hello"

        def run(self, who):  # type: ignore[no-untyped-def]
            return f"{self.greeting} {who}"

    own = app.register_task(Own())
    assert plain.name == f"{__name__}.plain"
    assert (plain.__name__, plain.__doc__) == ("plain", "What it does.")
    assert plain(3) == 3
    assert bound(4) == ("other.name", 4)
    assert own("you") == "hello you"
    assert app.tasks["own"] is own
    assert app.task(name="other.name")(bound.__wrapped__) is bound
    with pytest.raises(NotRegistered):
        app.tasks["missing"]
    with working(app):
        assert get(plain.delay(5)) == 5
        assert get(bound.delay(5)) == ["other.name", 5]
        assert get(own.delay(who="you")) == "hello you"


def test_annotations_of_celerys_kind(app: Celery) -> None:
    assert AsyncResult[int].__origin__ is AsyncResult  # type: ignore[misc]
    assert Task[[int], str].__origin__ is Task  # type: ignore[misc]


def test_two_functions_of_one_name_are_refused(app: Celery) -> None:
    app.task(name="same")(lambda: 1)
    with pytest.raises(AlreadyRegistered, match="two functions want the task name 'same'"):
        app.task(name="same")(test_names_and_kinds_of_tasks)


def test_a_base_class_with_handlers_and_state(app: Celery) -> None:
    seen: list[Any] = []

    class Base(Task):
        connection = None

        def before_start(self, task_id, args, kwargs):  # type: ignore[no-untyped-def]
            self.connection = self.connection or "open"
            seen.append(("before", args))

        def on_success(self, retval, task_id, args, kwargs):  # type: ignore[no-untyped-def]
            seen.append(("success", retval))

        def on_failure(self, exc, task_id, args, kwargs, einfo):  # type: ignore[no-untyped-def]
            seen.append(("failure", repr(exc), "ValueError: no" in str(einfo)))

        def on_retry(self, exc, task_id, args, kwargs, einfo):  # type: ignore[no-untyped-def]
            seen.append(("retry", repr(exc)))

        def after_return(self, status, retval, task_id, args, kwargs, einfo):  # type: ignore[no-untyped-def]
            seen.append(("after", status))

        def __call__(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            seen.append("call")
            return super().__call__(*args, **kwargs)

    @app.task(base=Base, bind=True, default_retry_delay=0.01)
    def work(self, what):  # type: ignore[no-untyped-def]
        if what == "retry" and not self.request.retries:
            raise self.retry(exc=KeyError("later"))
        if what == "fail":
            raise ValueError("no")
        return self.connection

    with working(app, concurrency=1):
        assert get(work.delay("go")) == "open"
        assert seen == [("before", ["go"]), "call", ("success", "open"), ("after", "SUCCESS")]
        seen.clear()
        assert get(work.delay("retry")) == "open"
        assert seen[2:4] == [("retry", "KeyError('later')"), ("after", "RETRY")]
        seen.clear()
        with pytest.raises(ValueError, match="no"):
            get(work.delay("fail"))
        assert seen[2:] == [("failure", "ValueError('no')", True), ("after", "FAILURE")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_limit": "10/d"}, "give a text such as '10/s'"),
        ({"max_retires": 3}, "did you mean 'max_retries'"),
        ({"serializer": "pickle"}, "JSON"),
        ({"compression": "gzip"}, "nothing is compressed"),
        ({"routing_key": "a.b"}, "give queue"),
    ],
)
def test_options_without_a_counterpart_say_so(app: Celery, options: dict[str, Any], message: str) -> None:
    def declare() -> None:
        app.task(**options)(lambda: 1)
        _ = app.windlass

    with pytest.raises(ImproperlyConfigured, match=message):
        declare()


def test_options_of_the_users_own_are_attributes(app: Celery) -> None:
    @app.task(bind=True, database="orders")
    def work(self):  # type: ignore[no-untyped-def]
        return self.database

    assert work() == "orders"


def test_async_functions_are_windlass_tasks(app: Celery) -> None:
    async def work() -> None: ...

    with pytest.raises(ImproperlyConfigured, match=r"app\.windlass\.task"):
        app.task(work)


def test_options_reach_windlass(app: Celery) -> None:
    def options(**given: Any) -> dict[str, Any]:
        name = uuid()
        app.task(name=name, **given)(lambda: 1)
        return app.windlass.tasks[name].layer

    assert options(time_limit=30, soft_time_limit=20)["timeout"] == 30_000
    assert options(soft_time_limit=20)["soft_timeout"] == 20_000
    assert options(acks_late=False)["on_crash"] == "fail"
    assert options(reject_on_worker_lost=False)["on_crash"] == "fail"
    assert "on_crash" not in options()
    assert "on_crash" not in options(acks_late=True)
    assert options(ignore_result=True)["result"] is False
    assert app.windlass.declared.resolve("x", "q").max_crashes == 3


def test_at_most_once_by_setting() -> None:
    app = Celery("tests", broker="memory://", task_acks_late=False)
    app.task(name="once")(lambda: 1)
    assert app.windlass.tasks["once"].layer["on_crash"] == "fail"


def test_shared_tasks_belong_to_every_app() -> None:
    @shared_task(name="shared.double", bind=True)
    def double(self, x):  # type: ignore[no-untyped-def]
        return x * 2

    first = Celery("first", broker="memory://")
    second = Celery("second", broker="memory://")
    assert first.tasks["shared.double"].app is first
    assert second.tasks["shared.double"].app is second
    assert double.app is second
    assert double(4) == 8
    assert double.name == "shared.double"
    assert current_app.main == "second"
    with working(second):
        assert get(double.delay(21)) == 42
        assert get((double.s(1) | double.s())()) == 4


# -- calling


def test_arguments_and_results_of_many_types(app: Celery) -> None:
    @app.task
    def same(*args, **kwargs):  # type: ignore[no-untyped-def]
        return [[type(arg).__name__ for arg in args], list(args), kwargs]

    values = [
        1, 1.5, "text", None, True, [1, [2]], {"a": {"b": 1}}, datetime(2026, 1, 2, 3, 4, tzinfo=UTC), date(2026, 1, 2),
        timedelta(seconds=90), Decimal("1.10"), UUID(int=5), b"bytes",
    ]  # fmt: skip
    with working(app):
        kinds, back, kwargs = get(same.delay(*values, when=values[7]))
        assert back == values
        assert kinds == [type(value).__name__ for value in values]
        assert kwargs == {"when": values[7]}
        assert get(same.delay((1, 2)))[1] == [[1, 2]], "a tuple comes back as a list"


def test_every_kind_of_parameter(app: Celery) -> None:
    @app.task
    def work(a, /, b, c=3, *rest, d, e=5, **more):  # type: ignore[no-untyped-def]
        return [a, b, c, list(rest), d, e, more]

    @app.task(typing=False)
    def loose(a, b=2):  # type: ignore[no-untyped-def]
        return a + b

    with working(app):
        assert get(work.delay(1, 2, d=4)) == [1, 2, 3, [], 4, 5, {}]
        assert get(work.delay(1, 2, 3, 4, 5, d=4, e=6, f=7)) == [1, 2, 3, [4, 5], 4, 6, {"f": 7}]
        assert get(work.delay(1, b=2, c=8, d=4)) == [1, 2, 8, [], 4, 5, {}]
        assert get(loose.delay(1)) == 3
        assert get(loose.delay(1, b=5)) == 6
        with pytest.raises(TypeError, match="argument"):
            get(loose.delay())


def test_annotations_are_not_enforced(app: Celery) -> None:
    class NotJson: ...

    @app.task
    def work(x: int, y: NotJson = None) -> NotJson:  # type: ignore[assignment]
        return x  # type: ignore[return-value]

    with working(app):
        assert get(work.delay("text")) == "text"


def test_pydantic_arguments_become_models(app: Celery) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        id: int

    def work(order, note="x"):  # type: ignore[no-untyped-def]
        return [type(order).__name__, order.id, note]

    work.__annotations__ = {"order": Order}
    task = app.task(pydantic=True)(work)
    with working(app):
        assert get(task.delay({"id": 3})) == ["Order", 3, "x"]
        assert get(task.delay(order=Order(id=4))) == ["Order", 4, "x"]


def test_tasks_by_name_also_unknown_ones(app: Celery) -> None:
    here = Celery("tests", broker=app.windlass.url)

    @app.task(name="far.add")
    def add(x, y=10, *more, z=0):  # type: ignore[no-untyped-def]
        return [x, y, list(more), z]

    with working(app):
        assert get(app.send_task("far.add", (1,))) == [1, 10, [], 0]
        assert "far.add" not in here.tasks
        assert get(here.send_task("far.add", args=[1, 2, 3], kwargs={"z": 4})) == [1, 2, [3], 4]
        assert get(here.send_task("far.add", kwargs={"x": 1})) == [1, 10, [], 0]
        assert get(here.signature("far.add", args=(1,)).delay()) == [1, 10, [], 0]
        chained = here.signature("far.add", args=(1,)) | here.signature("far.add", args=(5,))
        assert get(chained.delay()) == [[1, 10, [], 0], 5, [], 0]
        with pytest.raises(NotRegistered):
            here.signature("far.add")()


def test_times_of_a_call(app: Celery) -> None:
    @app.task
    def work():  # type: ignore[no-untyped-def]
        return 1

    later = datetime.now(UTC) + timedelta(hours=1)
    assert abs(work.apply_async(eta=later).handle.info().due_at - later) < timedelta(milliseconds=2)
    naive = later.replace(tzinfo=None, microsecond=0)
    assert work.apply_async(eta=naive).handle.info().due_at == naive.replace(tzinfo=UTC)
    info = work.apply_async(countdown=3600, expires=7200).handle.info()
    assert timedelta(minutes=59) < info.due_at - datetime.now(UTC) < timedelta(minutes=61)
    assert info.expires_at > info.due_at
    local = Celery("tests", broker="memory://", timezone="Asia/Tokyo", enable_utc=False)
    assert local.instant("2026-01-01T09:00") == datetime(2026, 1, 1, 0, tzinfo=UTC)
    with working(app):
        assert get(work.apply_async(countdown=0.05)) == 1
        assert get(work.apply_async(countdown=-1)) == 1
        gone = work.apply_async(countdown=0.2, expires=0.01)
        with pytest.raises(TaskRevokedError, match="expired"):
            get(gone)
        assert gone.state == "REVOKED"


def test_queues_priorities_and_routes() -> None:
    app = Celery("tests", broker="memory://")

    @app.task(name="feeds.fetch")
    def fetch():  # type: ignore[no-untyped-def]
        return 1

    @app.task(name="mail.send", queue="mail", priority=7)
    def send():  # type: ignore[no-untyped-def]
        return 1

    def router(name, args, kwargs, options, task=None, **kw):  # type: ignore[no-untyped-def]
        return {"queue": "routed"} if kwargs.get("special") else None

    app.conf.task_routes = (router, {"feeds.*": {"queue": "feeds", "priority": 2}, "mail.send": "never"})

    def where(result: Any) -> tuple[str, int]:
        info = result.handle.info()
        return info.queue, info.priority

    assert where(fetch.delay()) == ("feeds", 2)
    assert where(fetch.apply_async(queue="urgent", priority=9)) == ("urgent", 9)
    assert where(send.delay()) == ("mail", 7), "what the task says beats the routes"
    assert where(app.send_task("feeds.unknown")) == ("feeds", 2)
    assert where(app.send_task("unknown", kwargs={"special": 1})) == ("routed", 5)
    assert where(app.send_task("unknown")) == ("celery", 5)
    assert app.worker_queues() == ["celery"]
    app.conf.task_queues = ["a", "b"]
    assert app.worker_queues() == ["a", "b"]


def test_headers_reach_the_task(app: Celery) -> None:
    @app.task(bind=True)
    def work(self):  # type: ignore[no-untyped-def]
        return self.request.headers

    with working(app):
        assert get(work.apply_async(headers={"trace": "abc", "depth": 3})) == {"trace": "abc", "depth": 3}
        assert get(work.delay()) is None


# -- modules of tasks


def test_packages_that_hold_no_tasks_are_passed_over_and_those_that_are_not_there_are_not(app: Celery) -> None:
    app.autodiscover_tasks(["tests.celery", "datetime.datetime"], "nothing_here", force=True)
    app.autodiscover_tasks(["nonexistent.package.name"])
    with pytest.raises(ModuleNotFoundError, match="nonexistent"):
        app.import_default_modules()


def test_modules_of_tasks_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("found_one", "found_two", "found_none"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        if package != "found_none":
            text = f"from windlass.celery import shared_task\n@shared_task\ndef work():\n    return '{package}'\n"
            (tmp_path / package / "tasks.py").write_text(text)
    (tmp_path / "found_included.py").write_text(
        "from windlass.celery import shared_task\n@shared_task\ndef work():\n    return 'included'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    app = Celery("tests", broker="memory://", include=["found_included"])
    app.autodiscover_tasks(["found_one", "found_none"])
    app.autodiscover_tasks(lambda: ["found_two"])
    assert app.windlass.include == ["found_included", "found_one.tasks", "found_two.tasks"]
    with working(app):
        names = ("found_one.tasks.work", "found_two.tasks.work", "found_included.work")
        assert [get(app.send_task(name)) for name in names] == ["found_one", "found_two", "included"]


async def test_a_result_can_be_awaited(app: Celery) -> None:
    work = app.task(name="work")(lambda x: x)
    async with app.windlass.worker(queues=["celery"]):
        assert await work.delay(5).handle == 5


# -- results


def test_a_result_by_its_id(app: Celery) -> None:
    @app.task
    def work(x, fail=False):  # type: ignore[no-untyped-def]
        if fail:
            raise TooHot(x, "here")
        return x

    unknown = AsyncResult("unknown", app=app)
    assert (unknown.state, unknown.result, unknown.ready(), unknown.exists()) == ("PENDING", None, False, False)
    with working(app):
        result = app.AsyncResult(work.delay(5).id)
        assert get(result) == 5
        assert (result.state, result.successful(), result.failed(), result.traceback) == ("SUCCESS", True, False, None)
        assert (result.name, result.kwargs, result.queue, result.retries) == (work.name, {"x": 5}, "celery", 0)
        assert datetime.now(UTC) - result.date_done < timedelta(minutes=1)
        assert result_from_tuple(result.as_tuple(), app) == result
        assert {result, AsyncResult(result.id, app=app)} == {result}
        assert str(UUID(result.id)) == result.id
        result.forget()
        assert result.state == "PENDING"
        failed = work.delay(5, fail=True)
        soon(failed.ready)
        with pytest.raises(TooHot) as caught:
            failed.get()
        assert (caught.value.degrees, caught.value.where) == (5, "here")
        assert failed.get(propagate=False).args == (5, "here")
        assert "TooHot" in (failed.traceback or "")


def test_results_that_are_not_kept(app: Celery) -> None:
    done: list[int] = []

    @app.task(ignore_result=True)
    def work():  # type: ignore[no-untyped-def]
        done.append(1)
        return "nothing of it"

    with working(app):
        result = work.delay()
        assert result.get() is None
        soon(lambda: result.state == "SUCCESS")
        assert (result.result, done) == (None, [1])
        assert get(work.apply_async(ignore_result=False)) == "nothing of it"


def test_results_of_results(app: Celery) -> None:
    from windlass.celery import group

    @app.task
    def square(x):  # type: ignore[no-untyped-def]
        return x * x

    @app.task
    def many(n):  # type: ignore[no-untyped-def]
        return group(square.s(i) for i in range(n))()

    with working(app):
        result = many.delay(4)
        soon(lambda: result.ready() and all(child.ready() for child in result.children))
        leaves = [value for child, value in result.collect() if not child.children]
        assert leaves == [0, 1, 4, 9]
        assert get(result_from_tuple(get(result), app)) == [0, 1, 4, 9]


@pytest.mark.parametrize("make", [lambda app: app.backend, lambda app: app.start, lambda app: app.control.autoscale])
def test_what_has_no_counterpart_says_what_to_use(app: Celery, make: Callable[[Celery], Any]) -> None:
    with pytest.raises(AttributeError, match="has no counterpart"):
        make(app)
