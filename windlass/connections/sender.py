"""From drafts to the store, on one event loop: calls made together share an insert. A lost reply is asked for again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, Protocol, TypeVar

from windlass.connections.offers import Offer, any_full
from windlass.core.draft import Draft
from windlass.core.job import NewJob
from windlass.errors import StoreUnavailable
from windlass.store.answers import MAX_BATCH, Answer
from windlass.store.base import Store

log = logging.getLogger("windlass.client")

P = ParamSpec("P")
T = TypeVar("T")
Seat = tuple[Sequence[NewJob], "asyncio.Future[list[Answer]]"]
"""The jobs of a call that waits for the next insert, and where its answers go."""

RESEND_SECONDS = 0.05
BUFFER_JOBS = 10_000
LANES, EAGER = 2, 64
"""So many inserts may be under way, the second only for a batch of this size: smaller ones are better off together."""

BATCH_BYTES = 1_048_576


class Link(Protocol):
    """The connection that a sender sends by."""

    @property
    def store(self) -> Store: ...

    @property
    def opened(self) -> bool: ...

    @property
    def source(self) -> str:
        """This process, as the jobs it enqueues name it."""
        ...

    @property
    def plain_meta(self) -> bytes:
        """The ready-made meta of calls with nothing special."""
        ...

    async def open(self) -> None: ...


class Sender:
    """Calls made while an insert is under way share the next one. A lone call goes out at once."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: list[Seat] = []
        self._gathered = 0  # jobs in those
        self._busy = False
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._quiet = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, drafts: Sequence[Draft], patient: bool = True) -> list[Answer]:
        """One answer per draft. Cancelled before it is sent, a call is withdrawn; after that its job may exist.

        A ``patient`` call that meets a full queue is sent again until there is room, or its caller's time is over.
        """
        link = self._link
        if not link.opened:
            await link.open()
        if len(drafts) > MAX_BATCH and patient and any(draft.terms is not None for draft in drafts):
            # In order: what comes behind a job that waits for room must not overtake it.
            cut = [drafts[start : start + MAX_BATCH] for start in range(0, len(drafts), MAX_BATCH)]
            return [answer for part in cut for answer in await self.send(part)]
        jobs = [draft.to_job(link.source, link.plain_meta) for draft in drafts]
        while self._busy and self._gathered >= BUFFER_JOBS:
            self._room.clear()
            await self._room.wait()
        if len(jobs) > 1 and len(parts := batches(jobs)) > 1:
            answers = await self._insert_parts(parts)
        elif self._busy:
            answers = await self._take_seat(jobs)
        else:
            seat = None
            self._begin()
            try:
                await asyncio.sleep(0)  # calls of the same turn of the loop share the insert
                if self._waiting:
                    seat = self._take_seat(jobs, first=True)
                else:
                    answers = await resent(link.store.insert, jobs)
            finally:
                self._end(self._under_way <= LANES)
            answers = answers if seat is None else await seat
        return await self._send_again(drafts, answers) if patient and any_full(answers) else answers

    async def _send_again(self, drafts: Sequence[Draft], answers: list[Answer]) -> list[Answer]:
        offer = Offer(drafts, answers, time.monotonic())
        while again := offer.drafts:
            await asyncio.sleep(offer.pause(time.monotonic()))
            offer.answered(await self.send(again, patient=False), time.monotonic())
        return offer.answers

    async def _insert_parts(self, parts: list[Sequence[NewJob]]) -> list[Answer]:
        """In order. The store works on one part while the next is made ready for it."""
        answers: list[Answer] = []
        under_way: list[asyncio.Task[list[Answer]]] = []
        self._begin()
        try:
            for part in parts:
                inserting = resent(self._link.store.insert, part)
                under_way.append(asyncio.get_running_loop().create_task(inserting))
                if len(under_way) == 2:
                    answers += await under_way.pop(0)
            for task in under_way:
                answers += await task
            return answers
        finally:
            for task in under_way:
                task.cancel()
            self._end(self._under_way <= LANES)

    # -- sharing inserts

    def _take_seat(self, jobs: Sequence[NewJob], first: bool = False) -> asyncio.Future[list[Answer]]:
        """Join those that wait for the next insert. Once they are many it goes out beside the one under way."""
        seat: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.insert(0, (jobs, seat))
        else:
            self._waiting.append((jobs, seat))
        self._gathered += len(jobs)
        if self._gathered >= EAGER and self._under_way < LANES:
            self._next(True)
        return seat

    def _begin(self) -> None:
        self._busy = True
        self._under_way += 1

    def _end(self, go_on: bool) -> None:
        self._under_way -= 1
        self._next(go_on)

    def _next(self, now: bool) -> None:
        """Send what gathered meanwhile if it is time, or become idle if there is nothing."""
        waiting = [seat for seat in self._waiting if not seat[1].done()]
        if not waiting:
            self._waiting, self._gathered, self._busy = [], 0, self._under_way > 0
            if not self._busy:
                self._quiet.set()
        elif now:
            fits = seats_that_fit(waiting)
            self._waiting = waiting[fits:]
            self._gathered = sum(len(jobs) for jobs, _ in self._waiting)
            self._begin()
            task = asyncio.get_running_loop().create_task(self._carry(waiting[:fits]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._gathered < BUFFER_JOBS:
            self._room.set()

    async def _carry(self, seats: list[Seat]) -> None:
        """Insert what several callers sent. What the store refuses of one caller must not cost the others theirs."""
        parts = [seats]
        try:
            while parts:
                part = parts.pop(0)
                try:
                    answers = await resent(self._link.store.insert, [job for jobs, _ in part for job in jobs])
                except Exception as error:
                    if len(part) > 1 and not isinstance(error, StoreUnavailable):
                        parts = [[seat] for seat in part]
                    else:
                        refuse(part, error)
                else:
                    answer(part, answers)
        finally:
            self._end(self._under_way == 1 or self._gathered >= EAGER)

    async def flush(self) -> None:
        """Until everything handed over was answered."""
        while self._busy:
            self._quiet.clear()
            await self._quiet.wait()


def seats_that_fit(waiting: list[Seat]) -> int:
    """How many of the calls that wait go into one insert; at least one."""
    count = size = 0
    for place, (jobs, _) in enumerate(waiting):
        count += len(jobs)
        for job in jobs:
            size += len(job.payload)
        if place and (count > MAX_BATCH or size > BATCH_BYTES):
            return place
    return len(waiting)


def answer(seats: list[Seat], answers: list[Answer]) -> None:
    """Give each caller the answers to its own jobs."""
    place = 0
    for jobs, future in seats:
        if not future.done():
            future.set_result(answers[place : place + len(jobs)])
        place += len(jobs)


def refuse(seats: list[Seat], error: Exception) -> None:
    """Give each caller the error."""
    for _, future in seats:
        if not future.done():
            future.set_exception(error)
            future.exception()  # heard, also where the caller was cancelled in this very moment


async def resent(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call the store, once more when the reply was lost: the ids are ours, so what arrived is not accepted twice."""
    try:
        return await call(*args, **kwargs)
    except StoreUnavailable as error:
        log.info("an enqueue failed, sending it again: %s", error)
        await asyncio.sleep(RESEND_SECONDS)
        return await call(*args, **kwargs)


def batches(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    """Cut into inserts of at most MAX_BATCH jobs and about a megabyte."""
    if len(jobs) <= MAX_BATCH and sum(len(job.payload) for job in jobs) <= BATCH_BYTES:
        return [jobs]
    cut: list[Sequence[NewJob]] = []
    start = size = 0
    for place, job in enumerate(jobs):
        size += len(job.payload)
        if place - start >= MAX_BATCH or (size > BATCH_BYTES and place > start):
            cut.append(jobs[start:place])
            start, size = place, len(job.payload)
    cut.append(jobs[start:])
    return cut
