"""Options of flow control: what people write, what is refused, and the terms a call gets from it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow_rules import Asked, FlowRules, FromArguments, fit, key_text, make_flow, make_terms, unique_key
from windlass.core.limits import Rate, parse_rate
from windlass.core.options import PARSERS, parse_options, resolve
from windlass.core.terms import UNIQUE_MAX, Policy, Terms
from windlass.errors import ConfigError, PayloadError

NIL = UUID(int=0)


@pytest.mark.parametrize(
    ("name", "written", "means"),
    [
        ("rate", "10/m", parse_rate("10/m")),
        ("rate", None, Rate(0, 0)),
        ("rate", Rate(5, 2), Rate(5, 2)),
        ("limit", 3, 3),
        ("limit", None, 0),
        ("key", "vip", "vip"),
        ("key", 42, "42"),
        ("key", NIL, str(NIL)),
        ("key", ["a", "b"], ("a", "b")),
        ("key", None, ""),
        ("key_limit", 2, 2),
        ("key_rate", "5/s", parse_rate("5/s")),
        ("ordered", True, True),
        ("seq", 1, 1),
        ("gap_timeout", "30s", 30_000),
        ("gap_timeout", 0, 0),
        ("units", 5, 5),
        ("unique", True, True),
        ("unique", False, False),
        ("unique", None, False),
        ("unique", ("order",), ("order",)),
        ("unique", 42, "42"),
        ("unique_policy", "debounce", "debounce"),
        ("unique_for", "5m", 300_000),
        ("debounce_max", 60, 60_000),
        ("ageing", "1m", 60_000),
        ("ageing", None, 0),
        ("max_ready", 100, 100),
        ("max_ready", None, 0),
        ("when_full", "drop_oldest", "drop_oldest"),
        ("full_timeout", 0, 0),
        ("breaker", "stripe", "stripe"),
        ("breaker", None, ""),
        ("batch", 100, 100),
        ("batch_wait", "250ms", 250),
    ],
)
def test_what_people_write(name: str, written: object, means: object) -> None:
    assert parse_options({name: written}, PARSERS, "here") == {name: means}


async def later(order: int) -> str:
    return str(order)


def by_place(order: int, /) -> str:
    return str(order)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("rate", "often"), ("rate", 10), ("rate", "0/s"), ("limit", 0), ("limit", True), ("limit", "3"), ("key", True),
        ("key", ""), ("key", []), ("key", [1]), ("key", {"a": 1}), ("key", later), ("key", by_place), ("key_limit", 0),
        ("key_rate", "fast"), ("ordered", 1), ("seq", 0), ("seq", True), ("gap_timeout", None), ("units", 0),
        ("units", 1.5), ("units", 1_000_001), ("unique", {"a"}), ("unique_policy", "first"), ("unique_for", 0),
        ("debounce_max", -1), ("ageing", 0), ("max_ready", 0), ("when_full", "explode"), ("full_timeout", None),
        ("breaker", "no good"), ("batch", 1), ("batch", 1_001), ("batch_wait", "soon"),
    ],
)  # fmt: skip
def test_what_is_refused_says_where_and_what(name: str, written: object) -> None:
    with pytest.raises(ConfigError, match=rf"^task shop\.t: {name} (is|name)"):
        parse_options({name: written}, PARSERS, "task shop.t")


# -- terms


def terms(options: dict[str, Any], arguments: dict[str, Any] | None = None, task: str = "t") -> Terms | None:
    """What a call of a task with these options, and these bound arguments, gets."""
    flow = make_flow(parse_options(options, PARSERS, "here"))
    assert flow is not None
    bind: Callable[[], dict[str, Any]] | None = None if arguments is None else partial(dict, arguments)
    return make_terms(flow, Asked(task, b'{"x":1}', bind))


def test_nothing_said_means_no_terms() -> None:
    assert make_flow({"retries": 3, "rate": Rate(1), "limit": 5, "full_timeout": 3}) is None
    assert resolve("q", {"retries": 3}, {"limit": 3}, {}, {}).flow is None


@pytest.mark.parametrize(
    "options",
    [
        {"key": None}, {"unique": False}, {"gap_timeout": 5}, {"key_limit": 3}, {"key_rate": "5/s"}, {"units": 1},
        {"unique_for": 5}, {"unique_policy": "replace"}, {"when_full": "wait"}, {"when_full": "reject"},
        {"max_ready": None}, {"ordered": False}, {"breaker": None}, {"ageing": None},
    ],
)  # fmt: skip
def test_what_comes_to_nothing_costs_the_job_nothing(options: dict[str, Any]) -> None:
    assert terms(options) is None


def test_every_option_has_its_place_in_the_terms() -> None:
    options: dict[str, Any] = {
        "key": "k", "key_limit": 2, "key_rate": "5/s", "ordered": True, "seq": 7, "gap_timeout": 9, "units": 3,
        "unique": "u", "unique_policy": "replace", "unique_for": "10s", "debounce_max": "1m", "ageing": "2s",
        "max_ready": 10, "when_full": "drop_oldest", "breaker": "b", "batch": 5,
    }  # fmt: skip
    assert terms(options) == Terms(
        key="k", key_limit=2, key_rate=parse_rate("5/s"), ordered=True, seq=7, gap=9_000, units=3, unique="t:u",
        policy=Policy.REPLACE, window=10_000, ageing=2_000, max_ready=10, drop_oldest=True, breaker="b", batch=True,
    )  # fmt: skip


def test_a_rate_switched_off_is_none() -> None:
    assert terms({"key": "k", "key_rate": None, "key_limit": None}) == Terms(key="k")


@pytest.mark.parametrize(
    ("written", "arguments", "key"),
    [
        (["customer"], {"customer": 7, "n": 1}, "7"),
        (["customer", "n"], {"customer": "a", "n": 1}, '["a","1"]'),
        (lambda customer: customer * 2, {"customer": 7, "n": 1}, "14"),
        (lambda customer, **_: customer, {"customer": NIL, "n": 1}, str(NIL)),
        (lambda n, m=5: n + m, {"customer": 7, "n": 1}, "6"),
        (lambda **all: all["n"], {"customer": 7, "n": 1.5}, "1.5"),
        (lambda: "same", {"n": 1}, "same"),
    ],
)
def test_a_key_of_the_arguments(written: object, arguments: dict[str, Any], key: str) -> None:
    made = terms({"key": written}, arguments)
    assert made is not None
    assert made.key == key


def test_units_of_the_arguments() -> None:
    made = terms({"units": lambda rows: len(rows)}, {"rows": [1, 2, 3]})
    assert made == Terms(units=3)
    for bad in (0, 1.5, True, None):
        with pytest.raises(PayloadError, match=r"task t: units came to .* whole number"):
            terms({"units": lambda bad=bad: bad}, {})


def unique(options: dict[str, Any], arguments: dict[str, Any] | None, task: str = "t") -> str:
    made = terms(options, arguments, task)
    assert made is not None
    return made.unique


def test_unique_by_all_arguments() -> None:
    one = unique({"unique": True}, {"a": 1, "b": {"x": 1, "y": 2}})
    assert one == unique({"unique": True}, {"b": {"y": 2, "x": 1}, "a": 1}), "the order in which they come is nothing"
    assert one != unique({"unique": True}, {"a": 1, "b": {"x": 1, "y": 3}})
    assert one != unique({"unique": True}, {"a": 1, "b": {"x": 1, "y": 2}}, "other"), "tasks do not share keys"
    assert unique({"unique": True}, None).startswith("t:"), "a call by name has its payload"
    with pytest.raises(PayloadError, match=r"task t: unique=True: .* name some"):
        unique({"unique": True}, {"a": object()})


def test_unique_by_names_function_and_value() -> None:
    assert unique({"unique": ["order"]}, {"order": 5, "n": 1}) == "t:5"
    assert unique({"unique": ["a", "b"]}, {"a": None, "b": {"x": [1]}}) == 't:["null","{\\"x\\":[1]}"]'
    assert unique({"unique": lambda order: order}, {"order": "x"}) == "t:x"
    assert unique({"unique": "nightly"}, None) == unique_key("t", "nightly") == "t:nightly"


def test_policies() -> None:
    assert terms({"unique": "u", "unique_policy": "keep", "unique_for": 5}) == Terms(unique="t:u", window=5_000)
    assert terms({"unique": "u", "unique_policy": "throttle", "unique_for": 5}) == Terms(unique="t:u", window=5_000)
    debounced = terms({"unique": "u", "unique_policy": "debounce", "unique_for": 5, "debounce_max": 60})
    assert debounced == Terms(unique="t:u", policy=Policy.DEBOUNCE, most=60_000), "the quiet time is its delay"
    for policy in ("throttle", "debounce"):
        with pytest.raises(ConfigError, match=f"task t: unique_policy='{policy}' needs unique_for"):
            terms({"unique": "u", "unique_policy": policy})


@pytest.mark.parametrize(
    ("options", "arguments", "error", "text"),
    [
        ({"ordered": True}, {}, ConfigError, "task t: ordered=True needs a key="),
        ({"seq": 3}, {}, ConfigError, "task t: seq=3 needs a key="),
        ({"key": ["customr"]}, {"customer": 1}, ConfigError, r"task t: key names 'customr'.*did you mean 'customer'"),
        ({"key": ["a"]}, None, ConfigError, "task t: key depends on the arguments.*give this call a value: key="),
        ({"unique": lambda a: a}, None, ConfigError, "task t: unique depends on the arguments"),
        ({"key": ["a"]}, {"a": None}, PayloadError, "task t: key is argument 'a', which is None; give a text"),
        ({"key": ["a"]}, {"a": ""}, PayloadError, "task t: key is argument 'a', which is an empty text"),
        ({"key": lambda a: [a]}, {"a": 1}, PayloadError, r"task t: key came to \[1\]; give a text"),
        ({"key": lambda a: a["b"]}, {"a": {}}, PayloadError, "task t: the function for key raised KeyError: 'b'"),
        ({"unique": lambda a: True}, {"a": 1}, PayloadError, "task t: unique came to True"),
        ({"units": lambda a: 1 / a}, {"a": 0}, PayloadError, "task t: the function for units raised ZeroDivision"),
    ],
)
def test_a_call_that_cannot_be_placed_says_which_task_and_option(
    options: dict[str, Any], arguments: dict[str, Any] | None, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        terms(options, arguments)


def test_what_holds_of_a_full_queue() -> None:
    assert resolve("q", {}, {}, {}, {}).full_wait == 30_000
    assert resolve("q", {"full_timeout": 5}, {}, {"full_timeout": 7}, {}).full_wait == 5
    for said in ("reject", "drop_oldest"):
        assert resolve("q", {}, {"when_full": said}, {"when_full": "wait"}, {}).full_wait == 0


def test_layers() -> None:
    rules = resolve(
        "q", {"key": "call"}, {"key": ("a",), "key_limit": 2}, {"key_limit": 9, "max_ready": 5}, {"ageing": 7}
    )
    assert rules.flow == FlowRules(key="call", key_limit=2, max_ready=5, ageing=7)


# -- keys


class Colour(StrEnum):
    RED = "red"


def test_texts_of_keys() -> None:
    assert [key_text(value, "k") for value in ("a", 1, 1.5, NIL, Decimal("1.50"), Colour.RED)] == [
        "a", "1", "1.5", str(NIL), "1.50", "red",
    ]  # fmt: skip


@given(st.text(min_size=1))
def test_keys_fit_every_engine(text: str) -> None:
    made = fit(text)
    assert 0 < len(made) <= UNIQUE_MAX
    assert made.isprintable()
    assert made.encode()
    assert (made == text) == (text.isprintable() and len(text) <= UNIQUE_MAX)


def test_long_keys_stay_different() -> None:
    assert fit("x" * 300) != fit("x" * 301)
    assert fit("a\nb") != fit("ab")
    assert fit("x" * 300).startswith("x" * 100 + "~")


def test_a_function_is_asked_for_what_it_names() -> None:
    parsed = parse_options({"key": lambda a, b=1: a}, PARSERS, "here")["key"]
    assert isinstance(parsed, FromArguments)
    assert (parsed.names, parsed.required) == (("a", "b"), ("a",))
