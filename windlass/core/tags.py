"""Tags: short texts that jobs are found by. Users write some; others are made of arguments. They change nothing about
running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from windlass.errors import ConfigError

MOST, LONGEST = 20, 100
"""Tags of one job, and characters of one."""


def parse_tags(value: object, what: str) -> tuple[str, ...]:
    """One text or a list of them; None is none."""
    found = _texts(value, what)
    for tag in found:
        if len(tag) > LONGEST or not tag.isprintable():
            raise ConfigError(f"{what} has {tag!r}; a tag has at most {LONGEST} printable characters")
    return found


def parse_search(value: object, what: str) -> tuple[str, ...]:
    """Read a ``search`` option: names of arguments."""
    return _texts(value, what)


def _texts(value: object, what: str) -> tuple[str, ...]:
    given = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple | set | frozenset) or not all(
        text and isinstance(text, str) for text in given
    ):
        raise ConfigError(f"{what} is {value!r}; give a list of texts")
    if len(given) > MOST:
        raise ConfigError(f"{what} has {len(given)}; at most {MOST} are allowed")
    return tuple(dict.fromkeys(given))


def make_tags(tags: Sequence[str], search: Sequence[str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags of one call: those written, and ``name:value`` for each searched argument that is a short value."""
    made = [f"{name}:{text}" for name in search if (text := _text(arguments.get(name)))]
    return tuple(dict.fromkeys([*tags, *made]))[:MOST]


def _text(value: object) -> str:
    plain = value.value if isinstance(value, Enum) else value
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if not isinstance(plain, str | int | float | Decimal | UUID):
        return ""
    return "".join(char if char.isprintable() else " " for char in str(plain)[:LONGEST])
