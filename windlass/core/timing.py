"""When a schedule runs: the values that describe it, and the arithmetic of slots. Reads no clock.

A *slot* is an instant at which a schedule is due, in whole milliseconds since the epoch. An interval counts real time
from an anchor. A cron line is matched against the wall clock of a zone. Where that clock changes, the rules here hold:
``gap`` for local times that do not exist, ``repeat`` for those that come twice. cronsim reads the lines and walks wall
clocks without a zone; it decides nothing about changes.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from windlass.core.duration import from_ms, instant_ms, show_ms
from windlass.core.hints import did_you_mean
from windlass.errors import ConfigError

Gap = Literal["after", "skip"]
Repeat = Literal["first", "last", "both"]

SHORTEST = 10
"""The shortest interval, in ms."""

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_SOME_DAY = datetime.combine(date(2000, 1, 1), time())
_HOUR = 3_600_000
_FOLDS: dict[str, tuple[int, ...]] = {"first": (0,), "last": (1,), "both": (0, 1)}


class Cron(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="cron"):
    """Times of a wall clock, as cron lines of six fields, seconds first. ``text``: the line as it was written.

    ``both_days``: where both the day of the month and the day of the week are restricted, both must match.
    """

    lines: tuple[str, ...]
    tz: str = ""
    text: str = ""
    both_days: bool = False


class Every(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="every"):
    """Every so many milliseconds of real time."""

    ms: int
    text: str = ""


class Once(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="once"):
    """At one instant."""

    at: int


Timing = Cron | Every | Once


class Clock(msgspec.Struct, frozen=True):
    """The settings a timing is read with. ``anchor``: the instant from which intervals count."""

    tz: str = "UTC"
    gap: Gap = "after"
    repeat: Repeat = "first"
    anchor: int = 0


# -- making them


def cron(line: str, *, tz: str = "", second: int = 0) -> Cron:
    """``cron("0 9 * * 1-5", tz="Europe/Berlin")``: minute, hour, day of the month, month, day of the week.

    Also ``@hourly``, ``@daily``, ``@weekly``, ``@monthly``, ``@yearly``. ``second``: the second of the minute.
    """
    if not isinstance(line, str):
        raise ConfigError(f"cron({line!r}): give a text such as '0 9 * * 1-5'")
    text = " ".join(line.split())
    fields = MACROS.get(text.lower(), text)
    if fields.startswith("@"):
        raise ConfigError(f"cron({line!r}): there is no such macro{did_you_mean(text.lower(), MACROS)}")
    if len(fields.split()) != 5:
        hint = "; seconds are given by second=" if len(fields.split()) == 6 else ""
        raise ConfigError(
            f"cron({line!r}) has {len(fields.split())} fields; five are needed: minute, hour, day of the month, month, "
            f"day of the week{hint}"
        )
    if type(second) is not int or not 0 <= second <= 59:
        raise ConfigError(f"cron({line!r}): second is {second!r}; give a whole number from 0 to 59")
    if tz:
        find_zone(tz, f"cron({line!r})")
    made = Cron((f"{second} {fields}",), tz, text)
    check_lines(made, f"cron({line!r})")
    return made


def check_lines(timing: Cron, what: str) -> None:
    """Check that every line can be read and matches some instant."""
    for line in timing.lines:
        try:
            simulator = _parse(line, timing.both_days)
        except CronSimError as error:
            raise ConfigError(f"{what}: {str(error).lower()}; {_hint(str(error))}") from None
        if next(_walk(simulator, _SOME_DAY), None) is None:
            raise ConfigError(f"{what}: no day is such a day")


def _hint(error: str) -> str:
    ranges = {
        "second": "0 to 59", "minute": "0 to 59", "hour": "0 to 23", "day-of-month": "1 to 31, L for the last day",
        "month": "1 to 12, or JAN to DEC", "day-of-week": "0 to 7, or SUN to SAT; 0 and 7 are Sunday",
    }  # fmt: skip
    field = error.removeprefix("Bad ")
    return f"it may be {ranges[field]}, also lists, ranges and steps such as */5" if field in ranges else "see crontab"


def once_at(at: datetime) -> Once:
    """One run, at an instant: a datetime with a time zone."""
    return Once(instant_ms(at, "once_at"))


def find_zone(name: object, what: str) -> ZoneInfo:
    """The zone of a name."""
    try:
        if isinstance(name, str) and name:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise ConfigError(f"{what}: unknown time zone {name!r}; give a name such as 'Europe/Berlin'")


def describe(timing: Timing) -> str:
    """A timing in English."""
    if isinstance(timing, Once):
        return f"once, at {from_ms(timing.at):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(timing, Every):
        return f"every {timing.text or show_ms(timing.ms)}"
    if timing.text.startswith("every "):
        return timing.text
    return ", or ".join(_parse(line, timing.both_days).explain() for line in timing.lines)


# -- slots


def next_slot(timing: Timing, clock: Clock, after: int) -> int:
    """The first slot later than ``after``, 0 for none."""
    if isinstance(timing, Once):
        return timing.at if timing.at > after else 0
    if isinstance(timing, Every):
        return clock.anchor + max(0, (after - clock.anchor) // timing.ms + 1) * timing.ms
    zone, found = ZoneInfo(clock.tz), []
    for line in timing.lines:
        simulator = _parse(line, timing.both_days)
        gap, repeat = clock.gap, clock.repeat
        if len(simulator.hours) == 24:
            # A line for every hour runs by real time, as with Debian's cron: no slot is repeated or left out.
            gap, repeat = "skip", "both"
        for fold in _FOLDS[repeat]:
            found.append(_next_at_wall(simulator, zone, after, fold, gap))
            if not _comes_twice(after, zone) and not _comes_twice(found[-1], zone):
                break  # both passes of a repeated hour would find the same slot
    return min((slot for slot in found if slot), default=0)


def newest_slots(timing: Timing, clock: Clock, first: int, last: int, most: int) -> list[int]:
    """The newest slots from ``first`` up to ``last``, both included: at most ``most``, oldest first."""
    if last < first or most < 1:
        return []
    if isinstance(timing, Every):
        end = clock.anchor + (last - clock.anchor) // timing.ms * timing.ms
        low = max(first, end - (most - 1) * timing.ms, clock.anchor)
        begin = clock.anchor + -(-(low - clock.anchor) // timing.ms) * timing.ms
        return list(range(begin, end + 1, timing.ms))
    span = _HOUR
    while True:
        low, found = max(first, last - span), deque[int](maxlen=most)
        slot = next_slot(timing, clock, low - 1)
        while slot and slot <= last:
            found.append(slot)
            slot = next_slot(timing, clock, slot)
        if len(found) == most or low == first:
            return list(found)
        span *= 4


def remark(timing: Timing, clock: Clock, slot: int) -> str:
    """What the wall clock does at a slot, as a word for previews; empty on an ordinary day."""
    if not isinstance(timing, Cron):
        return ""
    zone = ZoneInfo(clock.tz)
    wall = _wall(slot, zone)
    if _comes_twice(slot, zone):
        return "the first of two" if wall.fold == 0 else "the second of two"
    before = _wall(slot - 1, zone).utcoffset()
    on_time = any(_matches(line, timing.both_days, wall.replace(tzinfo=None)) for line in timing.lines)
    return "moved: the local time does not exist" if before != wall.utcoffset() and not on_time else ""


def _matches(line: str, both_days: bool, naive: datetime) -> bool:
    return next(_walk(_parse(line, both_days), naive - timedelta(seconds=1)), None) == naive


# -- wall clocks


@lru_cache(maxsize=10_000)
def _parse(line: str, both_days: bool) -> CronSim:
    simulator = CronSim(line, _SOME_DAY)
    simulator.day_and = simulator.day_and or both_days
    return simulator


def _walk(simulator: CronSim, start: datetime) -> Iterator[datetime]:
    """The wall times of a line later than ``start``, without a zone. It ends where fifty years have no match."""
    own = copy.copy(simulator)
    own.dt = start.replace(microsecond=0)
    return own


def _next_at_wall(simulator: CronSim, zone: ZoneInfo, after: int, fold: int, gap: str) -> int:
    """The first slot later than ``after``; of wall times that come twice only the first (fold 0) or the last (1)
    counts.

    The slots picked this way are in the order of their wall times, so one walk finds them.
    """
    wall = _wall(after, zone)
    start = wall.replace(tzinfo=None, fold=0)
    if fold and not wall.fold:
        # In the first pass of a repeated hour the clock will show earlier times again.
        start -= (_instant(wall, zone, 1) - _instant(wall, zone, 0)) * _MS
    for naive in _walk(simulator, start):
        slot = _slot_of(naive, zone, fold, gap)
        if slot > after:
            return slot
    return 0


def _slot_of(naive: datetime, zone: ZoneInfo, fold: int, gap: str) -> int:
    """The instant of a wall time; 0 for a time that does not exist and is left out."""
    slot = _instant(naive, zone, fold)
    if _wall(slot, zone).replace(tzinfo=None, fold=0) == naive:
        return slot
    return 0 if gap == "skip" else _end_of_gap(naive, zone)


def _end_of_gap(naive: datetime, zone: ZoneInfo) -> int:
    """The first instant after the gap that contains a wall time."""
    before, behind = _instant(naive, zone, 1) // 1000, _instant(naive, zone, 0) // 1000
    offset = _wall(behind * 1000, zone).utcoffset()
    while behind - before > 1:
        middle = (before + behind) // 2
        if _wall(middle * 1000, zone).utcoffset() == offset:
            behind = middle
        else:
            before = middle
    return behind * 1000


def _comes_twice(instant: int, zone: ZoneInfo) -> bool:
    """Whether the wall clock shows this instant's time at another instant too."""
    wall = _wall(instant, zone)
    return wall.utcoffset() != wall.replace(fold=1 - wall.fold).utcoffset()


def _wall(instant: int, zone: ZoneInfo) -> datetime:
    return (_EPOCH + instant * _MS).astimezone(zone)


def _instant(wall: datetime, zone: ZoneInfo, fold: int) -> int:
    return (wall.replace(tzinfo=zone, fold=fold) - _EPOCH) // _MS
