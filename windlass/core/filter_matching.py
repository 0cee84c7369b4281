"""Applies a filter to a record: whether each part of the filter holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Protocol

from windlass.core.filters import Part, Span, Term, Wanted

MOST_ITEMS = 1_000
"""Items of a list that are looked at."""


class Subject(Protocol):
    """What a filter looks at in a record."""

    @property
    def fields(self) -> dict[str, str]:
        """``state``, ``queue``, ``task``, ``key``, ``worker``, ``workflow``, ``schedule``, ``id``, ``fingerprint``."""

    @property
    def numbers(self) -> dict[str, float | None]:
        """``attempts``, ``crashes``, ``priority``; ``age`` and ``duration`` in ms; ``accepted``, an instant."""

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


def holds(part: Part, subject: Subject) -> bool:
    """Whether a record is as one part says."""
    if isinstance(part, Term):
        look = _LOOKS.get(part.name, _field)
        found = any(look(part, wanted, subject) for wanted in part.values)
    else:
        found = any(all(holds(each, subject) for each in branch) for branch in part.branches)
    return found is not part.negated


def _field(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return _fits(wanted, subject.fields[term.name])


def _fits(wanted: Wanted, text: str) -> bool:
    return _like(text, wanted.text) if wanted.glob else text == wanted.text


def _like(text: str, pattern: str) -> bool:
    """``*`` and ``?`` stand for anything; brackets are only brackets."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def _tag(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return any(_fits(wanted, tag) for tag in subject.tags)


def _worker(term: Term, wanted: Wanted, subject: Subject) -> bool:
    """By its id HOST-PID-…, the beginning of one, or HOST:PID as lists show it."""
    worker = subject.fields["worker"]
    if wanted.glob:
        return _like(worker, wanted.text)
    host, colon, pid = wanted.text.rpartition(":")
    if colon and pid.isdecimal():
        return worker.startswith(f"{host}-{pid}-")
    return bool(wanted.text) and worker.startswith(wanted.text)


def _error(term: Term, wanted: Wanted, subject: Subject) -> bool:
    if wanted.glob:
        return _like(subject.error.lower(), f"*{wanted.text.lower()}*")
    return wanted.text.lower() in subject.error.lower()


def _text(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return wanted.text.lower() in subject.text or _ident(term, wanted, subject)


def _ident(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return pasted(wanted.text) in (subject.fields["id"], subject.fields["workflow"])


def pasted(text: str) -> str:
    """An id as it was copied from somewhere, without what was copied along."""
    return text.strip(" \t\r\n\v\f\u00a0'\"`<>,;()[]")


def _number(term: Term, wanted: Wanted, subject: Subject) -> bool:
    value = subject.numbers[term.name]
    return value is not None and wanted.span is not None and _within(wanted.span, value)


def _since(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return (subject.numbers["accepted"] or 0) >= int(wanted.text)


def _until(term: Term, wanted: Wanted, subject: Subject) -> bool:
    return not _since(term, wanted, subject)


def _argument(term: Term, wanted: Wanted, subject: Subject) -> bool:
    try:
        return any(_same(wanted, found) for found in _at(subject.args, term.path, set()))
    except RecursionError:  # lists in lists in lists
        return False


_LOOKS: dict[str, Callable[[Term, Wanted, Subject], bool]] = {
    "tag": _tag,
    "worker": _worker,
    "error": _error,
    "text": _text,
    "ident": _ident,
    "args": _argument,
    "since": _since,
    "until": _until,
    **dict.fromkeys(("attempts", "crashes", "priority", "age", "duration"), _number),
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


def _same(wanted: Wanted, value: Any) -> bool:
    """Texts as they are; all else as its JSON is written."""
    if wanted.span is not None:
        return isinstance(value, str | int | float) and not isinstance(value, bool) and _within(wanted.span, value)
    if isinstance(value, str):
        return _fits(wanted, value)
    if isinstance(value, bool) or value is None:
        return wanted.text == {True: "true", False: "false", None: "null"}[value]
    return isinstance(value, int | float) and _is_number(wanted.text, value)


def _within(span: Span, value: float | str) -> bool:
    """Numbers lie between numbers and texts between texts; nothing lies between others."""
    low, high = span.low, span.high
    if isinstance(value, str):
        return _between(span, value, low, high) if not isinstance(low, float) and not isinstance(high, float) else False
    return _between(span, value, low, high) if not isinstance(low, str) and not isinstance(high, str) else False


def _between(span: Span, value: Any, low: Any, high: Any) -> bool:
    if low is not None and not (value > low if span.open_low else value >= low):
        return False
    return high is None or bool(value < high if span.open_high else value <= high)


def _is_number(text: str, value: float) -> bool:
    try:
        return int(text) == value if isinstance(value, int) else float(text) == value
    except (ValueError, OverflowError):
        return False
