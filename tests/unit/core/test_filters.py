"""The filter language: what is read, what fits, and what is said of a word that is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass import ConfigError
from windlass.core.filter_matching import holds
from windlass.core.filter_suggest import suggestions
from windlass.core.filters import LONGEST, NAMES, Either, Filter, FilterError, Span, Term, Wanted, parse_filter, quoted
from windlass.web.filter_bar import chips, picked, with_term

NOW = 1_800_000_000_000


def read(text: str) -> Filter:
    return parse_filter(text, NOW)


class Record:
    """A job as filters look at it."""

    def __init__(self, args: Any = None, tags: tuple[str, ...] = (), error: str = "", **fields: str) -> None:
        self.args, self.tags, self.error = args, tags, error
        self.numbers: dict[str, float | None] = {
            "attempts": 2, "crashes": 0, "priority": 5, "age": 3_600_000, "duration": None, "accepted": NOW - 3_600_000,
        }  # fmt: skip
        self.fields = dict.fromkeys(NAMES, "") | {"state": "failed", "queue": "mail", "task": "mail.send"} | fields

    @property
    def text(self) -> str:
        return f"{self.fields['task']}\n{self.error}\n{self.args!r}".lower()


def fits(text: str, record: Record) -> bool:
    return all(holds(term, record) for term in read(text).parts)


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


# -- not, or, more and less


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("-state:failed", False),
        ("-state:running", True),
        ("NOT queue:mail", False),
        ("-tag:vip", False),
        ("-tag:other -nobody", True),
        ("-args.n:12", False),
        ("args.n:>10", True),
        ("args.n:>12", False),
        ("args.n:>=12", True),
        ("args.n:<12", False),
        ("args.n:10..12", True),
        ("args.n:13..20", False),
        ("args.n:1,>11", True),
        ("args.on:>2026-01-01", True),
        ("args.on:<2026-01-01", False),
        ("args.on:>10", False),
        ("args.ok:>0", False),
        ("attempts:2", True),
        ("attempts:>=3", False),
        ("attempts:1..2", True),
        ("attempts:..1", False),
        ("crashes:0 priority:>4", True),
        ("-age:>2h", True),
        ("duration:>5s", False),
        ("state:running OR queue:mail", True),
        ("state:running OR queue:bill", False),
        ("(state:running OR queue:mail) tag:vip", True),
        ("queue:mail (state:running OR tag:none)", False),
        ("-(state:running OR queue:mail)", False),
        ("state:running AND queue:mail", False),
        ("(queue:mail (tag:none OR attempts:2)) AND -args.n:>20", True),
        ("(since:2h OR queue:bill)", True),
        ("-since:30m", True),
        ("worker:web-1", True),
        ("worker:web-1:4711", True),
        ("worker:web-1:47", False),
        ("worker:web-1-4711-0Q7iAqXjjRPfw4shswgO", True),
        ("worker:web-2:4711", False),
        ("(0Q7iAqXjjRPfw4shswgO)", True),
        ('"  0Q7iAqXjjRPfw4shswgO "', True),
        ("'0Q7iAqXjjRPfw4shswgO',", True),
        ("0Q7iAqXjjRPfw4shswg", False),
        ("https://ops.example.org/windlass/jobs/0Q7iAqXjjRPfw4shswgO?tab=logs", True),
        ("http://127.0.0.1:8787/workflows/0Q7iAqXjjRPfw4shswgO", False),
        ("f(x) :-)", True),
    ],
)
def test_not_or_more_and_less(text: str, yes: bool) -> None:
    args = {"n": 12, "on": "2026-11-01T10:00:00", "ok": True, "say": "f(x) :-)"}
    record = Record(args, ("vip",), id="0Q7iAqXjjRPfw4shswgO", worker="web-1-4711-0Q7iAqXjjRPfw4shswgO")
    assert all(holds(part, record) for part in read(text).parts) is yes


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("state:failed stat:x", "did you mean 'state'", 14),
        ("queue:a state:ready,faild", "did you mean 'failed'", 21),
        ("queue:>3", "queue has no order", 7),
        ("tag:a worker:<=w", "worker has no order", 14),
        ("attempts>=3", "did you mean attempts:>=3", 9),
        ("state=failed", "did you mean state:failed", 6),
        ("state!=failed", "did you mean -state:failed", 6),
        ("args.x>10", "did you mean args.x:>10", 7),
        ("attempts:many", "no whole number", 10),
        ("attempts:-1", "no whole number", 10),
        ("age:yesterday", "no duration", 5),
        ("age:1h", "say more or less: age:>1h or age:<1h", 5),
        ("duration:..", "has no bound", 10),
        ("args.x:>", "nothing stands behind the sign", 8),
        ("x OR", "OR has nothing behind it", 3),
        ("OR x", "OR has nothing before it", 1),
        ("x OR OR y", "OR has nothing before it", 6),
        ("a (b c", "this bracket is not closed", 3),
        ("a ) b", "this bracket closes none", 3),
        ("a ()", "nothing is in these brackets", 3),
        ("a -", "nothing stands behind", 3),
        ("- a", "nothing stands behind", 1),
        ("--a", "nothing stands behind", 1),
        ('x "open', "a quote is not closed", 3),
        ("since:1h until:never", "is no time", 16),
        ("(" * 30 + "a", "more than 20 brackets", 21),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(text: str, says: str, column: int) -> None:
    with pytest.raises(FilterError, match=says) as caught:
        read(text)
    assert caught.value.column == column
    line, mark = caught.value.shown.split("\n")
    assert line == text
    assert mark.startswith(" " * (column - 1) + "^")
    assert f"(column {column})" in str(caught.value)


def test_what_an_index_can_answer_is_told_apart() -> None:
    assert (read("age:>1h").until, read("age:>1h").parts) == (NOW - 3_600_000, ())
    assert (read("age:<=1h").since, read("age:<=1h").parts) == (NOW - 3_600_000, ())
    found = read("age:1h..2h")
    assert (found.since, found.until) == (NOW - 7_200_000, NOW - 3_600_000 + 1)
    (either,) = read("a OR b c").parts
    assert isinstance(either, Either)
    assert [len(branch) for branch in either.branches] == [1, 2]
    (term,) = read("args.x:1..2").terms
    assert term.values == (Wanted("1..2", span=Span(1.0, 2.0)),)


def test_the_selects_leave_alternatives_together() -> None:
    text = with_term("state:failed OR word", "queue", "mail")
    assert text == "(state:failed OR word) queue:mail"
    assert with_term(text, "queue", "bill") == "(state:failed OR word) queue:bill"


# -- suggestions


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", "state:"),
        ("sta", "state:"),
        ("tag:x qu", "tag:x queue:"),
        ("-sta", "-state:"),
        ("(wor", "(worker:"),
        ("state:fa", "state:failed"),
        ("state:failed,ru", "state:failed,running"),
        ("queue:e", "queue:emails"),
        ("-queue:two", '-queue:"two words"'),
        ('queue:"two', 'queue:"two words"'),
    ],
)
def test_what_could_stand_next(text: str, first: str) -> None:
    assert suggestions(text, len(text), {"queue": ["emails", "two words"]})[0].filter == first


def test_a_suggestion_leaves_what_is_behind_the_pen() -> None:
    assert suggestions("sta tag:x", 3, {})[0].filter == "state: tag:x"
    assert suggestions("nothing:x", 9, {}) == []
    assert suggestions("state:failed", 12, {}) == []


@given(st.text(max_size=80), st.integers(0, 80))
def test_no_text_breaks_suggestions(text: str, at: int) -> None:
    for found in suggestions(text, min(at, len(text)), {"queue": ["a"]}):
        assert isinstance(found.filter, str)
