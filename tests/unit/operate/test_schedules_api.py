"""What ``@app.schedule`` and ``app.schedules.put`` refuse, and what they make of options."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import ConfigError, PayloadError, Windlass, cron, every, once_at
from windlass.core.schedule import decode_plan
from windlass.core.terms import Policy
from windlass.operate.timetable import read_rows


@pytest.fixture
async def app() -> AsyncIterator[Windlass]:
    async with Windlass("shop", "memory://", tz="Europe/Berlin") as app:

        @app.task(name="t", queue="side", priority=7)
        async def task(x: int = 0) -> int:
            return x

        yield app


async def plan_of(app: Windlass, name: str) -> Any:
    (row,) = await read_rows((await app.client()).store, [name])
    return decode_plan(row.body)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"jiter": 5}, "unknown option 'jiter' (did you mean 'jitter'?)"),
        ({"id": "x"}, "id is for one job, and a schedule makes many"),
        ({"at": datetime(2030, 1, 1, tzinfo=UTC)}, "at is for one job"),
        ({"missed": "never"}, "missed is 'never'"),
        ({"priority": 12}, "priority is 12"),
        ({"tz": "Mars"}, "unknown time zone 'Mars'"),
        ({"args": "abc"}, "args is 'abc'; give a list"),
        ({"args": [1, 2, 3]}, "too many positional arguments"),
        ({"kwargs": {"y": 1}}, "unexpected keyword argument 'y'"),
        ({"overlap": "skip", "unique": True}, "its calls are unique already"),
        ({"limit": -1}, "limit is -1"),
    ],
)
async def test_what_is_refused(app: Windlass, given: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, PayloadError)) as caught:
        await app.schedules.put("s", every("minute"), "t", **given)
    assert says in str(caught.value)
    assert await app.schedules.list() == []


async def test_timings_names_and_zones_that_are_refused(app: Windlass) -> None:
    with pytest.raises(ConfigError, match=r"the timing is '10 minutes'; give cron"):
        await app.schedules.put("s", "10 minutes", "t")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not usable"):
        await app.schedules.put("", every("minute"), "t")
    with pytest.raises(ConfigError, match="its timing is in Asia/Tokyo, and tz='UTC'"):
        await app.schedules.put("s", cron("0 3 * * *", tz="Asia/Tokyo"), "t", tz="UTC")
    with pytest.raises(ConfigError, match="is not declared here, so give its arguments by kwargs="):
        await app.schedules.put("s", every("minute"), "another.service", args=[1])
    with pytest.raises(ConfigError, match="would never run"):
        await app.schedules.put("s", every("day at 03:00"), "t", end="1ms")


async def test_two_schedules_of_one_name(app: Windlass) -> None:
    task = app.tasks["t"]
    app.schedule(every("minute"))(task)
    app.schedule(every("minute"))(task)
    with pytest.raises(ConfigError, match="two schedules want the name 't'"):
        app.schedule(every("hour"))(task)
    with pytest.raises(ConfigError, match="for tasks and functions, not for 5"):
        app.schedule(every("hour"))(5)


async def test_options_of_calls_are_those_of_its_jobs(app: Windlass) -> None:
    options: Any = {"expires": 30, "headers": {"h": "1"}, "delay": 5}
    put = await app.schedules.put("s", every("minute"), app.tasks["t"], args=[3], **options)
    assert (put.task, put.queue, put.args, put.tz, put.in_code) == ("t", "side", {"x": 3}, "Europe/Berlin", False)
    job = (await plan_of(app, "s")).job
    assert (job.priority, job.expires_in, job.delay, job.id) == (7, 30_000, 5_000, "")
    other = await app.schedules.put("o", every("minute"), "another.service", kwargs={"y": [1]}, queue="theirs")
    assert (other.task, other.queue, other.args) == ("another.service", "theirs", {"y": [1]})


async def test_overlap_is_part_of_the_terms(app: Windlass) -> None:
    await app.schedules.put("s", every("minute"), "t", overlap="queue", key="k", key_limit=2)
    terms = (await plan_of(app, "s")).job.terms
    assert (terms.unique, terms.policy, terms.key, terms.key_limit) == ("schedule:s", Policy.REPLACE, "k", 2)


async def test_a_put_keeps_what_stays_the_same(app: Windlass) -> None:
    first = await app.schedules.put("s", every("hour"), "t")
    again = await app.schedules.put("s", every("60 minutes"), "t", args=[9], missed="all")
    assert (again.next_at, again.args, again.missed) == (first.next_at, {"x": 9}, "all")
    await app.schedules.pause("s", "why")
    assert (await app.schedules.put("s", every("2 hours"), "t")).paused == "why"
    assert (await app.schedules.pause("s", "other")).paused == "why", "the first reason stands"
    assert (await app.schedules.resume("s")).paused == ""


async def test_previews(app: Windlass) -> None:
    await app.schedules.put("s", every("day at 03:00"), "t")
    start = datetime(2026, 5, 1, tzinfo=UTC)
    runs = await app.schedules.preview("s", n=2, start=start)
    assert [at.isoformat() for at in runs] == ["2026-05-01T03:00:00+02:00", "2026-05-02T03:00:00+02:00"]
    now = datetime.now(UTC).replace(microsecond=0)
    runs = await app.schedules.preview(every("6 hours"), start=now, end=now + timedelta(hours=23))
    assert len(runs) == 4
    assert await app.schedules.preview(once_at(start), start=start) == [start]
    tokyo = await app.schedules.preview(cron("0 3 * * *", tz="Asia/Tokyo"), n=1)
    assert (tokyo[0].hour, str(tokyo[0].tzinfo)) == (3, "Asia/Tokyo")
