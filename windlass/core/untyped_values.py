"""Values without an annotation. JSON would silently change some of them (bytes to text, sets to lists, other keys to
text): these are refused here, with their place.

With an annotation the decoder restores them; without one the loss would be noticed too late.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

PLAIN = frozenset({str, int, float, bool, type(None)})
_BYTES = (bytes, bytearray, memoryview)
_SETS = (set, frozenset)
_LISTS = (list, tuple)


def is_loose(hint: Any) -> bool:
    """Whether an annotation leaves open what the value is: none, ``Any``, ``list``, ``dict[str, Any]`` and the like."""
    if hint is Any or hint is object or hint in (list, tuple, dict):
        return True
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return is_loose(inner[0])
    if origin is dict:
        return inner[0] in (str, Any) and is_loose(inner[1])
    if origin in (typing.Union, types.UnionType):
        return any(map(is_loose, inner)) and all(item in PLAIN or is_loose(item) for item in inner)
    return origin in _LISTS and all(item is Ellipsis or is_loose(item) for item in inner)


def changed_by_json(value: Any, back: Any, where: str = "") -> str:
    """The first part of a value that JSON changed, and how; empty where there is none. ``back``: what came back.

    Where both are equal there is nothing to look for, and Python itself need look at no part.
    """
    return "" if type(value) in PLAIN or _is_same(value, back) else next(_changed(value, where), "")


def _is_same(value: Any, back: Any) -> bool:
    try:
        return (back == value) is True
    except Exception:  # a class of the user's may do anything when it is compared
        return False


def _changed(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, _BYTES):
        yield f"{where or 'it'} is {type(value).__name__}, which would come back as text"
    elif isinstance(value, _SETS):
        yield f"{where or 'it'} is a {type(value).__name__}, which would come back as a list"
    elif isinstance(value, dict):
        if not set(map(type, value)) <= {str}:
            yield from _bad_keys(value, where)
        if not set(map(type, value.values())) <= PLAIN:
            for key, item in value.items():
                yield from _changed(item, f"{where}[{key!r}]")
    elif isinstance(value, _LISTS) and not set(map(type, value)) <= PLAIN:
        for number, item in enumerate(value):
            yield from _changed(item, f"{where}[{number}]")


def _bad_keys(value: dict[Any, Any], where: str) -> Iterator[str]:
    for key in value:
        if isinstance(key, int | float | bytes):
            yield f"{where or 'it'} has the key {key!r}, which would come back as text"
