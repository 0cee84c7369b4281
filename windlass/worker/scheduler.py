"""The scheduler in every worker: fires schedules when their slots come. There is no process of its own to lose.

Each worker knows all schedules and sleeps until the earliest slot. Whoever comes first moves the row on and inserts the
job in one step of the store; the others are answered the row as it is then. So it does not matter how many there are,
and nothing is decided here that another worker would decide differently. Time is the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import time
from collections.abc import Callable
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from windlass.call import new_id
from windlass.core.schedule import GONE, Plan, begin, decode_plan, due, job_of
from windlass.errors import StoreError
from windlass.logs import Steady
from windlass.store.base import MAX_BATCH, Accept, Fire, Fired, PutSchedule, Schedule, Store
from windlass.watch import firing

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
LIST_TTL = 86_400_000
LIST_RENEWED = 6 * 3600.0
"""What a worker declares is kept as a cell for a day (ms), and renewed every six hours (s)."""
TRIES = 10


def steady_ms() -> int:
    """A clock that nobody sets: between two readings only the time that passes counts."""
    return time.monotonic_ns() // 1_000_000


class Scheduler:
    """``heed`` tells it of the stamp in the store's replies; ``step`` does what is due; ``run`` goes on doing so."""

    def __init__(self, app: Windlass, store: Store, clock: Callable[[], int] = steady_ms) -> None:
        self._app, self._store, self._clock = app, store, clock
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._offset = 0  # of the store's clock, to ours
        self._stamp = 0
        self._stale = True
        self._not_before = self._refresh_at = self._renew_at = self._calm = 0.0
        self._mine: dict[str, Plan] = {}
        self._rows: dict[str, Schedule] = {}
        self._plans: dict[str, tuple[int, Plan | None]] = {}
        self._heap: list[tuple[int, str]] = []
        self.digest = self.worker = ""

    # -- what the code declares

    async def declare(self) -> None:
        """Put the schedules of the code, before this worker is seen: whoever sees it may ask what it declares."""
        self._mine = self._app.schedules.plans()
        names = sorted(self._mine)
        if names:
            self._list = msgspec.json.encode(names)
            self.digest = blake2b(self._list, digest_size=8).hexdigest()
            await self._renew_list()
        for first in range(0, len(names), MAX_BATCH):
            await self._put(names[first : first + MAX_BATCH])

    async def _renew_list(self) -> None:
        await self._store.swap(_cell(self.digest), -1, self._list, LIST_TTL)
        self._renew_at = self._loop.time() + LIST_RENEWED

    async def _put(self, names: list[str]) -> None:
        for _ in range(TRIES):
            page = await self._store.schedules(names)
            rows = {row.name: row for row in page.schedules}
            puts = [put for name in names if (put := self._declared(name, rows.get(name), page.now)) is not None]
            if not puts:
                return
            done = await self._store.put_schedules(puts)
            names = [put.name for put, row in zip(puts, done, strict=True) if row is None]
            if not names:
                return
        log.warning("schedules %s are being changed by others all the time", ", ".join(names))

    def _declared(self, name: str, row: Schedule | None, now: int) -> PutSchedule | None:
        """What to write of one schedule of the code; None where the row says the same, or is not the code's."""
        plan = self._mine[name]
        if row is None:
            begun, slot = begin(plan, now)
            return PutSchedule(name=name, body=begun.encode(), next_slot=slot, expect=0)
        before = self._plan(row)
        if before is not None and not before.code:
            log.warning("schedule %s was put at run time, so what the code says of it is not used; remove it", name)
            return None
        begun, slot = begin(plan, now, before, row.next_slot)
        paused = "" if row.paused == GONE else row.paused
        if begun == before and paused == row.paused:
            return None
        return PutSchedule(name=name, body=begun.encode(), next_slot=slot, paused=paused, expect=row.version)

    async def _tend(self) -> None:
        """Pause what no live worker declares any more; take back what was paused so though this one declares it."""
        if self.digest and self._loop.time() >= self._renew_at:
            await self._renew_list()
        back = [name for name in self._mine if (row := self._rows.get(name)) is not None and row.paused == GONE]
        if back:
            await self._put(back[:MAX_BATCH])
        strange = [row for row in self._rows.values() if not row.paused and self._is_strange(row)]
        if not strange or (known := await self._declared_anywhere()) is None:
            return
        puts = [
            PutSchedule(name=row.name, body=row.body, next_slot=row.next_slot, paused=GONE, expect=row.version)
            for row in strange if row.name not in known
        ][:MAX_BATCH]  # fmt: skip
        for put, row in zip(puts, await self._store.put_schedules(puts) if puts else (), strict=True):
            if row is not None:
                log.warning("schedule %s is paused: it is %s of any worker", put.name, GONE)

    def _is_strange(self, row: Schedule) -> bool:
        plan = self._plan(row)
        return plan is not None and plan.code and row.name not in self._mine

    async def _declared_anywhere(self) -> set[str] | None:
        """The schedules live workers declare; None where that cannot be told."""
        loads = [worker.presence.load for worker in await self._store.workers() if worker.alive]
        digests = sorted({str(load["schedules"]) for load in loads if load.get("schedules")})
        cells = await self._store.cells([_cell(digest) for digest in digests])
        if not all(cell.version for cell in cells):
            return None
        return {name for cell in cells for name in msgspec.json.decode(cell.value, type=list[str])}

    # -- the loop

    def heed(self, stamp: int) -> None:
        """A reply of the store: another stamp than that of the last reading means that something has changed."""
        if stamp != self._stamp and not self._stale:
            self._stale = True
            self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        pause = RETRY_FIRST
        while True:
            try:
                wait = await self.step()
                pause = RETRY_FIRST
            except StoreError as error:
                log.warning("schedules cannot be seen to, will go on trying: %s", error)
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            except Exception:
                # Whatever it is: a worker without its scheduler looks alive, and nothing would run on time.
                log.exception("a bug in the scheduler")
                wait, pause = pause, min(pause * 2, RETRY_MAX)
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
            self._woken.clear()

    async def step(self) -> float:
        """Read what has changed and fire what is due. Seconds until there is something to do again."""
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
            # A millisecond more, because slots are whole milliseconds and the timer may ring within one.
            waits.append((self._heap[0][0] - self.now() + 1) / 1000)
        return max(0.0, min(waits))

    async def catch_up(self) -> int:
        """Read the schedules and fire all that is due; ms until the next slot, -1 for none. For who owns the time."""
        await self._read()
        while await self._fire_due():
            pass
        return max(0, self._heap[0][0] - self.now()) if self._heap else -1

    def now(self) -> int:
        """What time it is for the store."""
        return self._clock() + self._offset

    # -- reading

    async def _read(self) -> None:
        started = self._loop.time()
        self._stale = False
        try:
            asked = self._clock()
            page = await self._store.schedules(limit=MAX_BATCH)
            self._offset = page.now - (asked + self._clock()) // 2
            self._stamp, rows = page.stamp, {row.name: row for row in page.schedules}
            while page.cursor:
                page = await self._store.schedules(after=page.cursor, limit=MAX_BATCH)
                rows.update({row.name: row for row in page.schedules})
        except BaseException:
            self._stale = True
            raise
        same = [(row.name, row.version) for row in rows.values()] == [
            (row.name, row.version) for row in self._rows.values()
        ]  # fmt: skip
        self._calm = min(max(self._calm * 2, CALM_FIRST), CALM_MAX) if same else 0.0
        self._rows = rows
        self._plans = {name: known for name, known in self._plans.items() if name in rows}
        self._heap = [(row.next_slot, row.name) for row in rows.values() if row.next_slot and not row.paused]
        heapq.heapify(self._heap)
        ended = self._loop.time()
        self._not_before, self._refresh_at = ended + max(SPARE * (ended - started), self._calm), ended + REFRESH

    def _plan(self, row: Schedule) -> Plan | None:
        """A row's plan; None for one this code cannot read, which is left to others."""
        version, plan = self._plans.get(row.name, (-1, None))
        if version != row.version:
            try:
                plan = decode_plan(row.body)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                plan = None
                log.error("schedule %s cannot be read here, and is left to workers that can: %s", row.name, error)
            self._plans[row.name] = row.version, plan
        return plan

    def _take(self, name: str, row: Schedule | None) -> None:
        """A row as the store has it now."""
        before = self._rows.get(name)
        if before is None or row is None or row.version != before.version:
            self._not_before = self._calm = 0.0  # somebody is changing schedules: hear of the next change soon
        if row is None:
            self._rows.pop(name, None)
            return
        self._rows[name] = row
        if row.next_slot and not row.paused:
            heapq.heappush(self._heap, (row.next_slot, name))

    # -- firing

    async def _fire_due(self) -> bool:
        """Whether anything was due."""
        now, fires = self.now(), list[Fire]()
        while self._heap and self._heap[0][0] <= now and len(fires) < MAX_BATCH:
            slot, name = heapq.heappop(self._heap)
            row = self._rows.get(name)
            if row is not None and row.next_slot == slot and not row.paused:
                moves = self._moves(row, now)[:MAX_BATCH]
                if len(fires) + len(moves) > MAX_BATCH:
                    heapq.heappush(self._heap, (slot, name))
                    break
                fires += moves
        if not fires:
            return False
        try:
            told = [[firing(self._app.watchers, job) for job in fire.jobs] for fire in fires]
            answers = await self._store.fire(fires)
        except BaseException:
            self._refresh_at = 0.0  # what became of them is in the store
            raise
        rows = {fire.name: fired.row for fire, fired in zip(fires, answers, strict=True)}
        for name, row in rows.items():
            self._take(name, row)
        for each, fired in zip(told, answers, strict=True):
            for tell in each:
                tell(fired.done)
        self._tell_of(fires, answers)
        return True

    def _moves(self, row: Schedule, now: int) -> list[Fire]:
        """From slot to slot, each with its job, so that the row always says which slot was fired last."""
        plan = self._plan(row)
        if plan is None:
            return []
        try:
            slots, last = due(plan, row.next_slot, row.fired, now)
            jobs = {slot: [job_of(plan, row.name, slot, new_id())] for slot in slots if slot > row.last_slot}
        except Exception:
            # One schedule that cannot be computed must not keep the others from running.
            log.exception("schedule %s cannot be computed, and does not run on this worker", row.name)
            self._plans[row.name] = row.version, None
            return []
        stops = [*dict.fromkeys([row.next_slot, *slots]), last]
        return [
            Fire(
                name=row.name, version=row.version, slot=slot, next_slot=behind, jobs=jobs.get(slot, []),
                worker=self.worker,
            )
            for slot, behind in pairwise(stops)
        ]  # fmt: skip

    def _tell_of(self, fires: list[Fire], answers: list[Fired]) -> None:
        for fire, fired in zip(fires, answers, strict=True):
            for answer in fired.answers:
                if answer.status in (Accept.REFUSED, Accept.FULL, Accept.CONFLICT):
                    log.warning("the job of schedule %s was not taken in: %s", fire.name, answer.reason)


def _cell(digest: str) -> str:
    return f"windlass:schedules:{digest}"
