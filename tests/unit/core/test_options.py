"""Options: checked where they are written, and laid over each other: call over task over queue over app."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.event import Entry, check_kinds, expand, parse_cursor
from windlass.core.failure import MAX_MESSAGE, MAX_TRACEBACK, describe
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_id, check_name, make_id
from windlass.core.job import State
from windlass.core.keep import Keep
from windlass.core.options import (
    APP_NAMES,
    CALL_NAMES,
    PARSERS,
    PEERS,
    QUEUE_NAMES,
    TASK_NAMES,
    Resolved,
    pack_call,
    parse_options,
    resolve,
    unpack_call,
)
from windlass.core.retry import Exponential, Fixed, RetryPolicy, Steps
from windlass.errors import ConfigError

WHEN = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "written", "means"),
    [
        ("retries", 5, 5),
        ("timeout", "1m", 60_000),
        ("timeout", None, 0),
        ("soft_timeout", 1.5, 1_500),
        ("expires", "1h", 3_600_000),
        ("expires", WHEN, WHEN),
        ("expires", None, 0),
        ("on_expire", "fail", "fail"),
        ("priority", 0, 0),
        ("keep", 3, Keep(3)),
        ("result", False, False),
        ("on_crash", "fail", "fail"),
        ("max_crashes", 1, 1),
        ("cancel_grace", 0, 0),
        ("backoff", 5, Steps((5_000,))),
        ("retry_on", ValueError, (ValueError,)),
        ("name", "a.b", "a.b"),
        ("queue", "mail", "mail"),
        ("runs_in", "process", "process"),
        ("version", 2, 2),
        ("delay", "10m", 600_000),
        ("at", WHEN, 1_893_456_000_000),
        ("id", "welcome:42", "welcome:42"),
        ("headers", {"a": "b"}, {"a": "b"}),
        ("correlation_id", "x", "x"),
    ],
)
def test_what_people_write(name: str, written: object, means: object) -> None:
    assert parse_options({name: written}, PARSERS, "here") == {name: means}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("retries", -1), ("retries", True), ("retries", 1.0), ("timeout", 0), ("timeout", "soon"), ("expires", 0),
        ("expires", datetime(2030, 1, 1)), ("on_expire", "die"), ("priority", 10), ("priority", "5"), ("keep", "all"),  # noqa: DTZ001
        ("result", 1), ("on_crash", "retri"), ("max_crashes", 0), ("cancel_grace", -1), ("backoff", "linear"),
        ("retry_on", int), ("name", ""), ("name", "a b"), ("queue", "-x"), ("queue", "x" * 129), ("runs_in", "fiber"),
        ("version", 0), ("upcast", {"1": int}), ("upcast", [1]), ("delay", -1), ("at", "noon"), ("id", ""),
        ("id", "a\nb"), ("id", "x" * 257), ("id", 42), ("headers", {"a": 1}), ("headers", ["a"]),
        ("correlation_id", "x" * 257),
    ],
)  # fmt: skip
def test_what_makes_no_sense_fails_where_it_is_written(name: str, written: object) -> None:
    with pytest.raises(ConfigError, match=r"^task shop\.t: "):
        parse_options({name: written}, PARSERS, "task shop.t")


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [("retrys", TASK_NAMES, "'retries'"), ("quee", CALL_NAMES, "'queue'"), ("dealy", CALL_NAMES, "'delay'")],
)
def test_an_unknown_option_gets_a_suggestion(name: str, names: frozenset[str], hint: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option '{name}' \\(did you mean {hint}\\?\\)"):
        parse_options({name: 1}, names, "here")


def test_options_have_their_places() -> None:
    assert APP_NAMES < QUEUE_NAMES
    assert {"ageing", "max_ready"} == QUEUE_NAMES - TASK_NAMES
    assert PARSERS.keys() == QUEUE_NAMES | TASK_NAMES | CALL_NAMES
    assert {"delay", "at", "id", "headers"}.isdisjoint(TASK_NAMES)
    assert {"retry_on", "give_up_on", "runs_in", "version", "upcast", "name"}.isdisjoint(CALL_NAMES)


# -- layers


def test_without_options_the_defaults_hold() -> None:
    assert resolve("q", {}, {}, {}, {}) == Resolved("q", retry=RetryPolicy(0, Exponential()))


@pytest.mark.parametrize("level", range(4))
def test_call_beats_task_beats_queue_beats_app(level: int) -> None:
    layers = [{"priority": 9 - n, "retries": n} if n >= level else {} for n in range(4)]
    rules = resolve("q", *layers)
    assert (rules.priority, rules.retry.retries) == (9 - level, level)


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"expires": 5_000}, "expires_in", 5_000),
        ({"expires": WHEN}, "expires_at", 1_893_456_000_000),
        ({"on_expire": "fail"}, "expire_to", State.FAILED),
        ({"on_crash": "fail"}, "max_crashes", 1),
        ({"on_crash": "retry", "max_crashes": 5}, "max_crashes", 5),
        ({"on_crash": "fail", "max_crashes": 5}, "max_crashes", 1),
        ({"retry_on": (OSError,)}, "retry", RetryPolicy(retry_on=(OSError,))),
        ({"result": False}, "result", False),
    ],
)
def test_options_become_rules(options: dict[str, Any], field: str, value: object) -> None:
    assert getattr(resolve("q", options, {}, {}, {}), field) == value


def test_retention_is_scoped_by_who_asked_for_it() -> None:
    keep = {"keep": Keep(1)}
    assert resolve("q", keep, keep, keep, {}, "t").keep_done == "1|-1|q"
    assert resolve("q", {}, keep, keep, {}, "t").keep_done == "1|-1|q/t"
    assert resolve("q", {}, {}, keep, {}, "t").keep_done == "1|-1|q"
    assert resolve("q", {}, {}, {}, {}, "t").keep_done == ""
    both = resolve("q", {}, {"keep": Keep(1, failed=Keep(2))}, {}, {}, "t")
    assert (both.keep_done, both.keep_failed) == ("1|-1|q/t", "2|-1|q/t")


def test_what_the_worker_needs_travels_and_nothing_else() -> None:
    given = {
        "retries": 3,
        "timeout": "1m",
        "backoff": Fixed(2),
        "queue": "q",
        "priority": 1,
        "delay": 5,
        "result": False,
    }
    parsed = parse_options(given, CALL_NAMES, "here")
    back = unpack_call(json.loads(json.dumps(pack_call(parsed))))
    assert back.pop("backoff").ms(1, 0.5) == 2_000
    assert back == {"retries": 3, "timeout": 60_000, "result": False}
    assert pack_call({}) == {}


# -- the small values beside them


@given(st.integers(0, (1 << 48) - 2), st.integers(0, (1 << 72) - 1), st.integers(0, (1 << 72) - 1))
def test_ids_sort_by_time_and_are_safe_anywhere(now: int, random: int, other: int) -> None:
    early, late = make_id(now, random), make_id(now + 1, other)
    assert early < late
    assert (early < make_id(now, other)) == (random < other)
    assert re.fullmatch(r"[0-9A-Za-z_~]{20}", early)
    assert check_id(early) == early


def test_ids_differ_by_their_random_bits() -> None:
    assert make_id(1_000, 1) != make_id(1_000, 2)


@pytest.mark.parametrize("name", ["a", "0", "_x", "a.b-c:d/e@f", "x" * 128])
def test_usable_names(name: str) -> None:
    assert check_name("queue", name) == name
    assert check_id(name) == name


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a\n", "ä", "x" * 129, None, 7, "a|b", "*"])
def test_unusable_names(name: object) -> None:
    with pytest.raises(ConfigError, match=r"^queue name .* is not usable"):
        check_name("queue", name)


def test_a_suggestion_is_made_only_when_near() -> None:
    assert did_you_mean("retrys", ["retries", "queue"]) == " (did you mean 'retries'?)"
    assert did_you_mean("zzz", ["retries", "queue"]) == ""


def test_events_unfold_and_resume() -> None:
    entry = Entry(3, 10, [("started", "w", [["a", "t", "q"], ["b", "t", "q", {"x": 1}]]), ("worker_up", "w", [[""]])])
    events = list(expand(entry))
    assert [(event.cursor, event.kind, event.job, event.data) for event in events] == [
        ("3-0", "started", "a", None), ("3-1", "started", "b", {"x": 1}), ("3-2", "worker_up", "", None),
    ]  # fmt: skip
    seq, place = parse_cursor("3-0")
    assert [event.cursor for event in expand(entry, place)] == ["3-1", "3-2"]
    assert (seq, parse_cursor(""), parse_cursor("7")[0]) == (3, (0, -1), 7)
    for wrong in ("x", "-1", "3-", "3-x"):
        with pytest.raises(ConfigError, match="event cursor"):
            parse_cursor(wrong)
    with pytest.raises(ConfigError, match="did you mean 'started'"):
        check_kinds(["startd"])


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as error:
        return error


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_exception_becomes_text() -> None:
    secret = "hunter2"
    info = describe(raised(KeyError("k")))
    assert (info.type, info.message) == ("KeyError", "'k'")
    assert "raise exc" in info.traceback
    assert secret not in info.traceback
    assert describe(ConfigError("x")).type == "windlass.errors.ConfigError"
    said = describe(raised(Mute())).message
    assert said == f"<no message: str() of {__name__}.Mute raised RuntimeError>"


def test_long_texts_keep_their_end() -> None:
    info = describe(raised(ValueError("a" * 10_000 + "the end")))
    assert info.message.endswith("the end")
    assert len(info.message) <= MAX_MESSAGE + 10
    assert len(info.traceback) <= MAX_TRACEBACK + 10


def test_a_fingerprint_follows_the_place_and_not_the_text() -> None:
    one, other = (describe(raised(ValueError(text))).fingerprint for text in ("a", "b"))
    assert one == other
    assert describe(raised(KeyError("a"))).fingerprint != one


@pytest.mark.parametrize(
    ("name", "names", "says"),
    [
        ("time_limit", TASK_NAMES, "(did you mean 'timeout'?)"),
        ("soft_time_limit", CALL_NAMES, "(did you mean 'soft_timeout'?)"),
        ("max_retries", TASK_NAMES, "(did you mean 'retries'?)"),
        ("countdown", CALL_NAMES, "(did you mean 'delay'?)"),
        ("countdown", TASK_NAMES, "(did you mean 'delay'? That is an option of a call)"),
        ("eta", CALL_NAMES, "(did you mean 'at'?)"),
        ("autoretry_for", TASK_NAMES, "(did you mean 'retry_on'?)"),
        ("autoretry_for", CALL_NAMES, "(did you mean 'retry_on'? That is an option of a task or a queue)"),
        ("default_retry_delay", TASK_NAMES, "(did you mean 'backoff'?)"),
        ("rate_limit", TASK_NAMES, "(did you mean 'rate'?)"),
        ("acks_late", TASK_NAMES, "(did you mean 'on_crash'?)"),
        ("bind", TASK_NAMES, "(a task needs no binding: `current()` is the running job)"),
        ("attempts", CALL_NAMES, "(did you mean 'retries'?)"),
        ("removeOnComplete", CALL_NAMES, "(did you mean 'keep'?)"),
        ("jobId", CALL_NAMES, "(did you mean 'id'?)"),
        ("max_tries", TASK_NAMES, "(did you mean 'retries'?)"),
        ("keep_result", TASK_NAMES, "(did you mean 'keep'?)"),
        ("min_backoff", TASK_NAMES, "(did you mean 'backoff'?)"),
        ("job_timeout", CALL_NAMES, "(did you mean 'timeout'?)"),
        ("result_ttl", CALL_NAMES, "(did you mean 'keep'?)"),
        ("ttl", CALL_NAMES, "(did you mean 'expires'?)"),
        ("max_retries", APP_NAMES, "(did you mean 'retries'?)"),
    ],
)
def test_what_others_call_an_option_suggests_ours(name: str, names: frozenset[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({name: 1}, names, "task x")
    assert str(caught.value) == f"task x got an unknown option {name!r} {says}"


def test_every_word_of_others_means_an_option_there_is() -> None:
    known = TASK_NAMES | CALL_NAMES | QUEUE_NAMES | APP_NAMES
    assert set(PEERS.values()) <= known
    assert not PEERS.keys() & known
