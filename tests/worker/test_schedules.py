"""Schedules fired by workers: once per slot however many there are, on time, and by the policies when late."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.worker.helpers import SHORT, eventually
from windlass import ConfigError, StoreUnavailable, Windlass, cron, every, once_at
from windlass.core.job import Job, Meta
from windlass.core.schedule import GONE
from windlass.core.timing import Clock, newest_slots
from windlass.operate.timetable import Schedule, put, read_rows
from windlass.store.answers import MAX_BATCH
from windlass.store.items import Put, put_one
from windlass.store.jobs import Query
from windlass.store.memory import MemoryStore
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
        self.app.connections.store_factory = self.store
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
    app.connections.store_factory = stage.store
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
