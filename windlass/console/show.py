"""Makes values of users fit to be shown: redacted, bounded, and text whatever they are. Nothing in them is trusted.

A payload may be a megabyte, nested a hundred thousand levels deep, or no JSON at all: none of that is an error here.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.console.replies import Value
from windlass.core.access import Access

MOST_TEXT = 65_536
"""Characters of a value that are shown unless the whole is asked for."""

LINE = 160
"""Characters of a value in a list."""

INDENTED = 262_144
DEEPEST = 40
"""A larger or deeper value is shown as it is stored: indenting it could make it a thousand times as large."""

HIDDEN = Value(hidden=True)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029), " ")


def value(access: Access, data: bytes | None, whole: bool = False) -> Value:
    """A stored value for a page. ``whole``: it is not cut."""
    if data is None:
        return Value()
    if "values" not in access.rights:
        return Value(size=len(data), hidden=True)
    shown = cleaned(access, data)
    if shown is None:
        return Value(size=len(data), hidden=True)
    text = to_text(indented(shown))
    most = len(text) if whole else MOST_TEXT
    return Value(text=text[:most], size=len(data), cut=len(text) > most)


def line(access: Access, data: bytes | None, most: int = LINE) -> str:
    """The beginning of a stored value on one line."""
    if data is None or "values" not in access.rights:
        return ""
    if access.redact:
        shown = cleaned(access, data) if len(data) <= MOST_TEXT else None
        data = b"" if shown is None else shown
        if not data:
            return "…"
    return one_line(to_text(data[: 4 * most]), most, more=len(data) > 4 * most)


def cleaned(access: Access, data: bytes) -> bytes | None:
    """The value without its hidden parts; None if these cannot be told apart, so that all of it is hidden."""
    if not access.redact:
        return data
    try:
        return msgspec.json.encode(access.clean(msgspec.json.decode(data)))
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        return None


def decoded(access: Access, data: bytes | None) -> Any:
    """The value as plain kinds with its hidden parts removed; None if it cannot be read."""
    if data is None:
        return None
    try:
        return access.clean(msgspec.json.decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def indented(data: bytes) -> bytes:
    """The JSON with line breaks, if it is JSON and not too deep."""
    if len(data) > INDENTED or depth(data) > DEEPEST:
        return data
    try:
        return msgspec.json.format(data, indent=2)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data


def depth(data: bytes) -> int:
    """How deep the brackets nest; brackets in strings do not count."""
    level = deepest = 0
    for bracket in _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS):
        level += 1 if bracket in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


def to_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def safe(text: str) -> str:
    """Text that every encoder takes: halves of surrogate pairs are replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, most: int = LINE, more: bool = False) -> str:
    """Text on one line, cut."""
    flat = safe(text[: most + 1]).translate(_CONTROLS)
    return flat if len(flat) <= most and not more else flat[: most - 1] + "…"
