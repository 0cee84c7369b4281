"""Timings in words and lines, and what a plan makes of the time that passes. Slots at clock changes: the next file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from windlass.core.job import Meta, NewJob
from windlass.core.language import every
from windlass.core.schedule import (
    MOST,
    SchedulePlan,
    begin,
    check_schedule_name,
    decode_plan,
    due,
    jitter_of,
    job_of,
    next_run,
    parse_policies,
    with_overlap,
)
from windlass.core.terms import Policy, Terms
from windlass.core.timing import Clock, Cron, Every, Once, cron, describe, newest_slots, next_slot, once_at, remark
from windlass.errors import ConfigError

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NOON = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * 1000
JOB = NewJob(id="", task="t", queue="q", payload=b"{}", meta=Meta("schedule:s").encode())


def plan_of(timing: Any, **fields: Any) -> SchedulePlan:
    return SchedulePlan(timing=timing, job=JOB, **fields)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


# -- words


@pytest.mark.parametrize(
    ("words", "ms"),
    [
        (30, 30_000), (0.25, 250), (timedelta(minutes=5), 300_000), ("10 minutes", 600_000), ("2 hours", 7_200_000),
        ("250ms", 250), ("minute", 60_000), ("every hour", 3_600_000), ("1h 30m", 5_400_000),
        ("Every 2 Days", 172_800_000),
    ],
)  # fmt: skip
def test_intervals(words: Any, ms: int) -> None:
    made = every(words)
    assert isinstance(made, Every)
    assert made.ms == ms


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("day at 03:00", ["0 0 3 * * *"]),
        ("at 03:00", ["0 0 3 * * *"]),
        ("every day at 9:30 pm", ["0 30 21 * * *"]),
        ("monday at 09:00", ["0 0 9 * * 1"]),
        ("mondays at 09:00", ["0 0 9 * * 1"]),
        ("weekday at 9:00", ["0 0 9 * * 1-5"]),
        ("weekend at noon", ["0 0 12 * * 0,6"]),
        ("tue, thu and sat at midnight", ["0 0 0 * * 2,4,6"]),
        ("monday to friday at 8am", ["0 0 8 * * 1,2,3,4,5"]),
        ("fri-mon at 12am", ["0 0 0 * * 5,6,0,1"]),
        ("day at 09:00 and 17:30", ["0 0 9 * * *", "0 30 17 * * *"]),
        ("day at 23:59:30", ["30 59 23 * * *"]),
        ("month on 1 at 00:00", ["0 0 0 1 * *"]),
        ("month on the 1st and 15th at 6:00", ["0 0 6 1,15 * *"]),
        ("month on the last day at 18:00", ["0 0 18 L * *"]),
        ("hour at :15 and :45", ["0 15 * * * *", "0 45 * * * *"]),
    ],
)
def test_days_and_times(words: str, lines: list[str]) -> None:
    made = every(words, tz="Europe/Berlin")
    assert isinstance(made, Cron)
    assert list(made.lines) == lines
    assert made.tz == "Europe/Berlin"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("10 minuets", "did you mean 'minute'"),
        ("mondya at 09:00", "did you mean 'monday'"),
        ("monday", "say at what time, as in 'monday at 09:00'"),
        ("weekdays", "say at what time"),
        ("month", "say at what time"),
        ("other day", "write '2 days'"),
        ("2 days at 03:00", "an interval has no time of day; give start="),
        ("day at 25:00", "'25:00' is no time of day"),
        ("day at 9", "'9' is no time of day"),
        ("day at 13pm", "hours are 1 to 12"),
        ("month on 32 at 00:00", "give days of the month"),
        ("month on 31 february at 00:00", "give days of the month"),
        ("hour at 5", "as in 'hour at :15'"),
        ("5ms", "the shortest interval is 10 ms"),
        ("0 seconds", "shortest"),
        ("", "is not understood"),
        ("often", "give a text such as '10 minutes'"),
        (None, "give seconds, a timedelta, or a text"),
        (True, "give seconds"),
        (-1, "between 0 and 100 years"),
    ],
)
def test_words_that_are_not_understood_say_what_would_be(words: Any, says: str) -> None:
    with pytest.raises(ConfigError, match="(?s)" + says.replace("(", r"\(")):
        every(words)


def test_an_interval_has_no_zone() -> None:
    with pytest.raises(ConfigError, match="has no time zone"):
        every("2 hours", tz="Europe/Berlin")
    with pytest.raises(ConfigError, match="unknown time zone 'Europe/Berln'"):
        every("day at 03:00", tz="Europe/Berln")


# -- lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0 9 * *", "has 4 fields; five are needed"),
        ("0 0 9 * * *", "seconds are given by second="),
        ("0 25 * * *", "bad hour; it may be 0 to 23"),
        ("61 * * * *", "bad minute"),
        ("0 0 * * 8", "0 and 7 are Sunday"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("@dayly", "did you mean '@daily'"),
        (5, "give a text such as"),
    ],
)
def test_lines_that_cannot_be_read(line: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        cron(line)


def test_seconds_and_macros() -> None:
    clock = Clock()
    assert next_slot(cron("* * * * *", second=30), clock, NOON) == NOON + 30 * SECOND
    assert next_slot(cron("@daily"), clock, NOON) == NOON + 12 * HOUR
    with pytest.raises(ConfigError, match="second is 60"):
        cron("* * * * *", second=60)


def test_days_of_the_month_and_of_the_week() -> None:
    """As in every cron: one of them is enough where both are restricted; unless both are asked for."""
    either = cron("0 0 13 * 5")
    both = msgspec.structs.replace(either, both_days=True)
    days = [
        datetime.fromtimestamp(slot / 1000, UTC) for slot in newest_slots(either, Clock(), NOON, NOON + 60 * DAY, 99)
    ]
    assert all(day.day == 13 or day.weekday() == 4 for day in days)
    assert any(day.day == 13 and day.weekday() != 4 for day in days)
    assert next_slot(both, Clock(), NOON) == at("2026-11-13")


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        (every("10 minutes"), "every 10 minutes"),
        (every(90), "every 1m 30s"),
        (every("day at 03:00"), "every day at 03:00"),
        (every("at 03:00"), "every day at 03:00"),
        (cron("0 9 * * 1-5"), "At 09:00 on Monday through Friday"),
        (once_at(datetime(2026, 1, 2, 3, tzinfo=UTC)), "once, at 2026-01-02 03:00:00 UTC"),
    ],
)
def test_timings_in_english(timing: Any, says: str) -> None:
    assert describe(timing) == says


def test_what_the_clock_does_at_a_slot() -> None:
    clock, timing = Clock("Europe/Berlin", repeat="both"), cron("30 2 * * *")
    spring = next_slot(timing, clock, at("2026-03-28T12:00"))
    first = next_slot(timing, clock, at("2026-10-24T12:00"))
    second = next_slot(timing, clock, first)
    assert spring == at("2026-03-29T01:00")
    assert second - first == HOUR
    assert [remark(timing, clock, slot) for slot in (spring, first, second, second + DAY)] == [
        "moved: the local time does not exist", "the first of two", "the second of two", "",
    ]  # fmt: skip
    assert remark(cron("0 3 * * *"), clock, spring) == "", "three o'clock does exist that day"


def test_once() -> None:
    timing = once_at(datetime(2026, 6, 1, 13, tzinfo=UTC))
    assert next_slot(timing, Clock(), NOON) == NOON + HOUR
    assert next_slot(timing, Clock(), NOON + HOUR) == 0
    assert newest_slots(timing, Clock(), NOON, NOON + DAY, 5) == [NOON + HOUR]
    with pytest.raises(ConfigError, match="naive"):
        once_at(datetime(2026, 6, 1, 13))  # noqa: DTZ001


# -- plans


def test_a_plan_survives_its_json() -> None:
    job = msgspec.structs.replace(JOB, payload=b'{"x":1}', terms=Terms(key="k", unique="u"))
    for timing in (cron("0 9 * * 1-5", tz="Europe/Berlin"), every("250ms"), Once(NOON)):
        plan = SchedulePlan(
            timing=timing, job=job, tz="Europe/Berlin", missed="all", jitter=5, start=NOON, limit=3, code=True
        )
        assert decode_plan(plan.encode()) == plan


def test_an_interval_counts_from_the_put_or_from_its_start() -> None:
    plan, slot = begin(plan_of(every("10 minutes")), NOON)
    assert (plan.anchor, slot) == (NOON, NOON + 10 * MINUTE)
    plan, slot = begin(plan_of(every("10 minutes"), start_in=5 * MINUTE), NOON)
    assert slot == NOON + 5 * MINUTE
    assert next_run(plan, slot) == NOON + 15 * MINUTE
    plan, slot = begin(plan_of(every("10 minutes"), start=NOON - 3 * MINUTE), NOON)
    assert slot == NOON + 7 * MINUTE, "a start in the past gives the phase"


def test_the_phase_stays_while_the_times_are_the_same() -> None:
    before, slot = begin(plan_of(every("10 minutes"), start_in=MINUTE), NOON)
    other_words = msgspec.structs.replace(before, timing=every("10m"), start=0, anchor=0, missed="all")
    after, kept = begin(other_words, NOON + 42 * SECOND, before, slot)
    assert (after.anchor, after.start, kept, after.missed) == (before.anchor, before.start, slot, "all")
    changed, anew = begin(plan_of(every("20 minutes"), start_in=MINUTE), NOON + HOUR, before, slot)
    assert (changed.anchor, anew) == (NOON + HOUR + MINUTE, NOON + HOUR + MINUTE)


def test_start_and_end() -> None:
    plan, slot = begin(plan_of(every("day at 03:00"), start=NOON + 2 * DAY, end_in=4 * DAY), NOON)
    assert slot == at("2026-06-04T03:00")
    assert next_run(plan, slot) == at("2026-06-05T03:00")
    assert next_run(plan, slot + DAY) == 0


@pytest.mark.parametrize(
    ("missed", "late", "minutes"),
    [
        ("once", 0, [0]), ("skip", 0, [0]), ("all", 0, [0]),
        ("once", 900, [0]), ("skip", 900, [0]),
        ("once", 30 * SECOND, [0]), ("skip", 30 * SECOND, []), ("all", 30 * SECOND, [0]),
        ("once", 5 * MINUTE + 30 * SECOND, [5]), ("skip", 5 * MINUTE + 30 * SECOND, []),
        ("skip", 5 * MINUTE + 500, [5]), ("once", 5 * MINUTE + 500, [5]),
        ("all", 5 * MINUTE + 30 * SECOND, [0, 1, 2, 3, 4, 5]),
    ],
)  # fmt: skip
def test_missed_runs(missed: Any, late: int, minutes: list[int]) -> None:
    for timing in (every("minute"), cron("* * * * *")):
        plan = plan_of(timing, missed=missed, anchor=NOON)
        slots, behind = due(plan, NOON, 0, NOON + late)
        assert slots == [NOON + minute * MINUTE for minute in minutes]
        assert behind == NOON + (late // MINUTE + 1) * MINUTE


def test_a_quick_schedule_makes_up_for_a_short_delay() -> None:
    plan = plan_of(every("250ms"), anchor=NOON)
    assert due(plan, NOON, 0, NOON + 800) == ([NOON, NOON + 250, NOON + 500, NOON + 750], NOON + 1000)
    assert due(plan, NOON, 0, NOON + 5_100) == ([NOON + 5_000], NOON + 5_250)


def test_at_most_so_many_missed_runs_are_made_up_for_the_newest() -> None:
    for timing, step in ((every("second"), SECOND), (cron("* * * * *"), MINUTE)):
        slots, behind = due(plan_of(timing, missed="all", anchor=NOON), NOON, 0, NOON + 40 * DAY)
        assert len(slots) == MOST
        assert slots == list(range(NOON + 40 * DAY - (MOST - 1) * step, NOON + 40 * DAY + 1, step))
        assert behind == NOON + 40 * DAY + step


def test_a_slot_in_the_row_is_honoured_though_other_time_zone_data_would_not_give_it() -> None:
    assert due(plan_of(cron("0 * * * *")), NOON + 7 * SECOND, 0, NOON + 7 * SECOND) == (
        [NOON + 7 * SECOND],
        NOON + HOUR,
    )


def test_a_limit_ends_it() -> None:
    plan = plan_of(every("minute"), missed="all", limit=3, anchor=NOON)
    assert due(plan, NOON, 0, NOON) == ([NOON], NOON + MINUTE)
    assert due(plan, NOON + MINUTE, 1, NOON + HOUR) == ([NOON + MINUTE, NOON + 2 * MINUTE], 0)
    assert due(plan, NOON + MINUTE, 3, NOON + HOUR) == ([], 0)


def test_its_end_ends_it() -> None:
    plan = plan_of(every("minute"), missed="all", end=NOON + 2 * MINUTE, anchor=NOON)
    assert due(plan, NOON, 0, NOON + HOUR) == ([NOON, NOON + MINUTE, NOON + 2 * MINUTE], 0)


def test_the_job_of_a_slot() -> None:
    job = job_of(plan_of(every("minute")), "nightly", NOON, "id")
    meta = msgspec.json.decode(job.meta, type=Meta)
    assert meta.headers == {"windlass-schedule": "nightly", "windlass-slot": "2026-06-01T12:00:00+00:00"}
    assert (job.id, job.task, job.at, job.delay) == ("id", "t", 0, 0)
    delayed = job_of(SchedulePlan(timing=every("minute"), job=msgspec.structs.replace(JOB, delay=5)), "n", NOON, "id")
    assert (delayed.at, delayed.delay) == (NOON + 5, 0)


def test_jitter_is_the_same_everywhere_and_spread() -> None:
    found = [jitter_of(30_000, "nightly", NOON + day * DAY) for day in range(200)]
    assert found == [jitter_of(30_000, "nightly", NOON + day * DAY) for day in range(200)]
    assert min(found) < 2_000
    assert max(found) > 28_000
    assert max(found) <= 30_000
    assert found != [jitter_of(30_000, "other", NOON + day * DAY) for day in range(200)]
    assert jitter_of(0, "nightly", NOON) == 0


def test_overlap_is_a_unique_key() -> None:
    assert with_overlap(JOB, "s", "allow", "") is JOB
    skip, queue = with_overlap(JOB, "s", "skip", "").terms, with_overlap(JOB, "s", "queue", "").terms
    assert skip is not None
    assert queue is not None
    assert (skip.unique, skip.policy) == ("schedule:s", Policy.KEEP)
    assert (queue.unique, queue.policy) == ("schedule:s", Policy.REPLACE)
    with pytest.raises(ConfigError, match="unique already"):
        with_overlap(msgspec.structs.replace(JOB, terms=Terms(unique="x")), "s", "skip", "schedule s")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"missed": "onse"}, "did you mean 'once'"), ({"overlap": "no"}, "give one of 'allow', 'skip', 'queue'"),
        ({"limit": 0}, "whole number from 1"), ({"tz": "Mars"}, "unknown time zone"), ({"gap": 1}, "'after', 'skip'"),
        ({"start": datetime(2026, 1, 1)}, "naive"), ({"jitter": "x"}, "jitter is 'x'"),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_policies_that_are_none(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_policies(given, "schedule s")


def test_names() -> None:
    assert check_schedule_name("every 10 seconds: add(1, 2)")
    for name in ("", "x" * 192, "a\nb", 5):
        with pytest.raises(ConfigError, match="not usable"):
            check_schedule_name(name)
