"""Schedules fired by workers: once per slot however many there are, on time, and by the policies when late."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.servers.redis import RedisServer, fresh_prefix
from tests.worker.helpers import SHORT, Fleet, Ledger, eventually, within
from windlass import ConfigError, StoreUnavailable, UnknownSchedule, Windlass, cron, current, every, once_at
from windlass.core.job import Job, Meta
from windlass.core.schedule import GONE
from windlass.core.timing import Clock, newest_slots
from windlass.operate.timetable import Schedule, put, read_rows
from windlass.store.answers import MAX_BATCH
from windlass.store.items import Put, put_one
from windlass.store.jobs import Query
from windlass.store.memory import MemoryStore
from windlass.testing import Harness
from windlass.testing.clock import VirtualClock
from windlass.testing.failing import FailingStore, Faults
from windlass.worker.scheduler import LISTS, Scheduler

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = 60_000


class Stage:
    """An app on a memory store under a virtual clock, and any number of schedulers of it."""

    def __init__(self) -> None:
        self.clock, self.faults = VirtualClock(START), Faults()
        self.app = Windlass("staged", "memory://")
        self.app.store_factory = self.store
        self.zero = self.clock.ms

        @self.app.task(name="t")
        async def task(x: int = 0) -> int:
            return x

        self.task = task

    def store(self) -> FailingStore:
        plain = MemoryStore(f"{self.app.url}-staged", self.app.settings.for_store("staged"), self.clock)
        return FailingStore(plain, self.faults)

    async def scheduler(self, app: Windlass | None = None) -> Scheduler:
        app = app or self.app
        made = Scheduler(app, (await app.client()).store, self.clock)
        await made.declare()
        return made

    async def jobs(self) -> list[Job]:
        store = (await self.app.client()).store
        found, query = [], Query(limit=MAX_BATCH, oldest_first=True)
        while True:
            page = await store.find(query)
            found += page.jobs
            if not page.cursor:
                return found
            query = Query(limit=MAX_BATCH, oldest_first=True, after=page.cursor)

    async def fired(self, name: str = "") -> list[int]:
        """Minutes after the start, of every slot that was fired."""
        headers = [Meta(**decode(job.meta)).headers for job in await self.jobs()]
        slots = [header["windlass-slot"] for header in headers if name in ("", header["windlass-schedule"])]
        return [round((datetime.fromisoformat(slot) - START).total_seconds() / 60) for slot in slots]


def decode(meta: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(meta)
    return found


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    async with stage.app:
        yield stage


# -- once per slot


@pytest.mark.parametrize("seed", range(5))
async def test_many_schedulers_fire_every_slot_once(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)
    timings = {f"s{n}": every(f"{dice.randint(1, 9)} minutes") for n in range(20)} | {
        f"c{n}": cron(f"{dice.randint(0, 59)} * * * *") for n in range(5)
    }
    for name, timing in timings.items():
        await stage.app.schedules.put(name, timing, stage.task, missed="all")
    schedulers = [await stage.scheduler() for _ in range(4)]
    while stage.clock.ms < stage.zero + 180 * MINUTE:
        stage.clock.ms += dice.choice([500, 20_000, MINUTE, 7 * MINUTE])
        for scheduler in dice.sample(schedulers, k=dice.randint(1, 4)):
            if dice.random() < 0.1:
                stage.faults.lose_reply("commit")
            with contextlib.suppress(StoreUnavailable):
                while await scheduler.step() == 0.0:
                    pass
        stage.faults.clear()
    while await schedulers[0].step() == 0.0:
        pass
    counted = Counter((header["windlass-schedule"], header["windlass-slot"]) for header in
                      (decode(job.meta)["headers"] for job in await stage.jobs()))  # fmt: skip
    wanted = [
        (name, datetime.fromtimestamp(slot / 1000, UTC).isoformat()) for name, timing in timings.items()
        for slot in newest_slots(timing, Clock(anchor=stage.zero), stage.zero + 1, stage.clock.ms, 10_000)
    ]  # fmt: skip
    assert counted == Counter(wanted)


async def test_a_slot_that_was_fired_is_not_fired_again_by_a_late_put(stage: Stage) -> None:
    """Whoever changes a schedule writes the slot that was read, and a worker may have fired that meanwhile."""
    await stage.app.schedules.put("s", every("minute"), stage.task)
    store = (await stage.app.client()).store
    scheduler = await stage.scheduler()
    (read,) = await read_rows(store, ["s"])
    stage.clock.ms += MINUTE
    while await scheduler.step() == 0.0:
        pass
    assert await put(store, [read]) == [None]
    stage.clock.ms += 10_000
    await scheduler.catch_up()
    assert await stage.fired() == [1]
    stage.clock.ms += 50_000
    await scheduler.catch_up()
    assert await stage.fired() == [1, 2]


# -- when late


@pytest.mark.parametrize(("missed", "slots"), [("once", [5]), ("skip", []), ("all", [1, 2, 3, 4, 5])])
async def test_missed_runs(stage: Stage, missed: Any, slots: list[int]) -> None:
    await stage.app.schedules.put("s", every("minute"), stage.task, missed=missed)
    stage.clock.ms += 5 * MINUTE + 30_000
    await (await stage.scheduler()).catch_up()
    assert await stage.fired() == slots
    stage.clock.ms += MINUTE
    await (await stage.scheduler()).catch_up()
    assert await stage.fired() == ([*slots, 6] if missed != "skip" else [])


async def test_more_missed_runs_than_fit_a_call(stage: Stage) -> None:
    for name in ("a", "b"):
        await stage.app.schedules.put(name, every("second"), stage.task, missed="all")
    stage.clock.ms += 700_500
    await (await stage.scheduler()).catch_up()
    assert len(await stage.fired("a")) == len(await stage.fired("b")) == 700


async def test_a_limit_and_an_end(stage: Stage) -> None:
    limited = await stage.app.schedules.put("limited", every("minute"), stage.task, limit=3)
    ended = await stage.app.schedules.put("ended", every("minute"), stage.task, end="2m 30s", start="30s")
    assert (limited.limit, ended.next_at) == (3, START + timedelta(seconds=30))
    scheduler = await stage.scheduler()
    for _ in range(20):
        stage.clock.ms += MINUTE // 2
        await scheduler.catch_up()
    assert await stage.fired("limited") == [1, 2, 3]
    assert len(await stage.fired("ended")) == 3
    for name in ("limited", "ended"):
        info = await stage.app.schedules.get(name)
        assert info is not None
        assert info.next_at is None


async def test_jitter_puts_the_job_off(stage: Stage) -> None:
    await stage.app.schedules.put("s", every("minute"), stage.task, jitter="30s")
    scheduler = await stage.scheduler()
    for _ in range(20):
        stage.clock.ms += MINUTE
        await scheduler.catch_up()
    late = [job.due_at - (stage.zero + MINUTE * (n + 1)) for n, job in enumerate(await stage.jobs())]
    assert all(0 <= ms <= 30_000 for ms in late)
    assert len(set(late)) > 10


async def test_once(stage: Stage) -> None:
    await stage.app.schedules.put("s", once_at(START + timedelta(minutes=3)), stage.task, args=[7])
    scheduler = await stage.scheduler()
    for _ in range(5):
        stage.clock.ms += MINUTE
        await scheduler.catch_up()
    assert await stage.fired() == [3]
    with pytest.raises(ConfigError, match="would never run"):
        await stage.app.schedules.put("late", once_at(START), stage.task)


# -- the loop


async def test_an_idle_worker_asks_the_store_for_nothing(stage: Stage) -> None:
    for n in range(1000):
        await stage.app.schedules.put(f"s{n}", cron(f"{n % 60} {n % 24} * * *"), stage.task)
    scheduler = await stage.scheduler()
    assert await scheduler.step() > 1
    before = stage.faults.calls.total()
    for _ in range(100):
        assert await scheduler.step() > 0
    assert stage.faults.calls.total() == before


async def test_changes_are_read_when_the_stamp_says_so_and_not_all_the_time(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await scheduler.step()
    await stage.app.schedules.put("s", every("minute"), stage.task)
    heeded = (await (await stage.app.client()).store.moment()).heeded
    scheduler.heed(heeded)

    async def known() -> bool:
        return await scheduler.step() >= 0 and bool(scheduler._heap)

    await eventually(known)
    scheduler.heed(heeded)
    before = stage.faults.calls["moment"]
    await scheduler.step()
    assert stage.faults.calls["moment"] == before


async def test_a_store_that_cannot_be_reached_is_tried_again(stage: Stage) -> None:
    await stage.app.schedules.put("s", every("minute"), stage.task)
    scheduler = await stage.scheduler()
    stage.faults.fail("moment", times=2)
    running = asyncio.create_task(scheduler.run())
    await eventually(lambda: scheduler._heap)
    stage.faults.fail("commit", times=2)
    stage.clock.ms += MINUTE
    scheduler._woken.set()
    await eventually(stage.jobs)
    running.cancel()
    assert await stage.fired() == [1]


async def test_a_schedule_that_cannot_be_read_is_left_to_others(stage: Stage, caplog: Any) -> None:
    store = (await stage.app.client()).store
    await put(store, [Schedule(name="new", body=b'{"timing":{"kind":"moon"}}', next_slot=stage.zero + 1)])
    await stage.app.schedules.put("s", every("minute"), stage.task)
    stage.clock.ms += MINUTE
    await (await stage.scheduler()).catch_up()
    assert await stage.fired() == [1]
    assert "schedule new cannot be read here" in caplog.text


async def test_a_job_that_is_not_taken_in_is_told(stage: Stage, caplog: Any) -> None:
    await stage.app.schedules.put("s", every("minute"), stage.task)
    queue = stage.app.queue("default")
    await queue.drain(timeout=1)
    stage.clock.ms += MINUTE
    await (await stage.scheduler()).catch_up()
    assert "the job of schedule s was not taken in" in caplog.text


# -- what the code declares


def declared(stage: Stage, **timings: Any) -> Windlass:
    """Another release of the app, on the same store."""
    app = Windlass("staged", stage.app.url)
    app.store_factory = stage.store
    task = app.task(name="t")(lambda x=0: x)
    for name, timing in timings.items():
        app.schedule(timing, name=name)(task)
    return app


async def test_a_new_release_keeps_slots_whose_times_stay(stage: Stage) -> None:
    async with declared(stage, a=every("10 minutes"), b=every("10 minutes")) as old:
        await stage.scheduler(old)
    stage.clock.ms += 3 * MINUTE
    async with declared(stage, a=every("10m"), b=every("20 minutes")) as new:
        await stage.scheduler(new)
        found = {info.name: info.next_at for info in await new.schedules.list()}
    assert found == {"a": START + timedelta(minutes=10), "b": START + timedelta(minutes=23)}


async def test_what_was_put_at_run_time_is_not_overwritten_by_the_code(stage: Stage, caplog: Any) -> None:
    await stage.app.schedules.put("a", every("hour"), stage.task)
    async with declared(stage, a=every("minute")) as app:
        await stage.scheduler(app)
    info = await stage.app.schedules.get("a")
    assert info is not None
    assert (info.when, info.in_code) == ("every hour", False)
    assert "was put at run time" in caplog.text


async def test_a_pause_outlives_a_new_release(stage: Stage) -> None:
    async with declared(stage, a=every("minute")) as old:
        await stage.scheduler(old)
    await stage.app.schedules.pause("a", "until monday")
    async with declared(stage, a=every("2 minutes")) as new:
        await stage.scheduler(new)
        info = await new.schedules.get("a")
    assert info is not None
    assert (info.paused, info.when) == ("until monday", "every 2 minutes")


async def test_what_is_no_longer_in_the_code_of_any_live_worker_is_paused_until_it_is_back(url: str) -> None:
    def release(*names: str) -> Windlass:
        app = Windlass("released", url, **SHORT)
        task = app.task(name="t")(lambda: None)
        for name in names:
            app.schedule(every("1 hour"), name=name)(task)
        return app

    first = release("kept", "dropped")
    url = first.url
    other, second = release("kept"), release("kept")

    async def pauses() -> dict[str, str]:
        return {info.name: info.paused for info in await first.schedules.list()}

    async with first, other, second:
        async with first.worker(), other.worker() as newer:
            newer._scheduler._refresh_at = 0.0
            newer._scheduler._woken.set()
            await eventually(lambda: newer._scheduler._refresh_at)
            assert await pauses() == {"kept": "", "dropped": ""}, "an old worker still declares it"
        async with second.worker():
            await eventually(lambda: is_paused(first, "dropped"))
            assert await pauses() == {"kept": "", "dropped": GONE}
        async with first.worker():
            assert await pauses() == {"kept": "", "dropped": ""}


async def test_nothing_is_paused_while_what_a_live_worker_declares_is_not_known() -> None:
    old = Windlass("released", "memory://", **SHORT)
    old.schedule(every("1 hour"), name="a")(old.task(name="t")(lambda: None))
    new = Windlass("released", old.url, **SHORT)
    new.task(name="t")(lambda: None)
    async with old, new, old.worker() as worker:
        store = (await old.client()).store
        await put_one(store, Put(shelf=LISTS, key=worker._scheduler.digest, body=None))
        async with new.worker() as other:
            await eventually(lambda: other._scheduler._rows)
            await other._scheduler._tend()
            assert not await is_paused(new, "a")


async def is_paused(app: Windlass, name: str) -> bool:
    info = await app.schedules.get(name)
    return info is not None and bool(info.paused)


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
