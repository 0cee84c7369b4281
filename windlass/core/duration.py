"""Durations and instants as users write them, turned into whole milliseconds.

Numbers are seconds; ``"250ms"``, ``"10m"``, ``"1h 30m"`` and ``timedelta`` work everywhere. Instants are aware
datetimes: a naive one is an error, because nobody can know what it means on another machine.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from windlass.errors import ConfigError

type_names = "a number of seconds, a text such as '250ms', '10m' or '1h 30m', or a timedelta"

_UNITS = {
    "ms": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "w": 604_800_000,
    "week": 604_800_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_MAX = 100 * 365 * 86_400_000

Duration = float | int | str | timedelta


def to_ms(value: object, what: str = "duration") -> int:
    """Whole milliseconds, never negative; ``what`` names the option in the error."""
    if isinstance(value, timedelta):
        ms = value.total_seconds() * 1000
    elif isinstance(value, bool):
        raise ConfigError(f"{what} is {value!r}; give {type_names}")
    elif isinstance(value, (int, float)):
        ms = value * 1000
    elif isinstance(value, str):
        ms = _parse(value, what)
    else:
        raise ConfigError(f"{what} is {value!r}; give {type_names}")
    if not math.isfinite(ms) or ms < 0 or ms > _MAX:
        raise ConfigError(f"{what} is {value!r}; it must be between 0 and 100 years")
    return round(ms)


def _parse(text: str, what: str) -> float:
    total, rest = 0.0, text.strip().lower()
    if not rest:
        raise ConfigError(f"{what} is empty; give {type_names}")
    while rest:
        part = _PART.match(rest)
        unit = part.group(2) if part else ""
        scale = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if part is None or scale is None:
            raise ConfigError(f"{what} is {text!r}; give {type_names}")
        total += float(part.group(1)) * scale
        rest = rest[part.end() :].lstrip(" ,")
    return total


def instant_ms(value: object, what: str = "at") -> int:
    """An aware datetime as milliseconds since the epoch."""
    if not isinstance(value, datetime):
        raise ConfigError(f"{what} is {value!r}; give a datetime with a time zone")
    if value.tzinfo is None:
        raise ConfigError(f"{what} is the naive datetime {value.isoformat()}; say which zone, e.g. tzinfo=UTC")
    return round(value.timestamp() * 1000)


def from_ms(ms: int | None) -> datetime | None:
    """The aware UTC datetime of a stored instant; 0 and None mean 'never'."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None


def show_ms(ms: int) -> str:
    """A duration for people: ``'1.5s'``, ``'2m 30s'``, ``'3h'``."""
    if ms < 1000:
        return f"{ms}ms"
    if ms < 60_000:
        return f"{ms / 1000:.3g}s"
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
