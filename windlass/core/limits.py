"""Limits: how many units at once, and how often. Values and the arithmetic of every gate; engines keep the numbers.

A rate is a GCRA: one number per gate, the *theoretical arrival time* (TAT), holds its whole state. It is exact and
needs no timer. Instants and intervals of rates are whole microseconds on the store's clock.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

import msgspec

from windlass.core.duration import to_ms
from windlass.errors import ConfigError

_RATE = re.compile(r"\s*(\d+)\s*/\s*(\d*\s*[a-z][a-z0-9 .]*?)\s*(?:,?\s*burst\s+(\d+)\s*)?", re.IGNORECASE)
MOST = 1_000_000


class Rate(msgspec.Struct, frozen=True, array_like=True):
    """One unit every ``every`` microseconds, up to ``burst`` of them at once. ``Rate(0, 0)`` sets no limit.

    ``text``: the rate as it was written, for people.
    """

    every: int
    burst: int = 1
    text: str = ""


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """What one side, the code or an operator, says of a gate. None: it says nothing; 0 (``Rate(0, 0)``): no limit.

    ``limit``: units at once. ``key_limit``, ``key_rate``: the limits of each key of a queue. ``max_ready``: a queue
    with so many ready jobs takes no more. ``draining``: the queue takes no new jobs at all.
    """

    limit: int | None = None
    rate: Rate | None = None
    key_limit: int | None = None
    key_rate: Rate | None = None
    max_ready: int | None = None
    paused: bool | None = None
    draining: bool | None = None


NO_LIMITS = Limits()

OPEN, SHUT = 0, -1
"""When a gate opens: it is open; not by time alone. Everything else is an instant in milliseconds."""


def in_force(tuned: Limits, declared: Limits) -> Limits:
    """The limits that hold: what an operator said, else what the code says."""
    return Limits(*(
        said if said is not None else other
        for said, other in zip(msgspec.structs.astuple(tuned), msgspec.structs.astuple(declared), strict=True)
    ))  # fmt: skip


def fits(held: int, limit: int | None, units: int) -> bool:
    """Whether so many more units may be held. A job that weighs more than the whole limit runs when no other does."""
    return not limit or held + units <= limit or held == 0


def arrive(tat: int, now: int, rate: Rate, units: int) -> tuple[int, int]:
    """``(new tat, 0)`` if the units may pass now; else ``(tat, opens)``, the first instant at which they may."""
    arrival = max(tat, now) + units * rate.every
    opens = arrival - max(rate.burst, units) * rate.every
    return (arrival, 0) if opens <= now else (tat, opens)


def limiting(rate: Rate | None) -> Rate | None:
    """A rate that limits anything, else None."""
    return rate if rate is not None and rate.every else None


def bounds_claims(limits: Limits) -> bool:
    """Whether jobs under these limits are granted only to who can start them at once."""
    return bool(limits.limit) or limiting(limits.rate) is not None


def may_close(limits: Limits, closed_until: int, now: int) -> bool:
    """Whether a gate with these limits is closed, or may come to be."""
    return bounds_claims(limits) or bool(limits.paused) or closed_until > now


def rate_opens(tat: int, now: int, rate: Rate | None, units: int) -> int:
    """When a rate lets so many units pass: OPEN, or an instant. ``now`` is in milliseconds."""
    if rate is None or not rate.every:
        return OPEN
    return -(-arrive(tat, now * 1000, rate, units)[1] // 1000)


def spare(most: int, held: int, limit: int | None, tat: int, now: int, rate: Rate | None) -> int:
    """How many units more an open gate lets pass now, one at least and ``most`` at most."""
    if limit:
        most = min(most, max(limit - held, 1))
    if rate is None or not rate.every:
        return most
    ahead = max(tat - now * 1000, 0)
    return min(most, max(1, rate.burst - -(-ahead // rate.every)))


def cut_tat(tat: int, now: int, rate: Rate) -> int:
    """The tat for a new rate: what a slower one was charged must not count beyond the new one's burst."""
    return min(tat, now * 1000 + rate.burst * rate.every)


def parse_rate(value: object, what: str = "rate") -> Rate:
    """Read ``"10/m"``, ``"100/s"``, ``"5/30s"`` or ``"100/s, burst 20"``; None is no limit.

    Without a burst, no window of the period ever sees more than the given number. A hundredth of it may come at once,
    so that an alarm that rings a little late loses nothing. With a burst, a window may see up to ``burst - 1`` more.
    """
    if value is None:
        return Rate(0, 0)
    if isinstance(value, Rate):
        return value
    example = "give a text such as '10/m', '100/s', '5/30s' or '100/s, burst 20'"
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not isinstance(value, str):
        raise ConfigError(f"{what} is {value!r}; {example}")
    count, per, burst = int(match[1]), match[2].strip(), match[3]
    try:
        period = to_ms(per if per[0].isdigit() else f"1{per}", what) * 1000
    except ConfigError:
        raise ConfigError(f"{what} is {value!r}; {example}") from None
    if count < 1 or period < 1 or (burst is not None and int(burst) < 1):
        raise ConfigError(f"{what} is {value!r}; its numbers must be above 0")
    if Fraction(count, period) > 1:
        raise ConfigError(f"{what} is {value!r}; at most {MOST:,} a second can be counted")
    if burst is not None:
        return Rate(ceil(Fraction(period, count)), int(burst), value.strip())
    slack = count // 100
    return Rate(ceil(Fraction(period, count - slack)), 1 + slack, value.strip())


def show_rate(rate: Rate) -> str:
    """A rate for people."""
    return (rate.text or f"1/{rate.every}us, burst {rate.burst}") if rate.every else "no limit"
