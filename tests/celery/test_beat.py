"""Periodic tasks: ``beat_schedule`` and ``add_periodic_task`` run by any worker, without a beat process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.celery.kit import soon, working
from windlass.celery import Celery, chain, group
from windlass.celery.exceptions import ImproperlyConfigured
from windlass.celery.schedules import BaseSchedule, crontab, schedstate, schedule, solar, timing_of
from windlass.core.timing import Clock, newest_slots


def info(app: Celery, name: str) -> Any:
    return app.windlass.sync.schedules.get(name)


def test_entries_run_with_their_arguments_and_options(app: Celery) -> None:
    seen: list[Any] = []

    @app.task(name="note", bind=True)
    def note(self: Any, *args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs, self.request.delivery_info["routing_key"], self.request.delivery_info["priority"]))

    app.conf.beat_schedule = {
        "often": {
            "task": "note", "schedule": 0.1, "args": (1, timedelta(days=1)), "kwargs": {"x": 2},
            "options": {"queue": "side", "priority": 7, "expires": 15},
        },
        "nightly": {"task": "note", "schedule": crontab(hour=3, minute=0)},
    }  # fmt: skip
    with working(app, queues=["celery", "side"]):
        soon(lambda: len(seen) >= 3)
        found = info(app, "nightly")
        assert (found.when, found.in_code, found.tz) == ("At 03:00 every day", True, "UTC")
        jobs = app.windlass.sync.jobs(task="note").jobs
    assert seen[0] == ((1, timedelta(days=1)), {"x": 2}, "side", 7)
    assert all(job.headers["windlass-schedule"] == "often" for job in jobs)
    assert len({job.id for job in jobs}) == len(jobs)


def test_periodic_tasks_of_the_handlers_of_a_configured_app(app: Celery) -> None:
    seen: list[Any] = []

    @app.task(name="note")
    def note(what: str) -> None:
        seen.append(what)

    @app.on_after_configure.connect
    def configured(sender: Celery, **kwargs: Any) -> None:
        sender.add_periodic_task(0.1, note.s("configured"), name="one")
        sender.add_periodic_task(timedelta(seconds=0.1), note.s("by default named"), expires=10)

    @app.on_after_finalize.connect
    def finalized(sender: Celery, **kwargs: Any) -> None:
        sender.add_periodic_task(schedule(0.1), note.s("finalized"), name="two")

    with working(app):
        soon(lambda: set(seen) == {"configured", "by default named", "finalized"})


def test_two_workers_run_each_once(app: Celery) -> None:
    @app.task(name="note")
    def note() -> None: ...

    app.conf.beat_schedule = {"often": {"task": "note", "schedule": 0.1}}
    with working(app), working(app):
        soon(lambda: info(app, "often").fired >= 5)
        jobs = app.windlass.sync.jobs(task="note", limit=1000).jobs
    slots = [job.headers["windlass-slot"] for job in jobs]
    assert len(slots) == len(set(slots))


def test_a_schedule_goes_on_where_it_was_when_the_worker_comes_back(app: Celery) -> None:
    app.task(name="t")(lambda: 1)
    app.conf.beat_schedule = {"hourly": {"task": "t", "schedule": 3600.0, "options": {"expires": 60, "countdown": 5}}}
    with working(app):
        first = info(app, "hourly")
    with working(app):
        assert info(app, "hourly").next_at == first.next_at
    app.conf.beat_schedule = {"hourly": {"task": "t", "schedule": 7200.0}}
    with working(app):
        assert info(app, "hourly").next_at > first.next_at


def test_the_zone_is_the_apps() -> None:
    app = Celery("tests", broker="memory://", timezone="Europe/Berlin")
    app.task(name="t")(lambda: 1)
    app.conf.beat_schedule = {"nightly": {"task": "t", "schedule": crontab(hour=3, minute=0)}}
    with working(app):
        found = info(app, "nightly")
    assert (found.tz, found.next_at.hour) == ("Europe/Berlin", 3)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"task": "t", "schedule": 1, "args": (1, 2, 3)}, "too many positional arguments"),
        ({"task": "t", "schedule": 1, "options": {"link": {"task": "t"}}}, "cannot have link"),
        ({"task": "t", "schedule": 1, "options": {"eta": datetime(2030, 1, 1, tzinfo=UTC)}}, "cannot have eta"),
        ({"task": "t", "schedule": 1, "options": {"quue": "q"}}, "did you mean 'queue'"),
        ({"task": "t", "schedule": 0.001}, "shortest"),
    ],
)
def test_an_entry_that_cannot_be_run_says_why_when_the_worker_starts(app: Celery, entry: Any, says: str) -> None:
    app.task(name="t")(lambda: 1)
    app.conf.beat_schedule = {"bad": entry}
    with pytest.raises(ImproperlyConfigured, match=says):
        app.declare_schedules()


def test_several_tasks_are_no_periodic_task(app: Celery) -> None:
    task = app.task(name="t")(lambda x=0: x)
    for several in (chain(task.s(), task.s()), group(task.s(), task.s())):
        with pytest.raises(ImproperlyConfigured, match="is several; let a task call them"):
            app.add_periodic_task(1, several)


def test_a_zone_without_a_name_is_refused(app: Celery) -> None:
    app.conf.timezone = timezone(timedelta(hours=2))
    app.task(name="t")(lambda: 1)
    app.conf.beat_schedule = {"x": {"task": "t", "schedule": crontab()}}
    with pytest.raises(ImproperlyConfigured, match="schedules need its name"):
        app.declare_schedules()


# -- Celery's crontab, against its own rule walked minute by minute


@pytest.mark.parametrize(
    "when",
    [
        crontab(minute="*/15"), crontab(minute=0, hour="*/3"), crontab(hour={1, 13}, minute=30),
        crontab(minute=0, hour=0, day_of_week=0), crontab(minute=0, hour=0, day_of_week="fri-mon"),
        crontab(minute=0, hour=12, day_of_month=13, day_of_week="fri"),
        crontab(minute="0,30", hour="8-17", day_of_week="mon-fri", month_of_year="*/3"),
        crontab(0, 0, day_of_month="1-7", day_of_week="sunday"),
    ],
    ids=repr,
)  # fmt: skip
def test_crontabs_mean_what_celery_means(when: crontab) -> None:
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    wanted, at = [], begin
    while at < end:
        fields = (at.minute in when.minute, at.hour in when.hour, at.day in when.day_of_month,
                  at.month in when.month_of_year, at.isoweekday() % 7 in when.day_of_week)  # fmt: skip
        if all(fields):
            wanted.append(int(at.timestamp()) * 1000)
        at += timedelta(minutes=1)
    timing, policies = timing_of(when, UTC)
    first, last = int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000 - 1
    assert policies == {}
    assert newest_slots(timing, Clock(), first, last, 100_000) == wanted


def test_a_relative_schedule_keeps_to_full_hours(app: Celery) -> None:
    app.task(name="t")(lambda: 1)
    app.conf.beat_schedule = {"x": {"task": "t", "schedule": schedule(3600.0, relative=True)}}
    with working(app):
        found = info(app, "x")
    assert (found.next_at.minute, found.next_at.second) == (0, 0)


def test_a_clock_of_ones_own_is_refused() -> None:
    app = Celery("tests", broker="memory://")

    class Own(crontab):
        def is_due(self, last_run_at: datetime) -> schedstate:
            return schedstate(True, 1)

    for when, why in (
        (crontab(nowfun=lambda: datetime.now(UTC)), "store's clock"),
        (schedule(10, nowfun=lambda: datetime.now(UTC)), "store's clock"),
        (Own(), "is_due of its own"),
        (BaseSchedule(), "of its own kind"),
    ):
        with pytest.raises(ImproperlyConfigured, match=rf"beat_schedule\['x'\].*{why}"):
            app.conf.beat_schedule = {"x": {"task": "t", "schedule": when}}
    with pytest.raises(ValueError, match="almanac"):
        solar("sunset", 52.5, 13.4)
