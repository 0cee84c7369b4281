"""The filter language: what is read, what fits, and what is said of a word that is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass import ConfigError
from windlass.core.filters import LONGEST, NAMES, Filter, Term, Wanted, holds, parse_filter, quoted
from windlass.web.asking import chips, picked, with_term

NOW = 1_800_000_000_000


def read(text: str) -> Filter:
    return parse_filter(text, NOW)


class Record:
    """A job as filters look at it."""

    def __init__(self, args: Any = None, tags: tuple[str, ...] = (), error: str = "", **fields: str) -> None:
        self.args, self.tags, self.error = args, tags, error
        self.fields = dict.fromkeys(NAMES, "") | {"state": "failed", "queue": "mail", "task": "mail.send"} | fields

    @property
    def text(self) -> str:
        return f"{self.fields['task']}\n{self.error}\n{self.args!r}".lower()


def fits(text: str, record: Record) -> bool:
    return all(holds(term, record) for term in read(text).terms)


# -- reading


def test_a_filter_is_read() -> None:
    found = read('state:failed,running task:mail.* args.user.id:7 since:1h "two words" x\\"y')
    assert found.terms == (
        Term("state", (Wanted("failed"), Wanted("running"))),
        Term("task", (Wanted("mail.*", glob=True),)),
        Term("args", (Wanted("7"),), ("user", "id")),
        Term("text", (Wanted("two words"),)),
        Term("text", (Wanted('x"y'),)),
    )
    assert found.since == NOW - 3_600_000
    assert found.until == 0
    assert read("").terms == ()
    assert read("  \t\n ").terms == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("queue:mail", Wanted("mail")),
        ("QUEUE:mail", Wanted("mail")),
        ('queue:"a b"', Wanted("a b")),
        ('queue:"a*"', Wanted("a*")),
        ("queue:a*", Wanted("a*", glob=True)),
        ("queue:a\\*", Wanted("a*")),
        ("queue:a:b", Wanted("a:b")),
        ('queue:"a,b"', Wanted("a,b")),
        ("queue:a\\,b", Wanted("a,b")),
        ('queue:"a\\"b"', Wanted('a"b')),
    ],
)
def test_one_value(text: str, value: Wanted) -> None:
    (term,) = read(text).terms
    assert term.values == (value,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stat:failed", "did you mean 'state'"),
        ("state:faild", "did you mean 'failed'"),
        ("https://example.org", "goes in quotes"),
        ('"open', "a quote is not closed"),
        ("x\\", "a backslash has nothing behind it"),
        ("queue:", "has no value"),
        ("queue:,", "has no value"),
        ("args:7", "say which argument"),
        ("queue.x:7", "only args has names behind a dot"),
        ("since:yesterday", "is no time"),
        ("since:1h,2h", "takes one time"),
        ("since:*", "takes one time"),
        ("x" * (LONGEST + 1), "at most"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01T10:00+02:00", datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("2026-11-01T10:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC)),
    ],
)
def test_instants(text: str, at: datetime) -> None:
    assert read(f"since:{text}").since == round(at.timestamp() * 1000)
    assert read(f"until:{text}").until == round(at.timestamp() * 1000)


def test_of_several_times_the_narrowest_counts() -> None:
    found = read("since:2h since:1h until:10m until:30m")
    assert (found.since, found.until) == (NOW - 3_600_000, NOW - 1_800_000)


# -- looking


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("queue:mail", True),
        ("queue:mai", False),
        ("queue:bill,mail", True),
        ("queue:m?il", True),
        ("task:*.send", True),
        ("task:MAIL.SEND", False),
        ("tag:vip", True),
        ("tag:v*", True),
        ("tag:vi", False),
        ("error:HOST", True),
        ("error:ValueError*host", True),
        ("error:timeout", False),
        ("args.user.id:7", True),
        ("args.user.id:7.0", False),
        ("args.user.id:8", False),
        ("args.user.name:Ann", True),
        ("args.user.name:A*", True),
        ("args.ok:true", True),
        ("args.none:null", True),
        ("args.ratio:0.5", True),
        ("args.list:2", True),
        ("args.list.0:1", True),
        ("args.list.0:2", False),
        ("args.deep.0.x:1", True),
        ("args.deep.x:1", True),
        ("args.missing:1", False),
        ("args.user:7", False),
        ("Ann", True),
        ("ann send", True),
        ("nobody", False),
        ("queue:mail state:running", False),
    ],
)
def test_looking_at_a_record(text: str, yes: bool) -> None:
    args = {
        "user": {"id": 7, "name": "Ann"}, "ok": True, "none": None, "ratio": 0.5, "list": [1, 2], "deep": [[{"x": 1}]],
    }  # fmt: skip
    assert fits(text, Record(args, ("vip", "beta"), "builtins.ValueError: no such host")) is yes


def test_brackets_are_only_brackets() -> None:
    assert fits("task:a[b]*", Record(task="a[b]c"))
    assert not fits("task:a[b]*", Record(task="abc"))
    assert fits("error:[x]*", Record(error="E: [X] y"))


def test_lists_in_lists_take_no_longer_than_they_are_large() -> None:
    """There are more ways through these than anybody could wait for."""
    value: Any = {"x": 1}
    for _ in range(100):
        value = [value, value] if isinstance(value, dict) else [value]
    assert fits("args." + "0." * 50 + "x:1", Record(value))
    assert not fits("args." + "0." * 50 + "x:2", Record(value))
    for _ in range(5_000):
        value = [value]
    assert not fits("args.x:2", Record(value))


@pytest.mark.parametrize("text", ["*" * 500 + "x", "*a" * 300 + "b", "?" * 1_000])
def test_patterns_take_no_time(text: str) -> None:
    assert not fits(f"task:{text}", Record(task="a" * 2_000))


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), -0.0, 2**63, True])
def test_numbers_of_every_size(value: Any) -> None:
    for text in ("1", "inf", "nan", "-0", str(2**63), "1e400", "9" * 1_500, "x", "\u0661"):
        assert fits(f"args.n:{text}", Record({"n": value})) in (True, False)
    assert fits(f"args.n:{2**63}", Record({"n": 2**63}))


# -- texts and back


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@given(texts)
@example('a"b\\')
@example("a,b")
@example("*?")
@example(" ")
@example("\x85\u2028\u00a0")
def test_a_quoted_value_comes_back_as_it_was(text: str) -> None:
    (term,) = read(f"queue:{quoted(text)}").terms
    assert term == Term("queue", (Wanted(text),))
    assert fits(f"queue:{quoted(text)}", Record(queue=text))


@given(st.lists(texts, min_size=1, max_size=4))
def test_several_values_come_back_in_order(values: list[str]) -> None:
    (term,) = read("task:" + ",".join(map(quoted, values))).terms
    assert [value.text for value in term.values] == values


@given(st.text(max_size=200))
def test_any_text_is_a_filter_or_an_error_that_helps(text: str) -> None:
    try:
        found = read(text)
    except ConfigError as error:
        found, told = Filter(), str(error)
    else:
        told = "filter: "
    assert told.startswith(("filter: ", "a filter is"))
    for term in found.terms:
        assert holds(term, Record({"a": [text]}, (text,), text)) in (True, False)


# -- the filter bar


@given(texts, texts)
def test_a_select_changes_one_word(before: str, after: str) -> None:
    text = with_term(f"queue:{quoted(before)} state:failed word", "queue", after)
    assert picked(read(text)) == {"queue": after, "task": "", "state": "failed"}
    assert with_term(text, "queue", "") == "state:failed word"


def test_chips() -> None:
    found = chips("state:failed word", read("state:failed word"), [])
    assert [chip.text for chip in found if chip.on] == ["Failed"]
    assert found[0].filter == "word"
    assert all(chip.count is None for chip in found)
