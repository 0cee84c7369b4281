"""Schedules on real workers and in the harness: slots, overlaps, deaths of workers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import SHORT, Fleet, Ledger, eventually, within
from windlass import ConfigError, UnknownSchedule, Windlass, current, every
from windlass.testing import Harness
from windlass.testing.clock import VirtualClock

# -- real workers


async def test_above_and_below_the_task(app: Windlass) -> None:
    seen: list[Any] = []

    @app.schedule(every("100ms"), args=["above"], name="above")
    @app.task(name="one")
    async def one(what: str) -> None:
        seen.append(what)

    @app.task(name="two")
    @app.schedule(every("100ms"), kwargs={"what": "below"})
    @app.schedule(every("100ms"), kwargs={"what": "twice"}, name="another")
    def two(what: str) -> None:
        seen.append(what)

    async with app.worker():
        await eventually(lambda: set(seen) == {"above", "below", "twice"})
        assert sorted(info.name for info in await app.schedules.list()) == ["above", "another", "two"]


async def test_a_quick_schedule_runs_once_per_slot_on_several_workers(app: Windlass) -> None:
    await run_on_several_workers(app)


async def test_the_same_on_redis(redis7: RedisServer) -> None:
    async with Windlass(fresh_prefix(), redis7.url, **SHORT) as app:
        await run_on_several_workers(app)


async def run_on_several_workers(app: Windlass) -> None:
    slots: list[str] = []

    @app.schedule(every("50ms"), name="quick")
    @app.task(name="tick")
    async def tick() -> None:
        slots.append(current().headers["windlass-slot"])

    async with app.worker(), app.worker(), app.worker():
        await eventually(lambda: len(slots) >= 30)
    assert len(slots) == len(set(slots))


async def test_schedules_put_at_run_time_are_heard_of_by_a_worker_that_sleeps(app: Windlass) -> None:
    ran = asyncio.Event()

    @app.task(name="t")
    async def task() -> None:
        ran.set()

    async with app.worker():
        await app.schedules.put("s", every("100ms"), "t")
        await within(ran.wait(), 10)
        info = await app.schedules.pause("s")
        assert info.paused == "paused"
        fired = info.fired
        info = await app.schedules.resume("s")
        assert info.paused == ""
        await eventually(lambda: has_fired(app, "s", fired + 2))
        assert await app.schedules.remove("s")
        assert not await app.schedules.remove("s")
        assert await app.schedules.get("s") is None


async def has_fired(app: Windlass, name: str, times: int) -> bool:
    info = await app.schedules.get(name)
    return info is not None and info.fired >= times


async def test_run_makes_a_job_now_and_leaves_the_slots(app: Windlass) -> None:
    @app.task(name="t")
    async def task(x: int) -> tuple[int, str]:
        return x, current().headers["windlass-schedule"]

    put = await app.schedules.put("s", every("hour"), task, args=[4], jitter="10m")
    async with app.worker():
        handle = await app.schedules.run("s")
        assert await handle.result(timeout=10) == (4, "s")
    info = await app.schedules.get("s")
    assert info is not None
    assert (info.next_at, info.fired) == (put.next_at, 0)
    for call in (app.schedules.run, app.schedules.pause, app.schedules.resume, app.schedules.preview):
        with pytest.raises(UnknownSchedule, match="there is no schedule 'never'"):
            await call("never")


async def test_a_run_that_lasts_is_not_overlapped(app: Windlass) -> None:
    running, most, runs = 0, 0, 0
    release = asyncio.Event()

    @app.task(name="t")
    async def task() -> None:
        nonlocal running, most, runs
        running, runs = running + 1, runs + 1
        most = max(most, running)
        await release.wait()
        running -= 1

    await app.schedules.put("s", every("50ms"), "t", overlap="skip")
    async with app.worker():
        await eventually(lambda: has_fired(app, "s", 5))
        assert (most, runs) == (1, 1)
        release.set()
        await eventually(lambda: runs > 3)
        await app.schedules.remove("s")
    assert most == 1


async def test_a_run_that_lasts_is_followed_by_one(app: Windlass) -> None:
    runs: list[str] = []
    release = asyncio.Event()

    @app.task(name="t")
    async def task() -> None:
        runs.append(current().headers["windlass-slot"])
        await release.wait()

    await app.schedules.put("s", every("50ms"), "t", overlap="queue", limit=6)
    async with app.worker():
        await eventually(lambda: has_fired(app, "s", 6))
        assert len(runs) == 1
        assert sum((await app.queue("default").counts()).values()) == 2
        release.set()
        await eventually(lambda: len(runs) == 2)


async def test_events_tell_of_slots(app: Windlass) -> None:
    @app.task(name="t", queue="side")
    async def task() -> None: ...

    await app.schedules.put("s", every("50ms"), "t", limit=1)
    async with app.worker():
        event = await within(anext(app.events(kinds=["schedule_fired"], since="0")), 10)
    info = await app.schedules.get("s")
    assert info is not None
    assert (event.job, event.task, event.queue, event.data["jobs"]) == ("s", "t", "side", [info.last_job])


async def test_a_schedule_that_is_wrong_keeps_a_worker_from_starting(app: Windlass) -> None:
    app.task(name="t")(lambda: None)
    app.schedule(every("hour"))(lambda: None)
    with pytest.raises(ConfigError, match="which is no task: add @"):
        async with app.worker():
            pass


async def test_workers_that_are_killed_lose_no_slot_and_repeat_none(tmp_path: Path) -> None:
    env = {"E2E_URL": f"sqlite:///{tmp_path}/fleet.db?durability=normal", "E2E_LEDGER": str(tmp_path / "ledger")}
    fleet, ledger = Fleet("tests.worker.scheduled:app", tmp_path, env), Ledger(tmp_path / "ledger")
    try:
        workers = [fleet.start(), fleet.start()]
        await eventually(lambda: len(ledger.lines()) >= 10)
        for _ in range(3):
            workers.pop(0).kill()
            workers.append(fleet.start())
            seen = len(ledger.lines())
            await eventually(lambda seen=seen: len(ledger.lines()) >= seen + 10)  # type: ignore[misc]
        for worker in workers:
            worker.term()
            worker.wait()
        async with Windlass("scheduled", env["E2E_URL"]) as app:
            info = await app.schedules.get("quick")
            page = await app.jobs(limit=1000)
        assert info is not None
        assert info.last_at is not None
        assert info.fired == len(page.jobs)
        slots = sorted(datetime.fromisoformat(job.headers["windlass-slot"]) for job in page.jobs)
        assert slots[-1] == info.last_at
        assert slots == [slots[0] + n * timedelta(milliseconds=100) for n in range(len(slots))]
    finally:
        fleet.end()


# -- for users' tests


async def test_the_harness_moves_from_slot_to_slot() -> None:
    app = Windlass("shop", "memory://", tz="Europe/Berlin")
    seen: list[str] = []

    @app.schedule(every("day at 02:30"))
    @app.task(name="nightly")
    async def nightly() -> None:
        seen.append(current().headers["windlass-slot"])

    async with Harness(app, clock=VirtualClock(datetime(2026, 3, 27, 12, tzinfo=UTC))) as h:
        await h.advance("3d")
        h.assert_enqueued(nightly, count=3)
    assert seen == ["2026-03-28T01:30:00+00:00", "2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00"]


def test_sync_code_has_the_same(tmp_path: Path) -> None:
    app = Windlass("shop", f"sqlite:///{tmp_path}/jobs.db?durability=normal")
    app.task(name="t")(lambda x: x)
    schedules = app.sync.schedules
    put = schedules.put("s", every("day at 03:00"), "t", kwargs={"x": 1}, tz="Asia/Tokyo")
    assert [info.name for info in schedules.list()] == ["s"]
    assert schedules.get("s") == put
    assert schedules.pause("s", "why").paused == "why"
    assert schedules.resume("s").paused == ""
    assert len(schedules.preview("s", n=3)) == 3
    assert schedules.run("s").id
    assert schedules.remove("s")
    app.sync.close()
