"""The scheduler in every worker: it fires schedules when their slots come. There is no scheduler process to lose.

Each worker knows all schedules and sleeps until the earliest slot. The first worker moves the row on and inserts the
job in one step of the store; the others are answered the row as it is then. So the number of workers does not matter,
and every worker would decide the same. Time is the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from windlass.calls.watch import firing
from windlass.core.schedule import GONE, SchedulePlan, begin, decode_plan, due, job_of
from windlass.errors import StoreError
from windlass.operate.timetable import Fired, Firing, Schedule, fire, put, read_all, read_rows
from windlass.store.answers import MAX_BATCH, Accept
from windlass.store.base import Store
from windlass.store.items import Put, put_all
from windlass.support.ids import new_id
from windlass.support.logs import Steady

if TYPE_CHECKING:
    from windlass.app import Windlass

log = Steady(logging.getLogger("windlass.worker"))

REFRESH = 30.0
"""Seconds after which schedules are read again though nothing was heard of them."""
SPARE = 100.0
"""Reading them takes at most one part in so many of this worker's time, however often they change."""
CALM_FIRST, CALM_MAX = 0.1, 5.0
"""The stamp also changes when others fire, which need not be known: seconds between readings that find nothing else."""
RETRY_FIRST, RETRY_MAX = 0.05, 2.0
LISTS = "schedules.declared"
LIST_TTL = 86_400_000
LIST_RENEWED = 6 * 3600.0
"""What a worker declares is kept for a day (ms), and renewed every six hours (s)."""
TRIES = 10


def steady_ms() -> int:
    """A clock that is never set: the difference of two readings is the time that passed."""
    return time.monotonic_ns() // 1_000_000


class Scheduler:
    """``heed`` takes the stamp in the store's replies; ``step`` does what is due; ``run`` repeats that."""

    def __init__(self, app: Windlass, store: Store, clock: Callable[[], int] = steady_ms) -> None:
        self._app, self._store, self._clock = app, store, clock
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._offset = 0  # the store's clock minus ours
        self._stamp = 0
        self._stale = True
        self._not_before = self._refresh_at = self._renew_at = self._calm = 0.0
        self._mine: dict[str, SchedulePlan] = {}
        self._rows: dict[str, Schedule] = {}
        self._plans: dict[str, tuple[bytes, SchedulePlan | None]] = {}
        self._heap: list[tuple[int, str]] = []
        self.digest = self.worker = ""

    # -- what the code declares

    async def declare(self) -> None:
        """Write the schedules of the code before this worker is visible: others may ask what a visible worker
        declares.
        """
        self._mine = self._app.schedules.plans()
        names = sorted(self._mine)
        if names:
            self._list = msgspec.json.encode(names)
            self.digest = blake2b(self._list, digest_size=8).hexdigest()
            await self._renew_list()
        for first in range(0, len(names), MAX_BATCH):
            await self._put(names[first : first + MAX_BATCH])

    async def _renew_list(self) -> None:
        await put_all(self._store, [Put(shelf=LISTS, key=self.digest, body=self._list, ttl=LIST_TTL)])
        self._renew_at = self._loop.time() + LIST_RENEWED

    async def _put(self, names: list[str]) -> None:
        for _ in range(TRIES):
            now = (await self._store.moment()).now
            rows = {row.name: row for row in await read_rows(self._store, names)}
            changed = [row for name in names if (row := self._declared(name, rows.get(name), now)) is not None]
            if not changed:
                return
            done = await put(self._store, changed)
            names = [row.name for row, after in zip(changed, done, strict=True) if after is None]
            if not names:
                return
        log.warning("schedules %s are being changed by others all the time", ", ".join(names))

    def _declared(self, name: str, row: Schedule | None, now: int) -> Schedule | None:
        """What to write of one schedule of the code; None if the row says the same or is not the code's."""
        plan = self._mine[name]
        if row is None:
            begun, slot = begin(plan, now)
            return Schedule(name=name, body=begun.encode(), next_slot=slot)
        before = self._plan(row)
        if before is not None and not before.code:
            log.warning("schedule %s was put at run time, so what the code says of it is not used; remove it", name)
            return None
        begun, slot = begin(plan, now, before, row.next_slot)
        paused = "" if row.paused == GONE else row.paused
        if begun == before and paused == row.paused:
            return None
        return msgspec.structs.replace(row, body=begun.encode(), next_slot=slot, paused=paused)

    async def _tend(self) -> None:
        """Pause schedules that no live worker declares any more; resume those that were paused for that and that this
        worker declares.
        """
        if self.digest and self._loop.time() >= self._renew_at:
            await self._renew_list()
        back = [name for name in self._mine if (row := self._rows.get(name)) is not None and row.paused == GONE]
        if back:
            await self._put(back[:MAX_BATCH])
        strange = [row for row in self._rows.values() if not row.paused and self._is_strange(row)]
        if not strange or (known := await self._declared_anywhere()) is None:
            return
        gone = [msgspec.structs.replace(row, paused=GONE) for row in strange if row.name not in known][:MAX_BATCH]
        for row in await put(self._store, gone) if gone else ():
            if row is not None:
                log.warning("schedule %s is paused: it is %s of any worker", row.name, GONE)

    def _is_strange(self, row: Schedule) -> bool:
        plan = self._plan(row)
        return plan is not None and plan.code and row.name not in self._mine

    async def _declared_anywhere(self) -> set[str] | None:
        """The schedules that live workers declare; None where that cannot be told."""
        loads = [worker.presence.load for worker in await self._store.workers() if worker.alive]
        digests = sorted({str(load["schedules"]) for load in loads if load.get("schedules")})
        lists = await self._store.items(LISTS, digests)
        if not all(item.version for item in lists):
            return None
        return {name for item in lists for name in msgspec.json.decode(item.body, type=list[str])}

    # -- the loop

    def heed(self, stamp: int) -> None:
        """Take the stamp of a reply. A stamp other than that of the last reading means that a schedule has changed."""
        if stamp != self._stamp and not self._stale:
            self._stale = True
            self._woken.set()

    async def run(self) -> None:
        """Step until cancelled."""
        pause = RETRY_FIRST
        while True:
            try:
                wait = await self.step()
                pause = RETRY_FIRST
            except StoreError as error:
                log.warning("schedules cannot be seen to, will go on trying: %s", error)
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            except Exception:
                # Any error is survived: a worker without its scheduler would look alive while nothing runs on time.
                log.exception("a bug in the scheduler")
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
            self._woken.clear()

    async def step(self) -> float:
        """Read what has changed and fire what is due. Answers the seconds until there is something to do again."""
        moment = self._loop.time()
        if moment >= self._refresh_at or (self._stale and moment >= self._not_before):
            tend = moment >= self._refresh_at
            await self._read()
            if tend:
                await self._tend()
        if await self._fire_due():
            return 0.0
        moment = self._loop.time()
        waits = [self._refresh_at - moment]
        if self._stale:
            waits.append(self._not_before - moment)
        if self._heap:
            # One millisecond more: slots are whole milliseconds, and the timer may fire within one.
            waits.append((self._heap[0][0] - self.now() + 1) / 1000)
        return max(0.0, min(waits))

    async def catch_up(self) -> int:
        """Read the schedules and fire all that is due. Answers the ms until the next slot, -1 for none. For callers
        that move the clock themselves.
        """
        await self._read()
        while await self._fire_due():
            pass
        return max(0, self._heap[0][0] - self.now()) if self._heap else -1

    def now(self) -> int:
        """The store's time."""
        return self._clock() + self._offset

    # -- reading

    async def _read(self) -> None:
        started = self._loop.time()
        self._stale = False
        try:
            asked = self._clock()
            moment = await self._store.moment()  # read before the schedules: a change made meanwhile is announced again
            self._offset = moment.now - (asked + self._clock()) // 2
            self._stamp, rows = moment.heeded, {row.name: row for row in await read_all(self._store)}
        except BaseException:
            self._stale = True
            raise
        same = list(map(_told, rows.values())) == list(map(_told, self._rows.values()))
        self._calm = min(max(self._calm * 2, CALM_FIRST), CALM_MAX) if same else 0.0
        self._rows = rows
        self._plans = {name: known for name, known in self._plans.items() if name in rows}
        self._heap = [(row.next_slot, row.name) for row in rows.values() if row.next_slot and not row.paused]
        heapq.heapify(self._heap)
        ended = self._loop.time()
        self._not_before, self._refresh_at = ended + max(SPARE * (ended - started), self._calm), ended + REFRESH

    def _plan(self, row: Schedule) -> SchedulePlan | None:
        """A row's plan. None for one this code cannot read: other workers may."""
        body, plan = self._plans.get(row.name, (b"", None))
        if body != row.body:
            try:
                plan = decode_plan(row.body)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                plan = None
                log.error("schedule %s cannot be read here, and is left to workers that can: %s", row.name, error)
            self._plans[row.name] = row.body, plan
        return plan

    def _take(self, name: str, row: Schedule | None) -> None:
        """Take in a row as the store has it now."""
        before = self._rows.get(name)
        if before is None or row is None or _told(row) != _told(before):
            self._not_before = self._calm = 0.0  # schedules are being changed: hear of the next change soon
        if row is None:
            self._rows.pop(name, None)
            return
        self._rows[name] = row
        if row.next_slot and not row.paused:
            heapq.heappush(self._heap, (row.next_slot, name))

    # -- firing

    async def _fire_due(self) -> bool:
        """Fire what is due. Answers whether there was anything."""
        firings = self._due_now(self.now())
        if not firings:
            return False
        try:
            told = [[firing(self._app.watchers, job) for job in one.jobs] for one in firings]
            answers = await fire(self._store, firings, self.worker)
        except BaseException:
            self._refresh_at = 0.0  # the store knows what became of them
            raise
        for one, fired in zip(firings, answers, strict=True):
            self._take(one.row.name, fired.row)
        for each, fired in zip(told, answers, strict=True):
            for tell in each:
                tell(fired.done)
        self._tell_of(firings, answers)
        return True

    def _due_now(self, now: int) -> list[Firing]:
        """What to fire in one call: no more jobs than a call takes."""
        firings, size = list[Firing](), 0
        while self._heap and self._heap[0][0] <= now and size < MAX_BATCH:
            slot, name = heapq.heappop(self._heap)
            row = self._rows.get(name)
            if row is None or row.next_slot != slot or row.paused or (one := self._moved(row, now)) is None:
                continue
            if size + len(one.slots) > MAX_BATCH:
                heapq.heappush(self._heap, (slot, name))
                break
            firings.append(one)
            size += len(one.slots)
        return firings

    def _moved(self, row: Schedule, now: int) -> Firing | None:
        """The row moved on from slot to slot, with a job for each; the row then names the slot that was fired last."""
        plan = self._plan(row)
        if plan is None:
            return None
        try:
            slots, last = due(plan, row.next_slot, row.fired, now)
            jobs = {slot: [job_of(plan, row.name, slot, new_id())] for slot in slots if slot > row.last_slot}
        except Exception:
            # One schedule that cannot be computed must not keep the others from running.
            log.exception("schedule %s cannot be computed, and does not run on this worker", row.name)
            self._plans[row.name] = row.body, None
            return None
        stops = [*dict.fromkeys([row.next_slot, *slots]), last][: MAX_BATCH + 1]
        moved = msgspec.structs.replace(
            row, next_slot=stops[-1], fired=row.fired + sum(slot in jobs for slot in stops[:-1]), last_slot=stops[-2],
            last_at=now,
        )  # fmt: skip
        return Firing(row, moved, [(slot, jobs.get(slot, [])) for slot in stops[:-1]])

    def _tell_of(self, firings: list[Firing], answers: list[Fired]) -> None:
        for one, fired in zip(firings, answers, strict=True):
            for answer in fired.answers:
                if answer.status in (Accept.REFUSED, Accept.FULL, Accept.CONFLICT):
                    log.warning("the job of schedule %s was not taken in: %s", one.row.name, answer.reason)


def _told(row: Schedule) -> tuple[str, bytes, str]:
    """What people and code said of a schedule; the rest of a row changes with every slot."""
    return row.name, row.body, row.paused
