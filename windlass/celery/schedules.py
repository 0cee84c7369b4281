"""Celery's schedules as values: ``crontab`` and ``schedule``, with Celery's fields, grammar and checks.

They say when; nothing here fires. Workers run schedules from the store: there is no beat process. ``is_due`` answers
what the workers go by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Set
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from windlass.celery import _state
from windlass.core.timing import Clock, Cron, Every, Timing, next_slot

__all__ = ["BaseSchedule", "ParseException", "crontab", "crontab_parser", "maybe_schedule", "schedule", "solar"]

Spec = int | str | Iterable[int]

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_PART = re.compile(r"(?:(?P<star>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\w+))?")


class ParseException(ValueError):
    """A crontab field that cannot be read."""


class crontab_parser:
    """Reads one field: ``crontab_parser(60).parse("*/15")`` is ``{0, 15, 30, 45}``. Ranges may wrap: ``fri-mon``."""

    ParseException = ParseException

    def __init__(self, max_: int = 60, min_: int = 0) -> None:
        self.max_, self.min_ = max_, min_

    def parse(self, spec: str) -> set[int]:
        found: set[int] = set()
        for part in spec.split(","):
            if not part:
                raise ParseException(f"crontab field {spec!r} has an empty part")
            found.update(self._part(part.strip(), spec))
        return found

    def _part(self, part: str, spec: str) -> Iterable[int]:
        match = _PART.fullmatch(part)
        if match is None:
            raise ParseException(f"crontab field {spec!r}: {part!r} is no number, name, range or step")
        step = self._step(match["step"], spec)
        if match["star"]:
            return list(range(self.min_, self.min_ + self.max_))[::step]
        low = self._number(match["low"], spec)
        if match["high"] is None:
            if match["step"] is not None:
                raise ParseException(f"crontab field {spec!r}: a step needs a range or *, as in */5 or 0-30/5")
            return [low]
        high = self._number(match["high"], spec)
        if high < low:  # the range wraps: fri-mon
            return [*range(low, self.min_ + self.max_), *range(self.min_, high + 1)][::step]
        return range(low, high + 1, step)

    def _step(self, text: str | None, spec: str) -> int:
        if text is None:
            return 1
        if not text.isdigit() or int(text) < 1:
            raise ParseException(f"crontab field {spec!r}: the step {text!r} is no whole number above 0")
        return int(text)

    def _number(self, text: str, spec: str) -> int:
        number = int(text) if text.isdigit() else self._name(text, spec)
        if not self.min_ <= number < self.min_ + self.max_:
            raise ParseException(
                f"crontab field {spec!r}: {text} is not between {self.min_} and {self.min_ + self.max_ - 1}"
            )
        return number

    def _name(self, text: str, spec: str) -> int:
        names = {7: _DAYS, 12: _MONTHS}.get(self.max_, ())
        if text[:3].lower() in names:
            return names.index(text[:3].lower()) + self.min_
        raise ParseException(f"crontab field {spec!r}: {text!r} is no number" + (" or name" if names else ""))


class schedstate(NamedTuple):
    """An answer of ``is_due``: whether a run is due, and in how many seconds to ask again."""

    is_due: bool
    next: float


class BaseSchedule:
    """The base of schedules: the app whose time zone they use, and a function for the current time."""

    def __init__(self, nowfun: Callable[[], datetime] | None = None, app: Any = None) -> None:
        self.nowfun, self._app = nowfun, app

    @property
    def app(self) -> Any:
        return _state.app_or_default(self._app)

    @app.setter
    def app(self, app: Any) -> None:
        self._app = app

    @property
    def tz(self) -> tzinfo:
        zone: tzinfo = self.app.timezone
        return zone

    def now(self) -> datetime:
        found: datetime = (self.nowfun or self.app.now)()
        return found

    def maybe_make_aware(self, dt: datetime, naive_as_utc: bool = True) -> datetime:
        """The time with a zone. A naive one is in UTC, as Celery's own records are."""
        return dt if dt.tzinfo is not None else dt.replace(tzinfo=UTC if naive_as_utc else self.tz)

    def next_after(self, instant: datetime) -> datetime:
        """The first run later than an instant."""
        raise NotImplementedError("a schedule says when it runs next")

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """The time until the run after that one; negative if it is overdue."""
        due = self.next_after(self.maybe_make_aware(last_run_at))
        return due.astimezone(UTC) - self.maybe_make_aware(self.now()).astimezone(UTC)

    def is_due(self, last_run_at: datetime) -> schedstate:
        left = self.remaining_estimate(last_run_at).total_seconds()
        if left > 0:
            return schedstate(False, left)
        return schedstate(True, max(0.0, self.remaining_estimate(self.now()).total_seconds()))


class crontab(BaseSchedule):
    """``crontab(minute=0, hour="*/3", day_of_week="mon-fri")``. All of its fields must hold."""

    def __init__(
        self, minute: Spec = "*", hour: Spec = "*", day_of_week: Spec = "*", day_of_month: Spec = "*",
        month_of_year: Spec = "*", nowfun: Any = None, app: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(nowfun, app)
        self.minute = _expand(minute, 60)
        self.hour = _expand(hour, 24)
        self.day_of_week = _expand(day_of_week, 7)
        self.day_of_month = _expand(day_of_month, 31, 1)
        self.month_of_year = _expand(month_of_year, 12, 1)
        self._given = tuple(_text(spec) for spec in (minute, hour, day_of_week, day_of_month, month_of_year))
        if not any(day <= _LONGEST[month] for month in self.month_of_year for day in self.day_of_month):
            raise ValueError(f"crontab: no month of {self._given[4]!r} has a day {self._given[3]!r}")

    @classmethod
    def from_string(cls, text: str) -> crontab:
        """The five fields of a crontab line: minute, hour, day of the month, month, day of the week."""
        fields = text.split()
        if len(fields) != 5:
            raise ValueError(f"crontab line {text!r} has {len(fields)} fields; five are needed")
        minute, hour, day_of_month, month_of_year, day_of_week = fields
        return cls(minute, hour, day_of_week, day_of_month, month_of_year)

    @property
    def expression(self) -> str:
        """The same schedule as a crontab line."""
        minute, hour, day_of_week, day_of_month, month_of_year = self._given
        return f"{minute} {hour} {day_of_month} {month_of_year} {day_of_week}"

    def next_after(self, instant: datetime) -> datetime:
        timing, _ = timing_of(self, self.tz)
        slot = next_slot(timing, Clock(zone_name(self.tz)), int(instant.timestamp() * 1000))
        return datetime.fromtimestamp(slot / 1000, self.tz)

    def _by_place(self) -> tuple[set[int], ...]:
        return self.minute, self.hour, self.day_of_week, self.day_of_month, self.month_of_year

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, crontab):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def _fields(self) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(field) for field in self._by_place())

    def __repr__(self) -> str:
        return f"<crontab: {self.expression} (m/h/dM/MY/d)>"


def _expand(spec: Spec, max_: int, min_: int = 0) -> set[int]:
    if isinstance(spec, str):
        return crontab_parser(max_, min_).parse(spec)
    try:
        found = {int(spec)} if isinstance(spec, int) else {int(number) for number in spec}
    except TypeError:
        raise TypeError(f"crontab field is {spec!r}; give a number, a text such as '*/5', or several numbers") from None
    for number in found:
        if not min_ <= number < min_ + max_:
            raise ValueError(f"crontab field {number!r} is not between {min_} and {min_ + max_ - 1}")
    if not found:
        raise ValueError("crontab field is empty")
    return found


def _text(spec: Spec) -> str:
    if isinstance(spec, int | str):
        return str(spec).replace(" ", "")
    return ",".join(str(number) for number in sorted(spec))


_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


class schedule(BaseSchedule):
    """Every so many seconds. ``relative``: at full days, hours, minutes or seconds, the largest unit that fits in."""

    def __init__(
        self, run_every: float | timedelta | None = None, relative: bool = False, nowfun: Any = None, app: Any = None
    ) -> None:
        super().__init__(nowfun, app)
        if type(run_every) not in (int, float, timedelta) or run_every is None:
            raise TypeError(f"schedule is {run_every!r}; give seconds or a timedelta")
        self.run_every = run_every if isinstance(run_every, timedelta) else timedelta(seconds=run_every)
        if self.run_every <= timedelta(0):
            raise ValueError(f"schedule is {run_every!r}; it must be above 0")
        self.relative = relative

    @property
    def seconds(self) -> float:
        return self.run_every.total_seconds()

    @property
    def human_seconds(self) -> str:
        """``"1.50 hours"``."""
        unit, size = next(((unit, size) for unit, size in _UNITS if self.seconds >= size), ("second", 1))
        count = self.seconds / size
        return f"{count:.2f} {unit}{'s' if count > 1 else ''}"

    def next_after(self, instant: datetime) -> datetime:
        end = instant.astimezone(UTC) + self.run_every
        if not self.relative:
            return end
        local = end.astimezone(self.tz)
        if self.run_every >= timedelta(days=1):  # calendar days, also where clocks change
            wall = instant.astimezone(self.tz).replace(tzinfo=None) + self.run_every
            return wall.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=self.tz)
        if self.run_every >= timedelta(hours=1):
            return local.replace(minute=0, second=0, microsecond=0)
        if self.run_every >= timedelta(minutes=1):
            return local.replace(second=0, microsecond=0)
        return local.replace(microsecond=0) if self.run_every >= timedelta(seconds=1) else end

    def __eq__(self, other: object) -> bool:
        if isinstance(other, schedule):
            return self.run_every == other.run_every
        return self.run_every == other if isinstance(other, timedelta) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.run_every)

    def __repr__(self) -> str:
        return f"<freq: {self.human_seconds}>"


class solar:
    """Celery's schedule by the sun, which has no counterpart here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "solar schedules have no counterpart, as they need an almanac: let a task that runs once a day work out "
            "the instant and call the other one with eta="
        )


def timing_of(value: schedule | crontab, zone: tzinfo) -> tuple[Timing, dict[str, Any]]:
    """The same schedule as Windlass's timing, with the options of a schedule that go with it."""
    if isinstance(value, schedule):
        # A relative schedule runs at full seconds, minutes, hours or days: it counts from a midnight.
        start = {"start": datetime(1970, 1, 5, tzinfo=zone)} if value.relative else {}
        return Every(round(value.seconds * 1000)), start
    fields = (
        _field(value.minute, 60), _field(value.hour, 24), _field(value.day_of_month, 31),
        _field(value.month_of_year, 12), _field(value.day_of_week, 7),
    )  # fmt: skip
    return Cron((f"0 {' '.join(fields)}",), text=value.expression, both_days=True), {}


def check_workers_can_run(value: schedule | crontab) -> None:
    """Refuse a schedule with code of its own: workers only know a schedule's times."""
    if value.nowfun is not None:
        raise ValueError(f"{value!r} has a nowfun, which workers cannot ask: they run schedules by the store's clock")
    for name in ("is_due", "remaining_estimate", "next_after"):
        if getattr(type(value), name).__module__ != __name__:
            raise ValueError(f"{value!r} has a {name} of its own, which workers cannot ask: they keep its times alone")


def zone_name(zone: tzinfo) -> str:
    """The name by which the store knows a zone."""
    name: str | None = getattr(zone, "key", None)
    if name is None and zone is not UTC:
        raise ValueError(f"timezone is {zone!r}; schedules need its name, like 'Europe/Berlin'")
    return name or "UTC"


def _field(numbers: Set[int], all_there_are: int) -> str:
    return "*" if len(numbers) == all_there_are else ",".join(map(str, sorted(numbers)))


def maybe_schedule(value: Any, relative: bool = False, app: Any = None) -> schedule | crontab:
    """A schedule as ``beat_schedule`` may give it: seconds, a timedelta or a crontab."""
    if isinstance(value, schedule | crontab):
        return value
    if type(value).__name__ == "solar":
        solar()
    if isinstance(value, BaseSchedule):
        raise TypeError(f"{value!r} is a schedule of its own kind; workers know crontab and schedule")
    return schedule(value, relative, app=app)
