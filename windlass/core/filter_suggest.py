"""Suggestions for a filter while it is being written: which word the cursor is in, and what fits there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.filters import NAMES, quoted
from windlass.core.job import State

MOST = 12

_BEFORE = re.compile(r'(?:^|[\s(])-?((?:"(?:[^"\\]|\\.)*"|\\.|[^\s"\\()])*(?:"(?:[^"\\]|\\.)*)?)$', re.DOTALL)
_NAMED = re.compile(r"([A-Za-z_]+)((?:\.[^\s:.\"\\]+)*):(?:.*,)?", re.DOTALL)


class Pen(NamedTuple):
    """Where the user is writing: ``written`` is the begun part of a name, or of a value of ``name``; ``start``: where
    it begins.
    """

    name: str
    written: str
    start: int


class Suggestion(msgspec.Struct, frozen=True):
    """``filter``: the whole filter with the suggested word in it; ``means``: what that word is."""

    filter: str
    means: str = ""


def pen_of(text: str, at: int) -> Pen:
    """The word that ends at the cursor."""
    found = _BEFORE.search(text[:at])
    if found is None:
        return Pen("", "", at)
    word, start = found[1], found.start(1)
    named = _NAMED.match(word)
    if named is None:
        return Pen("", word, start)
    return Pen(named[1].lower(), word[named.end() :].lstrip('"'), start + named.end())


def suggestions(text: str, at: int, known: Mapping[str, Iterable[str]]) -> list[Suggestion]:
    """What fits at the cursor, the best first. ``known``: values by name; the states are known here."""
    pen = pen_of(text, at)
    before, behind = text[: pen.start], text[at:]
    if not pen.name:
        found = [(f"{name}{'.' if name == 'args' else ':'}", means) for name, means in NAMES.items()]
    elif pen.name == "state":
        found = [(state.value, "") for state in State]
    else:
        found = [(quoted(value), "") for value in known.get(pen.name, ())]
    return [
        Suggestion(f"{before}{word}{behind}", means)
        for word, means in _fitting(found, pen.written.lower())
        if word.lower() != pen.written.lower()
    ]


def _fitting(words: Sequence[tuple[str, str]], written: str) -> list[tuple[str, str]]:
    """The words that contain what was written; those that begin with it come first."""
    begin = [each for each in words if each[0].lower().lstrip('"').startswith(written)]
    within = [each for each in words if written and each not in begin and written in each[0].lower()]
    return [*begin, *within][:MOST]
