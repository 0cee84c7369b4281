"""Declaring tasks, queues and apps: names, options and what is refused where it is written."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.drafts import draft_of
from windlass import AsyncTask, ConfigError, Exponential, Fixed, Keep, SyncTask, Windlass
from windlass.core.job import State
from windlass.core.retry import Steps


@pytest.fixture
def app() -> Windlass:
    return Windlass("shop", "memory://")


async def send(to: str) -> None: ...


def ship(order: int) -> None: ...


# -- names


def test_a_task_is_named_after_its_function(app: Windlass) -> None:
    assert app.task(send).name == f"{__name__}.send"
    assert app.task(name="shop.ship")(ship).name == "shop.ship"
    assert set(app.tasks) == {f"{__name__}.send", "shop.ship"}


def test_a_nested_function_gets_a_readable_name(app: Windlass) -> None:
    @app.task
    def inner() -> None: ...

    assert inner.name == f"{__name__}.test_a_nested_function_gets_a_readable_name.inner"


def test_a_task_keeps_its_functions_face(app: Windlass) -> None:
    @app.task
    def documented() -> None:
        """What it does."""

    assert (documented.__name__, documented.__doc__) == ("documented", "What it does.")
    assert repr(documented) == f"<task {documented.name}>"


def test_async_and_plain_tasks_differ_in_type_and_place(app: Windlass) -> None:
    asynchronous, plain = app.task(send), app.task(ship)
    assert isinstance(asynchronous, AsyncTask)
    assert isinstance(plain, SyncTask)
    assert (asynchronous.runs_in, plain.runs_in) == ("loop", "thread")


async def test_calling_a_task_runs_it_here(app: Windlass) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    @app.task
    async def double(x: int) -> int:
        return 2 * x

    assert add(1, 2) == 3
    assert await double(4) == 8
    assert await app.queue("default").counts() == {}


def test_two_functions_cannot_share_a_name(app: Windlass) -> None:
    app.task(name="same")(send)
    with pytest.raises(ConfigError, match="two functions want the task name 'same'"):
        app.task(name="same")(ship)


def test_the_same_function_may_be_declared_again(app: Windlass) -> None:
    """A module that is reloaded declares its tasks anew."""
    app.task(send)
    assert app.task(retries=3)(send).layer == {"retries": 3}


def test_a_task_is_not_a_function_to_declare(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="is a task already"):
        app.task(app.task(send))  # type: ignore[call-overload]


async def numbers() -> AsyncIterator[int]:
    yield 1


def more_numbers() -> Iterator[int]:
    yield 1


class Thing:
    pass


@pytest.mark.parametrize("fn", [numbers, more_numbers, Thing])
def test_only_functions_can_be_tasks(app: Windlass, fn: Any) -> None:
    with pytest.raises(ConfigError, match="only plain and async functions"):
        app.task(fn)


@pytest.mark.parametrize("name", ["", "has space", "ümlaut", "a" * 129, "-dash", "new\nline", 7, None])
def test_unusable_names_are_refused(app: Windlass, name: Any) -> None:
    if name is not None:
        with pytest.raises(ConfigError, match=r"name .* is not usable"):
            app.task(name=name)(send)
    with pytest.raises(ConfigError, match=r"name .* is not usable"):
        app.queue(name)
    with pytest.raises(ConfigError, match=r"name .* is not usable"):
        Windlass(name, "memory://")


# -- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrys": 3}, "unknown option 'retrys' (did you mean 'retries'?)"),
        ({"delay": 3}, "unknown option 'delay'"),
        ({"retries": -1}, "retries is -1; give a whole number from 0"),
        ({"retries": True}, "retries is True"),
        ({"retries": "3"}, "retries is '3'"),
        ({"priority": 10}, "priority is 10; give a whole number from 0 to 9"),
        ({"timeout": 0}, "timeout is 0; give a duration above 0, or None"),
        ({"timeout": "soon"}, "timeout is 'soon'"),
        ({"timeout": -1}, "timeout is -1"),
        ({"soft_timeout": "1 fortnight"}, "soft_timeout is '1 fortnight'"),
        ({"backoff": "exponental"}, "backoff is 'exponental'"),
        ({"backoff": []}, "backoff is an empty list"),
        ({"runs_in": "proces"}, "runs_in is 'proces' (did you mean 'process'?)"),
        ({"on_crash": "ignore"}, "on_crash is 'ignore'"),
        ({"on_expire": "failed"}, "on_expire is 'failed' (did you mean 'fail'?)"),
        ({"keep": "1h"}, "keep is '1h'; give Keep(count=..., age=...)"),
        ({"result": 1}, "result is 1; give True or False"),
        ({"retry_on": "ValueError"}, "retry_on has 'ValueError'"),
        ({"give_up_on": [ValueError, int]}, "give_up_on has <class 'int'>"),
        ({"expires": datetime(2030, 1, 1)}, "naive datetime"),  # noqa: DTZ001
        ({"max_crashes": 0}, "max_crashes is 0"),
        ({"version": 0}, "version is 0"),
        ({"upcast": [1]}, "upcast is [1]"),
        ({"version": 3, "upcast": {1: dict}}, "an unbroken run of older versions; got [1]"),
        ({"version": 1, "upcast": {1: dict}}, "an unbroken run of older versions; got [1]"),
        ({"runs_in": "thread"}, "runs_in='thread', but an async function runs on the loop"),
    ],
)
def test_wrong_options_fail_where_they_are_written(app: Windlass, options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.task(**options)(send)
    assert message in str(caught.value)
    assert "task send" in str(caught.value)
    assert not app.tasks


def test_a_plain_function_cannot_run_on_the_loop(app: Windlass) -> None:
    with pytest.raises(ConfigError, match="would block the loop"):
        app.task(runs_in="loop")(ship)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retires": 1}, "queue emails got an unknown option 'retires' (did you mean 'retries'?)"),
        ({"runs_in": "process"}, "queue emails got an unknown option 'runs_in'"),
        ({"priority": "high"}, "queue emails: priority is 'high'"),
    ],
)
def test_wrong_queue_options(app: Windlass, options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        app.queue("emails", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leese": 3}, "unknown option 'leese' (did you mean 'lease'?)"),
        ({"lease": 10, "beat": 5}, "lease at least three beats long"),
        ({"max_payload": 0}, "max_payload is 0"),
        ({"events_kept": "many"}, "events_kept is 'many'"),
        ({"retries": -1}, "retries is -1"),
        ({"tz": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'"),
    ],
)
def test_wrong_app_options(options: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Windlass("shop", "memory://", **options)
    assert message in str(caught.value)


def test_a_wrong_url_fails_when_the_app_is_made() -> None:
    with pytest.raises(ConfigError, match=r"no store engine for 'sqllite:///x.db' \(did you mean 'sqlite'\?\)"):
        Windlass("shop", "sqllite:///x.db")


def test_defaults_are_safe() -> None:
    settings = Windlass("shop", "memory://").settings
    assert settings.lease >= 3 * settings.beat
    assert (settings.lease, settings.beat, settings.unknown_after) == (15_000, 5_000, 3_600_000)
    assert settings.max_payload == 1 << 20
    assert settings.keep == Keep(count=100_000, age="1h", failed=Keep(count=100_000, age="30d"))


def test_where_jobs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    assert Windlass("shop").url == "sqlite:///shop.windlass.db"
    monkeypatch.setenv("WINDLASS_URL", f"sqlite:///{tmp_path}/env.db")
    assert Windlass("shop").url == f"sqlite:///{tmp_path}/env.db"
    assert Windlass("shop", "memory://").url.startswith("memory://shop-")
    assert list(tmp_path.iterdir()) == [], "nothing is created before the first call"


def test_two_apps_in_memory_do_not_meet() -> None:
    assert Windlass("shop", "memory://").url != Windlass("shop", "memory://").url


@pytest.mark.parametrize("kind", ["object", "nested", "result", "callable"])
def test_types_without_a_json_form_fail_at_the_declaration(app: Windlass, kind: str) -> None:
    def takes(thing: Thing) -> None: ...

    def nested(things: dict[str, list[Thing]]) -> None: ...

    def gives() -> Thing: ...

    def calls(fn: type) -> None: ...

    fn = {"object": takes, "nested": nested, "result": gives, "callable": calls}[kind]
    with pytest.raises(ConfigError, match="no JSON form"):
        app.task(fn)


@dataclasses.dataclass
class Left:
    x: int


@dataclasses.dataclass
class Right:
    y: int


def test_a_union_that_json_cannot_tell_apart_fails_at_the_declaration(app: Windlass) -> None:
    def either(thing: Left | Right) -> None: ...

    with pytest.raises(ConfigError, match=r"task .*either"):
        app.task(either)


def test_an_annotation_defined_further_down_is_looked_up_later(app: Windlass) -> None:
    @app.task
    def early(thing: LaterType) -> int:
        return thing.x

    payload = early.codec.encode((LaterType(3),), {}, 1000)
    assert payload == b'{"thing":{"x":3}}'


@dataclasses.dataclass
class LaterType:
    x: int


# -- what holds for a job: call over task over queue over app


def test_call_beats_task_beats_queue_beats_app() -> None:
    app = Windlass("shop", "memory://", retries=1, timeout=1, priority=1, expires=1, soft_timeout=1)
    app.queue("emails", retries=2, timeout=2, priority=2, expires=2)
    task = app.task(queue="emails", retries=3, timeout=3, priority=3)(send)
    call = draft_of(task.options(retries=4, timeout=4).s("x")).resolved
    assert (call.retry.retries, call.timeout, call.priority, call.expires_in, call.soft_timeout) == (
        4, 4000, 3, 2000, 1000,
    )  # fmt: skip
    plain = draft_of(task.s("x")).resolved
    assert (plain.retry.retries, plain.timeout, plain.priority, plain.expires_in) == (3, 3000, 3, 2000)


def test_a_call_may_switch_a_limit_off() -> None:
    app = Windlass("shop", "memory://", timeout=5, expires=5)
    rules = draft_of(app.task(send).options(timeout=None, expires=None).s("x")).resolved
    assert (rules.timeout, rules.expires_in, rules.expires_at) == (0, 0, 0)


def test_another_queue_brings_its_own_defaults(app: Windlass) -> None:
    app.queue("slow", timeout=60)
    task = app.task(send)
    assert draft_of(task.s("x")).resolved.timeout == 0
    assert draft_of(task.options(queue="slow").s("x")).resolved.timeout == 60_000


def test_options_given_later_count(app: Windlass) -> None:
    task = app.task(queue="emails")(send)
    assert draft_of(task.s("x")).resolved.priority == 5
    app.queue("emails", priority=8)
    app.queue("emails", retries=2)
    assert draft_of(task.s("x")).resolved.priority == 8
    assert draft_of(task.s("x")).resolved.retry.retries == 2


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ("exponential", Exponential()),
        ("fixed", Fixed()),
        (5, Steps((5000,))),
        ("250ms", Steps((250,))),
        (timedelta(minutes=1), Steps((60_000,))),
        ([1, "2m", timedelta(hours=1)], Steps((1000, 120_000, 3_600_000))),
        (Exponential(base="1s", cap="1m"), Exponential(base="1s", cap="1m")),
    ],
)
def test_ways_to_write_a_backoff(app: Windlass, written: Any, parsed: Any) -> None:
    assert draft_of(app.task(backoff=written)(send).s("x")).resolved.retry.backoff == parsed


def test_on_crash_and_on_expire(app: Windlass) -> None:
    rules = draft_of(app.task(on_crash="fail", on_expire="fail")(send).s("x")).resolved
    assert (rules.max_crashes, rules.expire_to) == (1, State.FAILED)
    rules = draft_of(app.task(send).s("x")).resolved
    assert (rules.max_crashes, rules.expire_to) == (3, State.CANCELLED)


def test_keep_is_scoped_to_where_it_is_written(app: Windlass) -> None:
    app.queue("emails", keep=Keep(count=5))
    kept = app.task(queue="emails", keep=Keep(count=3, age="1h"))(send)
    plain = app.task(queue="emails")(ship)
    assert draft_of(kept.s("x")).resolved.keep_done == f"3|3600000|emails/{kept.name}"
    assert draft_of(plain.s(1)).resolved.keep_done == "5|-1|emails"
    assert draft_of(plain.options(keep=0).s(1)).resolved.keep_failed == "0|-1|emails"


def test_expires_at_an_instant(app: Windlass) -> None:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    rules = draft_of(app.task(expires=when)(send).s("x")).resolved
    assert (rules.expires_in, rules.expires_at) == (0, round(when.timestamp() * 1000))


# -- handlers and modules


def test_a_queue_has_one_handler(app: Windlass) -> None:
    @app.queue("notifications").handler
    def first(task: str, args: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigError, match="has a handler already"):
        app.queue("notifications").handler(first)


def test_include_imports_the_modules_with_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_included_tasks.py").write_text("LOADED = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    app = Windlass("shop", "memory://", include=["shop_included_tasks"])
    assert "shop_included_tasks" not in sys.modules
    app.load()
    assert sys.modules["shop_included_tasks"].LOADED
    assert Windlass("shop", "memory://", include="one.module").include == ["one.module"]
    with pytest.raises(ModuleNotFoundError):
        Windlass("shop", "memory://", include=["no_such_module_here"]).load()
