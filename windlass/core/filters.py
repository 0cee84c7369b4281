"""The filter language: one line of text that says which jobs, as it stands in an address bar.

``state:failed,running task:mail.* args.user.id:7 since:1h timeout`` means: each of these holds; a comma means or; a
word without a name is looked for in arguments, errors and task names. Pure: time comes in, and records are looked at by
who asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec

from windlass.core.duration import to_ms
from windlass.core.hints import did_you_mean
from windlass.core.job import State
from windlass.errors import ConfigError

LONGEST = 2_000
"""Characters of a filter."""

NAMES = {
    "state": "waiting, scheduled, ready, running, succeeded, failed, cancelled or skipped",
    "queue": "the queue",
    "task": "the task's name",
    "key": "the key of its lane",
    "tag": "one of its tags",
    "worker": "the worker that runs it",
    "workflow": "the id of its workflow",
    "schedule": "the schedule that made it",
    "id": "its id",
    "fingerprint": "the fault, as dead letters are grouped by it",
    "error": "part of the type or message of its error",
    "since": "accepted at or after: 1h (ago), or 2026-11-01T10:00 (UTC unless it says otherwise)",
    "until": "accepted before: the same",
    "args": "an argument, as in args.user.id:7",
}
"""What a filter can ask, with what it means."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\])+', re.DOTALL)
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:\\.|[^",\\])+)', re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]+)((?:\.[^\s:.\"\\]+)*):")


class Wanted(msgspec.Struct, frozen=True):
    """One value asked for. ``glob``: ``*`` and ``?`` stand for anything; never in quotes."""

    text: str
    glob: bool = False

    def fits(self, text: str) -> bool:
        return _like(text, self.text) if self.glob else text == self.text


class Term(msgspec.Struct, frozen=True):
    """A name and what it may be: any of the values. The name ``text`` is of bare words; ``path`` is of ``args``."""

    name: str
    values: tuple[Wanted, ...]
    path: tuple[str, ...] = ()

    @property
    def exact(self) -> str:
        """The one value it asks for, empty where it is no such term."""
        return self.values[0].text if len(self.values) == 1 and not self.values[0].glob else ""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Every term must hold. ``since`` and ``until`` are instants, 0 for none."""

    text: str = ""
    terms: tuple[Term, ...] = ()
    since: int = 0
    until: int = 0


class Subject(Protocol):
    """What a filter looks at in a record."""

    @property
    def fields(self) -> dict[str, str]:
        """``state``, ``queue``, ``task``, ``key``, ``worker``, ``workflow``, ``schedule``, ``id``, ``fingerprint``."""

    @property
    def tags(self) -> tuple[str, ...]:
        """All its tags."""

    @property
    def error(self) -> str:
        """Type and message."""

    @property
    def args(self) -> Any:
        """Plain JSON values."""

    @property
    def text(self) -> str:
        """Arguments, error and task as one text, in lower case."""


# -- reading a filter


def parse_filter(text: str, now: int) -> Filter:
    """A filter, or a ConfigError that says which word is wrong."""
    if len(text) > LONGEST:
        raise ConfigError(f"a filter is a text of at most {LONGEST:,} characters")
    terms: list[Term] = []
    times = {"since": 0, "until": 0}
    for word in _words(text):
        term = _term(word)
        if term.name in times:
            instant = _instant(term, now)
            known, pick = times[term.name], max if term.name == "since" else min
            times[term.name] = pick(known, instant) if known else instant
        else:
            terms.append(term)
    return Filter(text=text.strip(), terms=tuple(terms), since=times["since"], until=times["until"])


def _words(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        found = _WORD.match(text, place)
        if found is None:
            what = "a quote is not closed" if text[place] == '"' else "a backslash has nothing behind it"
            raise ConfigError(f"filter: {what}, at {text[place : place + 20]!r}")
        place = found.end()
        yield found[0]


def _term(word: str) -> Term:
    named = _NAME.match(word)
    if named is None:
        return Term("text", (Wanted(_plain(word)),))
    name, path = named[1].lower(), tuple(named[2].split(".")[1:])
    if name not in NAMES:
        raise ConfigError(
            f"filter: there is no {name!r}{did_you_mean(name, NAMES)}; there are {', '.join(NAMES)}. "
            f'Text with a colon goes in quotes: "{word}"'
        )
    if path and name != "args":
        raise ConfigError(f"filter: {named[0]!r}: only args has names behind a dot, as in args.user.id:7")
    if name == "args" and not path:
        raise ConfigError("filter: say which argument, as in args.user.id:7; a word alone looks in all of them")
    values = tuple(_values(word[named.end() :]))
    if not values:
        raise ConfigError(f"filter: {named[0]!r} has no value: {NAMES[name]}")
    return Term(name, _states(values) if name == "state" else values, path)


def _values(text: str) -> Iterator[Wanted]:
    for quoted, bare in _PIECE.findall(text):
        if bare:
            glob = ("*" in bare or "?" in bare) and "\\" not in bare
            yield Wanted(_unescaped(bare), glob)
        else:
            yield Wanted(_unescaped(quoted))


def _states(values: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
    known = [state.value for state in State]
    for value in values:
        if value.text not in known:
            raise ConfigError(
                f"filter: there is no state {value.text!r}{did_you_mean(value.text, known)}; one of {', '.join(known)}"
            )
    return values


def _plain(word: str) -> str:
    """A bare word, in quotes or not."""
    return "".join(
        _unescaped(part[1:-1] if part.startswith('"') else part)
        for part in re.findall(r'"(?:[^"\\]|\\.)*"|(?:\\.|[^"\\])+', word, re.DOTALL)
    )


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _instant(term: Term, now: int) -> int:
    text = term.exact
    if not text:
        raise ConfigError(f"filter: {term.name} takes one time: {NAMES[term.name]}")
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return max(now - to_ms(text, term.name), 1)
        except ConfigError:
            raise ConfigError(f"filter: {term.name}:{text} is no time; {NAMES[term.name]}") from None
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(round(aware.timestamp() * 1000), 1)


def quoted(text: str) -> str:
    """A value as it can stand behind a name in a filter."""
    if text and not re.search(r'[\s",\\*?]', text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- looking at a record


def holds(term: Term, subject: Subject) -> bool:
    """Whether a record is as one term says."""
    return any(_LOOKS.get(term.name, _field)(term, wanted, subject) for wanted in term.values)


def _field(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return wanted.fits(subject.fields[term.name])


def _like(text: str, pattern: str) -> bool:
    """``*`` and ``?`` stand for anything; brackets are only brackets."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def _tag(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return any(wanted.fits(tag) for tag in subject.tags)


def _error(term: Term, wanted: Wanted, subject: Subject) -> bool:
    if wanted.glob:
        return _like(subject.error.lower(), f"*{wanted.text.lower()}*")
    return wanted.text.lower() in subject.error.lower()


def _text(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return wanted.text.lower() in subject.text


def _argument(term: Term, wanted: Wanted, subject: Subject) -> bool:
    try:
        return any(_same(wanted, found) for found in _at(subject.args, term.path, set()))
    except RecursionError:  # lists in lists in lists
        return False


_LOOKS: dict[str, Callable[[Term, Wanted, Subject], bool]] = {
    "tag": _tag,
    "error": _error,
    "text": _text,
    "args": _argument,
}


def _at(value: Any, path: tuple[str, ...], been: set[tuple[int, int]]) -> Iterator[Any]:
    """What is at a path; in a list, of every item or of the one with that number.

    ``been``: lists that were looked into with that much of the path left. Without it, lists in lists would be looked
    into once for every way through them.
    """
    if isinstance(value, list):
        if (id(value), len(path)) in been:
            return
        been.add((id(value), len(path)))
        if path and path[0].isdecimal() and int(path[0]) < len(value):
            yield from _at(value[int(path[0])], path[1:], been)
        for each in value[:MOST_ITEMS]:
            yield from _at(each, path, been)
    elif not path:
        yield value
    elif isinstance(value, dict) and path[0] in value:
        yield from _at(value[path[0]], path[1:], been)


MOST_ITEMS = 1_000
"""Items of a list that are looked at."""


def _same(wanted: Wanted, value: Any) -> bool:
    """Texts as they are; all else as its JSON is written."""
    if isinstance(value, str):
        return wanted.fits(value)
    if isinstance(value, bool) or value is None:
        return wanted.text == {True: "true", False: "false", None: "null"}[value]
    return isinstance(value, int | float) and _is_number(wanted.text, value)


def _is_number(text: str, value: float) -> bool:
    try:
        return int(text) == value if isinstance(value, int) else float(text) == value
    except (ValueError, OverflowError):
        return False
