"""Slots at the changes of the clocks, against an oracle that shares no code with them.

The oracle walks through 2026 in UTC by steps of five minutes, looks at the wall clock of the zone, and applies the
policies as they are written: a local time that comes twice runs the first time, the last time or both; one that does
not exist runs at the first instant after the gap, or not; what is meant for every hour runs whenever the wall clock
shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from windlass.core.language import every
from windlass.core.timing import Clock, Timing, cron, newest_slots, next_slot

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
ZONES = {
    "Europe/Berlin": 60,
    "America/New_York": 60,
    "Australia/Lord_Howe": 30,
    "Africa/Cairo": 60,  # changes at midnight
    "Asia/Beirut": 60,  # at midnight too
    "America/Santiago": 60,  # in the south, at midnight
}
STEP = timedelta(minutes=5)
"""No case means a minute that five does not divide, and no zone changes at one."""
ALIKE = {"America/New_York", "Asia/Beirut"}
"""Zones that change as another one does: theirs come `again`."""
Shown = Callable[[datetime], bool]


class Case(NamedTuple):
    """A timing, and in the oracle's own words: which wall times are meant, and whether by real time."""

    timing: Timing
    meant: Shown
    by_real_time: bool = False


CASES = {
    "in Berlin's and New York's gap": Case(cron("30 2 * * *"), lambda t: (t.hour, t.minute) == (2, 30)),
    "on the hour of the gap": Case(cron("0 2 * * *"), lambda t: (t.hour, t.minute) == (2, 0)),
    "in Lord Howe's gap": Case(every("day at 02:15"), lambda t: (t.hour, t.minute) == (2, 15)),
    "in the repeat": Case(cron("45 1 * * *"), lambda t: (t.hour, t.minute) == (1, 45)),
    "several in the gap and behind it": Case(
        cron("*/20 2,3 * * *"), lambda t: t.hour in (2, 3) and t.minute in (0, 20, 40)
    ),
    "midnight": Case(every("day at 00:00"), lambda t: (t.hour, t.minute) == (0, 0)),
    "half past midnight": Case(every("day at 00:30"), lambda t: (t.hour, t.minute) == (0, 30)),
    "late in the evening": Case(cron("30 23 * * *"), lambda t: (t.hour, t.minute) == (23, 30)),
    "every other hour": Case(cron("0 */2 * * *"), lambda t: t.hour % 2 == 0 and t.minute == 0),
    "weekly": Case(every("sunday at 02:30"), lambda t: t.weekday() == 6 and (t.hour, t.minute) == (2, 30)),
    "weekly at midnight": Case(
        cron("0 0 * * 0,5"), lambda t: t.weekday() in (4, 6) and (t.hour, t.minute) == (0, 0)
    ),
    "two times of day": Case(
        every("day at 01:30 and 02:30"), lambda t: (t.hour, t.minute) in ((1, 30), (2, 30))
    ),
    "hourly": Case(cron("@hourly"), lambda t: t.minute == 0, by_real_time=True),
    "hourly at half past": Case(every("hour at :30"), lambda t: t.minute == 30, by_real_time=True),
    "every 15 minutes": Case(cron("*/15 * * * *"), lambda t: t.minute % 15 == 0, by_real_time=True),
    "every hour of one day a month": Case(
        cron("30 * 25 * *"), lambda t: t.day == 25 and t.minute == 30, by_real_time=True
    ),
}  # fmt: skip
POLICIES = [("after", "first"), ("skip", "last"), ("skip", "both")]


class Seen(NamedTuple):
    """What a walk through the year saw of one case: when each wall time was shown, and what was jumped over when."""

    shown: dict[datetime, list[datetime]]
    jumped: list[datetime]


def walk(zone: ZoneInfo) -> dict[str, Seen]:
    seen = {name: Seen({}, []) for name in CASES}
    instant, before = BEGIN, (BEGIN - STEP).astimezone(zone).replace(tzinfo=None, fold=0)
    while instant < END:
        wall = instant.astimezone(zone).replace(tzinfo=None, fold=0)
        assert wall.minute % 5 == 0, "the zone changed in the middle of a step"
        missing = list(between(before + STEP, wall))
        for name, case in CASES.items():
            if case.meant(wall):
                seen[name].shown.setdefault(wall, []).append(instant)
            if any(case.meant(wall_time) for wall_time in missing):
                seen[name].jumped.append(instant)
        before, instant = wall, instant + STEP
    return seen


def between(low: datetime, high: datetime) -> Iterator[datetime]:
    while low < high:
        yield low
        low += STEP


def expected(case: Case, seen: Seen, gap: str, repeat: str) -> list[datetime]:
    if case.by_real_time:
        return sorted(instant for instants in seen.shown.values() for instant in instants)
    found = {instants[{"first": 0, "last": -1}[repeat]] for instants in seen.shown.values()} if repeat != "both" else {
        instant for instants in seen.shown.values() for instant in instants
    }  # fmt: skip
    return sorted(found.union(seen.jumped if gap == "after" else ()))


def slots(timing: Timing, clock: Clock) -> Iterator[datetime]:
    slot, end = next_slot(timing, clock, ms(BEGIN) - 1), ms(END)
    while slot < end:
        yield BEGIN + timedelta(milliseconds=slot - ms(BEGIN))
        slot = next_slot(timing, clock, slot)


def ms(instant: datetime) -> int:
    return int(instant.timestamp()) * 1000


@pytest.mark.parametrize(
    "zone", [pytest.param(zone, marks=pytest.mark.again) if zone in ALIKE else zone for zone in ZONES]
)
def test_a_year_of_slots(zone: str) -> None:
    seen = walk(ZoneInfo(zone))
    for gap, repeat in POLICIES:
        clock = Clock(zone, gap, repeat)  # type: ignore[arg-type]
        for name, case in CASES.items():
            if case.by_real_time and gap == "skip":
                continue  # no policy concerns these: see below
            wanted = expected(case, seen[name], gap, repeat)
            assert list(slots(case.timing, clock)) == wanted, f"{name}: gap={gap}, repeat={repeat}"
            some = [ms(instant) for instant in wanted[len(wanted) // 3 : len(wanted) // 3 + 40]]
            assert newest_slots(case.timing, clock, some[0], some[-1] + 1, 30) == some[-30:], name


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.by_real_time])
def test_policies_do_not_concern_what_runs_every_hour(name: str) -> None:
    around = ms(datetime(2026, 3, 27, tzinfo=UTC)), ms(datetime(2026, 3, 31, tzinfo=UTC))
    clocks = [Clock("Europe/Berlin", gap, repeat) for gap in ("after", "skip") for repeat in ("first", "last", "both")]  # type: ignore[arg-type]
    assert len({tuple(newest_slots(CASES[name].timing, clock, *around, 10_000)) for clock in clocks}) == 1


@pytest.mark.parametrize(("zone", "minutes"), ZONES.items())
def test_these_zones_do_change_in_2026(zone: str, minutes: int) -> None:
    offsets = {datetime(2026, month, 15, tzinfo=UTC).astimezone(ZoneInfo(zone)).utcoffset() for month in range(1, 13)}
    assert len(offsets) == 2
    assert max(o for o in offsets if o is not None) - min(o for o in offsets if o is not None) == timedelta(
        minutes=minutes
    )


@pytest.mark.parametrize("seconds", [60, 90 * 60, 86_400, 7 * 86_400])
def test_intervals_know_no_clock_changes(seconds: int) -> None:
    anchor = BEGIN - timedelta(hours=5, minutes=17)
    clock, timing = Clock("Europe/Berlin", anchor=ms(anchor)), every(seconds)
    wanted, instant = [], BEGIN
    while instant < END:
        if (instant - anchor).total_seconds() % seconds == 0:
            wanted.append(instant)
        instant += timedelta(minutes=1)
    assert list(slots(timing, clock)) == wanted


def test_every_instant_of_a_change_has_the_same_next_slot_as_a_list_says() -> None:
    """Not only from slot to slot: asked at any second around both changes, the answer is the next one of the list."""
    for zone, changes in {
        "Europe/Berlin": ((3, 29, 1), (10, 25, 1)), "Australia/Lord_Howe": ((4, 4, 15), (10, 3, 15)),
    }.items():  # fmt: skip
        for case in CASES.values():
            for repeat in ("first", "last", "both"):
                clock = Clock(zone, "after", repeat)  # type: ignore[arg-type]
                for month, day, hour in changes:
                    low = ms(datetime(2026, month, day, hour, tzinfo=UTC) - timedelta(hours=3))
                    known = newest_slots(case.timing, clock, low, low + 14 * 86_400_000, 10_000)
                    for after in range(low, low + 6 * 3_600_000, 97_000):
                        if later := [slot for slot in known if slot > after]:
                            assert next_slot(case.timing, clock, after) == later[0]
