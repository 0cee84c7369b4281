"""Schedules in plain language: ``every("10 minutes")``, ``every("weekday at 9:00")``. It only reads the text.

A text with a time of day becomes a cron line and follows the wall clock; any other becomes an interval of real time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import NoReturn

from windlass.core.duration import Duration, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.timing import SHORTEST, Cron, Every, check_lines, find_zone
from windlass.errors import ConfigError

EXAMPLES = (
    "'10 minutes', '2 hours', '250ms', 'day at 03:00', 'monday at 09:00', 'weekday at 9:00 and 17:30', "
    "'month on 1 at 00:00', 'hour at :15'"
)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SETS = {"": "*", "day": "*", "weekday": "1-5", "weekend": "0,6", "weekend day": "0,6"}
_UNITS = ("second", "minute", "hour", "day", "week")
_WORDS = (*_DAYS, *_SETS, *_UNITS, "month")
_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?::(\d\d))? ?(am|pm)?")
_LIST = re.compile(r",? and |, ?")
_SPAN = re.compile(r" ?- ?| to ")
_NTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")


def every(what: Duration, *, tz: str = "") -> Every | Cron:
    """Read a text as an interval, or as days and times of day."""
    if tz:
        find_zone(tz, f"every({what!r})")
    if not isinstance(what, str):
        return _interval(what, "", what)
    text = " ".join(what.lower().split()).removeprefix("every ")
    head, at, times = f" {text}".partition(" at ")
    if not at:
        if tz:
            raise ConfigError(f"every({what!r}): an interval of real time has no time zone; leave tz out")
        return _plain(text, what)
    shown = f"every {text}" if head else f"every day {text}"
    made = Cron(tuple(_lines(head.strip(), times.strip(), what)), tz, shown)
    check_lines(made, f"every({what!r})")
    return made


def _interval(value: object, text: str, what: object) -> Every:
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        raise ConfigError(f"every({what!r}): give seconds, a timedelta, or a text such as {EXAMPLES}")
    ms = to_ms(value, "every")
    if ms < SHORTEST:
        raise ConfigError(f"every({what!r}): the shortest interval is {SHORTEST} ms")
    return Every(ms, text)


def _plain(text: str, what: str) -> Every:
    if text in _UNITS:
        return _interval(f"1 {text}", text, what)
    if text and text[0].isdigit():
        try:
            return _interval(text, text, what)
        except ConfigError as error:
            _refuse(what, text, error)
    if text.split(" ")[0].rstrip("s,") in (*_DAYS, "weekday", "weekend", "month"):
        raise ConfigError(f"every({what!r}): say at what time, as in '{text} at 09:00'")
    if text.startswith("other "):
        raise ConfigError(f"every({what!r}): write '2 {text.removeprefix('other ')}s'")
    _refuse(what, text)


def _refuse(what: str, text: str, error: ConfigError | None = None) -> NoReturn:
    """Raise the error, with a suggestion of what was probably meant."""
    if error is not None and ("shortest" in str(error) or "between" in str(error)):
        raise error
    words = re.findall(r"[a-z]{3,}", text)
    near = next((hint for word in words if (hint := did_you_mean(word.removesuffix("s"), _WORDS))), "")
    raise ConfigError(f"every({what!r}) is not understood{near}; give a text such as {EXAMPLES}") from None


# -- days and times


def _lines(days: str, times: str, what: str) -> Iterator[str]:
    if days == "hour":
        for part in _LIST.split(times):
            minute = re.fullmatch(r":([0-5]\d)", part)
            if minute is None:
                raise ConfigError(f"every({what!r}): give minutes as in 'hour at :15'")
            yield f"0 {int(minute[1])} * * * *"
        return
    if days[:1].isdigit():
        raise ConfigError(
            f"every({what!r}): an interval has no time of day; give start= to say when '{days}' begin, or use cron()"
        )
    month_days, week_days = _days(days, what)
    for part in _LIST.split(times):
        yield f"{_time(part, what)} {month_days} * {week_days}"


def _days(text: str, what: str) -> tuple[str, str]:
    """The cron fields for days of the month and of the week."""
    word, _, on = text.partition(" on ")
    if word == "month":
        return _month_days(on, what), "*"
    plain = text.removesuffix("s")
    if plain in _SETS:
        return "*", _SETS[plain]
    return "*", ",".join(_week_day(part, what) for part in _LIST.split(text))


def _month_days(text: str, what: str) -> str:
    text = text.removeprefix("the ").removeprefix("day ")
    if text in ("last", "last day"):
        return "L"
    found = [_NTH.fullmatch(part.removeprefix("the ")) for part in _LIST.split(text)]
    numbers = [int(match[1]) for match in found if match]
    if len(numbers) < len(found) or not all(1 <= number <= 31 for number in numbers):
        raise ConfigError(f"every({what!r}): give days of the month, as in 'month on 1 and 15 at 00:00'")
    return ",".join(map(str, numbers))


def _week_day(text: str, what: str) -> str:
    """One day or a span of days. A span in cron may not run past Sunday."""
    numbers = [_day_number(part, what) for part in _SPAN.split(text)]
    if len(numbers) == 1:
        return str(numbers[0])
    first, last = numbers[0], numbers[-1]
    return ",".join(str((first + step) % 7) for step in range((last - first) % 7 + 1))


def _day_number(text: str, what: str) -> int:
    word = text.removesuffix("s") if len(text) > 4 else text
    for number, day in enumerate(_DAYS):
        if word == day or (len(word) >= 3 and day.startswith(word)):
            return number
    raise ConfigError(
        f"every({what!r}): {text!r} is no day{did_you_mean(word, _WORDS)}; give a text such as {EXAMPLES}"
    )


def _time(text: str, what: str) -> str:
    """The cron fields for second, minute and hour."""
    if text in ("noon", "midnight"):
        return "0 0 12" if text == "noon" else "0 0 0"
    match = _TIME.fullmatch(text)
    if match is None or (match[2] is None and match[4] is None):
        raise ConfigError(f"every({what!r}): {text!r} is no time of day; give one such as 03:00, 17:30 or 9am")
    hour, minute, second = (int(match[group] or 0) for group in (1, 2, 3))
    if match[4]:
        if not 1 <= hour <= 12:
            raise ConfigError(f"every({what!r}): {text!r} is no time of day; before am and pm hours are 1 to 12")
        hour = hour % 12 + (12 if match[4] == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ConfigError(f"every({what!r}): {text!r} is no time of day; give one such as 03:00, 17:30 or 9am")
    return f"{second} {minute} {hour}"
