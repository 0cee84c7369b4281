"""Celery's rate limits as Windlass's rates. They hold for all workers together, not for each."""

from __future__ import annotations

from typing import Any

from windlass.celery.exceptions import ImproperlyConfigured
from windlass.core.limits import parse_rate
from windlass.errors import ConfigError

_PERIODS = {"s": 1, "m": 60, "h": 3600}


def rate_of(value: Any, what: str) -> str | None:
    """``"10/m"``, ``"0.5/s"``, ``10`` and ``"10"`` (a second) as a rate; None for none: ``None``, 0 and ``"0"``."""
    if value is None:
        return None
    count, slash, period = str(value).strip().partition("/")
    try:
        number = float(count)
        if isinstance(value, bool) or number < 0 or (slash and period not in _PERIODS):
            raise ValueError
        if number == 0:
            return None
        seconds = _PERIODS[period or "s"]
        rate = f"{int(number)}/{period or 's'}" if number.is_integer() else f"1/{round(seconds * 1000 / number)}ms"
        parse_rate(rate)
    except (ValueError, OverflowError, ConfigError):
        raise ImproperlyConfigured(
            f"{what} is {value!r}; give a text such as '10/s', '100/m' or '1000/h', or a number a second"
        ) from None
    return rate
