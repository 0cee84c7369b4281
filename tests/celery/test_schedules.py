"""Schedules asked by hand: ``is_due``, ``remaining_estimate``, ``nowfun``, and what they look like."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from windlass.celery import Celery
from windlass.celery.schedules import ParseException, crontab, crontab_parser, schedule

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def at(text: str, zone: Any = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def left(when: crontab | schedule, last: datetime, now: datetime) -> timedelta:
    when.nowfun = lambda: now
    return when.remaining_estimate(last)


@pytest.fixture(autouse=True)
def utc() -> Celery:
    return Celery("tests", broker="memory://")


# -- crontab


@pytest.mark.parametrize(
    ("fields", "last", "due"),
    [
        ({}, "2010-11-30T14:30:15", "2010-11-30T14:31"),
        ({"minute": {5, 42}}, "2010-11-30T14:05:15", "2010-11-30T14:42"),
        ({"minute": {5, 42}}, "2010-11-30T14:43", "2010-11-30T15:05"),
        ({"hour": {5, 17}}, "2010-11-30T04:20", "2010-11-30T05:00"),
        ({"hour": {5, 17}, "minute": "*/30"}, "2010-11-30T17:40", "2010-12-01T05:00"),
        ({"minute": 30, "hour": 14, "day_of_week": "sat"}, "2010-11-30T14:30", "2010-12-04T14:30"),
        ({"minute": 30, "hour": 14, "day_of_month": 29}, "2010-11-30T14:30", "2010-12-29T14:30"),
        ({"minute": 42, "hour": 14, "day_of_week": "mon-fri", "day_of_month": "1-9"}, "2010-11-06T14:42",
         "2010-11-08T14:42"),
        ({"minute": 0, "hour": 0, "day_of_month": 29, "month_of_year": 2}, "2012-02-29T00:00", "2016-02-29T00:00"),
        ({"minute": 0, "hour": 0, "month_of_year": "*/3"}, "2010-11-30T14:30", "2011-01-01T00:00"),
        ({"minute": 0, "hour": 0, "day_of_week": "sun", "day_of_month": "1-7", "month_of_year": 5},
         "2010-05-02T00:00", "2011-05-01T00:00"),
        ({"minute": 59, "hour": 23, "day_of_month": 31}, "2011-01-31T23:59", "2011-03-31T23:59"),
    ],
)  # fmt: skip
def test_how_long_until_the_next_run(fields: dict[str, Any], last: str, due: str) -> None:
    when = crontab(**fields)
    for now in ("2010-01-01T00:00", last, due, "2020-01-01T00:00:00.250000"):
        assert left(when, at(last), at(now)) == at(due) - at(now)


@pytest.mark.parametrize(
    ("fields", "last", "now", "expected"),
    [
        ({}, "2010-05-10T10:29:59", "2010-05-10T10:30:30", (True, 30)),
        ({}, "2010-05-10T10:30:05", "2010-05-10T10:30:30.500000", (False, 29.5)),
        ({"minute": 0, "hour": "*/4"}, "2010-05-10T08:00", "2010-05-10T12:00", (True, 4 * 3600)),
        ({"minute": 0}, "2010-05-10T10:00", "2010-05-10T10:59", (False, 60)),
        ({"minute": 30, "hour": 7}, "2010-05-09T07:30", "2010-05-10T10:30", (True, 21 * 3600)),
        ({"minute": 30, "hour": 7, "day_of_week": "thursday"}, "2010-05-06T07:30", "2010-05-13T07:30", (True, 604800)),
        ({"minute": 30, "hour": 7, "day_of_week": "thursday"}, "2010-05-06T07:30", "2010-05-07T07:30",
         (False, 6 * 86400)),
        ({"minute": 0, "hour": 0, "day_of_month": 1, "month_of_year": 1}, "2009-01-01T00:00", "2010-01-01T00:00",
         (True, 365 * 86400)),
    ],
)  # fmt: skip
def test_whether_it_is_due(fields: dict[str, Any], last: str, now: str, expected: tuple[bool, float]) -> None:
    state = crontab(**fields, nowfun=lambda: at(now)).is_due(at(last))
    assert state == expected
    assert (state.is_due, state.next) == expected


def test_last_run_in_the_future_is_not_due() -> None:
    when = crontab(minute="*/5", nowfun=lambda: at("2010-05-10T10:00"))
    assert when.is_due(at("2010-05-10T10:07")) == (False, 600)


def test_a_naive_time_is_utc_and_another_zone_is_itself(utc: Celery) -> None:
    when = crontab(minute=0, hour=12, nowfun=lambda: at("2010-05-10T10:00"))
    assert when.remaining_estimate(at("2010-05-10T09:00", None)) == timedelta(hours=2)
    assert when.remaining_estimate(at("2010-05-10T11:00", BERLIN)) == timedelta(hours=2)


def test_fields_are_read_in_the_apps_zone() -> None:
    app = Celery("tests", broker="memory://", timezone="America/New_York")
    when = crontab(minute=0, hour=0, day_of_month="27-31", app=app)
    assert left(when, at("2010-05-27T00:00", NEW_YORK), at("2010-05-28T04:00")) == timedelta(0)
    assert when.tz == NEW_YORK
    assert crontab(minute=0, hour=9).tz == NEW_YORK  # the app made last


@pytest.mark.parametrize(
    ("last", "due"),
    [("2017-10-28T09:00", "2017-10-29T09:00"), ("2017-03-25T09:00", "2017-03-26T09:00")],
)
def test_the_clock_says_the_same_before_and_after_it_changes(last: str, due: str) -> None:
    app = Celery("tests", broker="memory://", timezone="Europe/Berlin")
    when = crontab(minute=0, hour=9, app=app)
    assert left(when, at(last, BERLIN), at(due, BERLIN)) == timedelta(0)


def test_with_the_apps_own_clock() -> None:
    state = crontab().is_due(datetime.now(UTC) - timedelta(minutes=2))
    assert state.is_due
    assert 0 <= state.next <= 60
    assert not crontab().is_due(datetime.now(UTC) + timedelta(hours=1)).is_due


# -- intervals


@pytest.mark.parametrize(
    ("every", "last", "now", "expected"),
    [
        (10, "2010-05-10T10:00", "2010-05-10T10:00:04", (False, 6)),
        (10, "2010-05-10T10:00", "2010-05-10T10:00:10", (True, 10)),
        (10, "2010-05-10T10:00", "2010-05-10T12:00", (True, 10)),
        (0.5, "2010-05-10T10:00", "2010-05-10T10:00:00.250000", (False, 0.25)),
        (timedelta(days=1), "2010-05-10T10:00", "2010-05-11T09:00", (False, 3600)),
    ],
)
def test_whether_an_interval_is_over(every: Any, last: str, now: str, expected: tuple[bool, float]) -> None:
    assert schedule(every, nowfun=lambda: at(now)).is_due(at(last)) == expected


@pytest.mark.parametrize(
    ("every", "last", "now", "expected"),
    [
        (timedelta(hours=1), "2010-05-10T10:20", "2010-05-10T10:50", (False, 600)),
        (timedelta(hours=1), "2010-05-10T10:20", "2010-05-10T11:00", (True, 3600)),
        (timedelta(hours=1), "2010-05-10T10:20", "2010-05-10T11:10", (True, 3000)),
        (timedelta(minutes=5), "2010-05-10T10:20:40", "2010-05-10T10:20:50", (False, 250)),
        (timedelta(days=1), "2010-05-10T10:20", "2010-05-10T23:00", (False, 3600)),
        (timedelta(seconds=2), "2010-05-10T10:20:00.700000", "2010-05-10T10:20:01", (False, 1)),
    ],
)
def test_a_relative_interval_keeps_to_full_units(
    every: timedelta, last: str, now: str, expected: tuple[bool, float]
) -> None:
    assert schedule(every, relative=True, nowfun=lambda: at(now)).is_due(at(last)) == expected


def test_an_interval_is_of_real_time_and_a_relative_day_of_the_calendar() -> None:
    app = Celery("tests", broker="memory://", timezone="Europe/Berlin")
    last, now = at("2023-03-25T12:00", BERLIN), at("2023-03-26T12:00", BERLIN)
    plain = schedule(timedelta(days=1), app=app, nowfun=lambda: now)
    assert plain.remaining_estimate(last) == timedelta(hours=1)
    relative = schedule(timedelta(days=1), relative=True, app=app, nowfun=lambda: now)
    assert relative.remaining_estimate(now) == timedelta(hours=12)


# -- looks, equality, copies


def test_looks_and_equality() -> None:
    assert repr(crontab("*", "*/2", "mon")) == "<crontab: * */2 * * mon (m/h/dM/MY/d)>"
    assert repr(schedule(90)) == "<freq: 1.50 minutes>"
    assert [schedule(every).human_seconds for every in (0.5, 1, 60, 7200, 86400)] == [
        "0.50 second", "1.00 second", "1.00 minute", "2.00 hours", "1.00 day"
    ]  # fmt: skip
    assert crontab(minute="0-59/30") == crontab(minute={0, 30}) != crontab(minute=0)
    assert crontab() != schedule(60)
    assert schedule(60) == timedelta(minutes=1) == schedule(60).run_every
    assert schedule(60) != schedule(61)
    assert len({crontab(), crontab(minute="*"), schedule(1), schedule(1.0)}) == 2


@pytest.mark.parametrize("when", [crontab(minute="*/7", hour=3), schedule(90, relative=True)])
def test_copies(when: Any) -> None:
    for other in (copy.deepcopy(when), pickle.loads(pickle.dumps(when))):  # noqa: S301
        assert other == when
        assert repr(other) == repr(when)


def test_a_line_of_a_crontab() -> None:
    assert crontab.from_string("* * * * *") == crontab()
    assert crontab.from_string("0 0 1 * sun") == crontab(0, 0, "sun", 1)
    with pytest.raises(ValueError, match="five are needed"):
        crontab.from_string("* * * *")


def test_fields_that_cannot_be_read() -> None:
    assert crontab_parser(24).parse("20-3") == {20, 21, 22, 23, 0, 1, 2, 3}
    assert crontab_parser(31, 1).parse("1-7,15-21/3") == {1, 2, 3, 4, 5, 6, 7, 15, 18, 21}
    for bad in ("", "1,,2", "*/", "-1", "60", "a", "1-", "5-70"):
        with pytest.raises(ParseException):
            crontab_parser(60).parse(bad)
    with pytest.raises(TypeError, match="several numbers"):
        crontab(minute=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no month"):
        crontab(day_of_month=31, month_of_year="2,4,6")
