"""An app's connection to its store on one event loop: coalesced enqueue, and waiting for results that are pushed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from windlass.core.graph import NewGraph
from windlass.core.job import Finished, NewJob
from windlass.errors import StoreError, StoreUnavailable
from windlass.store.answers import MAX_BATCH, Accept, Answer, GraphAnswer
from windlass.store.base import Store
from windlass.store.forks import lineage

if TYPE_CHECKING:
    from windlass.workflows.plan import Plan

log = logging.getLogger("windlass.client")

T = TypeVar("T")
InsertGraph = Callable[[NewGraph, int, Sequence[NewJob], bool], Awaitable[GraphAnswer]]

RESEND_SECONDS = 0.05
PATIENCE_SECONDS = 8.0
BUFFER_JOBS = 10_000
LANES, EAGER = 2, 64
"""So many inserts may be under way, the second only for a batch of this size: smaller ones are better off together."""

BATCH_BYTES = 1_048_576
REWATCH_SECONDS = 15.0
FULL_PAUSES = (0.02, 1.0)
"""The first and the longest pause, in seconds, before a job is offered again to a queue that was full."""

RESTARTS = 3
"""How often a workflow is staged anew from where the store lost it."""


class Client:
    """Made once per app and loop. ``name`` is where results are pushed to."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name, self.lineage = store, name, lineage.number
        self.loop = asyncio.get_running_loop()
        self.sender = Sender(store)
        self.waiter = Waiter(store, name)
        self._opening = asyncio.Lock()
        self.opened = False
        self.source = ""
        self.plain_meta = b"{}"

    async def open(self) -> None:
        async with self._opening:
            if not self.opened:
                await self.store.open()
                self.opened = True

    async def close(self) -> None:
        self.opened = False
        await self.sender.flush()
        await self.waiter.close()
        await self.store.close()


class Sender:
    """Calls made while an insert is under way share the next one. A lone call goes out at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[NewJob, asyncio.Future[Answer]]] = []
        self._busy = False
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._quiet = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, jobs: Sequence[NewJob]) -> list[Answer]:
        """One answer per job. Cancelled before it is sent, a job is withdrawn; after that it may exist."""
        while self._busy and len(self._waiting) >= BUFFER_JOBS:
            self._room.clear()
            await self._room.wait()
        if self._busy:
            return await self._answers(self._register(jobs))
        self._busy = True
        self._under_way += 1
        try:
            await asyncio.sleep(0)  # calls of the same turn of the loop share the insert
            if not self._waiting:
                return await self._insert_all(batches(jobs))
            futures = self._register(jobs, first=True)
        finally:
            self._under_way -= 1
            self._next(self._under_way < LANES)
        return await self._answers(futures)

    async def send_one(self, job: NewJob) -> Answer:
        """The same for a single job, which joins the others with less ado."""
        if not self._busy or len(self._waiting) >= BUFFER_JOBS:
            (answer,) = await self.send((job,))
            return answer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if len(self._waiting) >= EAGER and self._under_way < LANES:
            self._next(True)
        try:
            return await future
        except BaseException:
            if not future.cancelled():
                future.exception()  # heard, also by one who was cancelled in the very moment it came
            raise

    async def send_waiting(self, jobs: Sequence[NewJob], waits: Sequence[int]) -> list[Answer]:
        """The same, and where a queue is full, again and again until it has room or the caller's time is over."""
        if len(jobs) > MAX_BATCH and any(job.terms is not None for job in jobs):
            # In order: what comes behind a job that waits for room must not overtake it.
            answers: list[Answer] = []
            for part in batches(jobs):
                answers += await self.send_waiting(part, waits[len(answers) : len(answers) + len(part)])
            return answers
        answers = await self.send(jobs)
        if any_full(answers):
            offer = Offer(jobs, waits, answers, time.monotonic())
            while offer.jobs:
                await asyncio.sleep(offer.pause(time.monotonic()))
                offer.answered(await self.send(offer.jobs), time.monotonic())
        return answers

    async def _insert_all(self, parts: list[Sequence[NewJob]]) -> list[Answer]:
        """In order. The store works on one batch while the next is made ready for it."""
        if len(parts) == 1:
            return await self._insert(parts[0])
        answers: list[Answer] = []
        under_way: list[asyncio.Task[list[Answer]]] = []
        try:
            for part in parts:
                under_way.append(asyncio.get_running_loop().create_task(self._insert(part)))
                if len(under_way) == 2:
                    answers += await under_way.pop(0)
            for task in under_way:
                answers += await task
            return answers
        finally:
            for task in under_way:
                task.cancel()

    async def _insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        return await _resent(lambda: self._store.insert(jobs))

    def _register(self, jobs: Sequence[NewJob], first: bool = False) -> list[asyncio.Future[Answer]]:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Answer]] = [loop.create_future() for _ in jobs]
        place = 0 if first else len(self._waiting)
        self._waiting[place:place] = zip(jobs, futures, strict=True)
        return futures

    @staticmethod
    async def _answers(futures: list[asyncio.Future[Answer]]) -> list[Answer]:
        try:
            return [await future for future in futures]
        finally:
            for future in futures:
                if not future.cancel() and not future.cancelled():
                    future.exception()  # heard: one error for the whole call is enough

    def _next(self, now: bool) -> None:
        """Send what gathered meanwhile if it is time, or become idle if there is nothing."""
        waiting = [(job, future) for job, future in self._waiting if not future.done()]
        if not waiting:
            self._waiting, self._busy = [], self._under_way > 0
            if not self._busy:
                self._quiet.set()
        elif now:
            batch = batches([job for job, _ in waiting])[0]
            self._waiting = waiting[len(batch) :]
            self._under_way += 1
            task = asyncio.get_running_loop().create_task(self._send_batch(waiting[: len(batch)]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(self._waiting) < BUFFER_JOBS:
            self._room.set()

    async def _send_batch(self, batch: list[tuple[NewJob, asyncio.Future[Answer]]]) -> None:
        try:
            await self._answer(batch)
        finally:
            self._under_way -= 1
            self._next(self._under_way == 0 or len(self._waiting) >= EAGER)

    async def _answer(self, batch: list[tuple[NewJob, asyncio.Future[Answer]]]) -> None:
        """Insert what several callers sent. What the store will not have of one must not cost the others theirs."""
        try:
            answers = await self._insert([job for job, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, StoreUnavailable):
                for one in batch:
                    await self._answer([one])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def flush(self) -> None:
        """Until everything handed over was answered."""
        while self._busy:
            self._quiet.clear()
            await self._quiet.wait()


async def send_graph(store: Store, plan: Plan) -> GraphAnswer:
    """Bring a workflow to the store in parts, of which the last makes it real. What was staged of one that is not
    accepted in the end is never seen, and vanishes.
    """
    graph = plan.graph
    answer = await send_parts(lambda *part: _resent(partial(store.insert_graph, *part)), graph, plan.part, True)
    more = answer.more
    try:
        while more:
            more = (await store.insert_graph(graph, graph.nodes, [], True)).more
    except StoreUnavailable as error:
        log.info("workflow %s is accepted; workers will see to the rest of its jobs: %s", graph.id, error)
    return GraphAnswer(answer.status, answer.reason)


async def send_parts(
    insert: InsertGraph, graph: NewGraph, part: Callable[[int], Sequence[NewJob]], commit: bool
) -> GraphAnswer:
    """The answer to the last part, or to the first that is not accepted. ``part(n)``: the nodes from number n on."""
    first = restarts = 0
    while True:
        nodes = part(first)
        last = first + len(nodes) == graph.nodes
        answer = await insert(graph, first, nodes, commit and last)
        if answer.status is Accept.REFUSED and answer.staged < first and restarts < RESTARTS:
            first, restarts = answer.staged, restarts + 1  # the store lost some of it: it was down, or we were slow
        elif answer.status is not Accept.ACCEPTED or last:
            return answer
        else:
            first += len(nodes)


async def _resent(call: Callable[[], Awaitable[T]]) -> T:
    """Sent once more when the reply was lost: the ids are ours, so that what arrived is not accepted twice."""
    try:
        return await call()
    except StoreUnavailable as error:
        log.info("an enqueue failed, sending it again: %s", error)
        await asyncio.sleep(RESEND_SECONDS)
        return await call()


class Offer:
    """Jobs that met a full queue, to be offered again while their callers wait. Only the full ones are sent again.

    ``waits``: so many ms each job's caller is ready to wait. It does no I/O: for loops and for threads alike.
    """

    def __init__(self, jobs: Sequence[NewJob], waits: Sequence[int], answers: list[Answer], now: float) -> None:
        self.answers = answers
        self._jobs, self._waits, self._start = jobs, waits, now
        self._pause, self._longest = FULL_PAUSES
        self._full = self._still_full(range(len(jobs)), now)

    def _still_full(self, places: Iterable[int], now: float) -> list[int]:
        waited = (now - self._start) * 1000
        return [n for n in places if self.answers[n].status is Accept.FULL and self._waits[n] > waited]

    @property
    def jobs(self) -> list[NewJob]:
        """What to send again; empty at the end."""
        return [self._jobs[n] for n in self._full]

    def pause(self, now: float) -> float:
        """How long to wait before that, not beyond the time of the most patient."""
        most = max(self._waits[n] for n in self._full) / 1000 - (now - self._start)
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return max(min(pause, most), 0.001)

    def answered(self, answers: Sequence[Answer], now: float) -> None:
        for n, answer in zip(self._full, answers, strict=True):
            self.answers[n] = answer
        self._full = self._still_full(self._full, now)


def any_full(answers: Sequence[Answer]) -> bool:
    return any(answer.status is Accept.FULL for answer in answers)


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


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Try for a while what is safe to try again: who waits for a result has time."""
    pause = RESEND_SECONDS
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            if pause > PATIENCE_SECONDS:
                raise
            log.warning("the store cannot be asked now, will try again: %s", error)
            await asyncio.sleep(pause)
            pause *= 2


class Waiter:
    """Everyone on this loop who waits for a job, behind one subscription."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._futures: dict[str, asyncio.Future[Finished]] = {}
        self._fresh: list[str] = []
        self._listening = False
        self._flusher: asyncio.Task[None] | None = None
        self._rewatcher: asyncio.Task[None] | None = None
        self._fetchers: set[asyncio.Task[None]] = set()
        self._followers: set[Callable[[], None]] = set()

    async def wait(self, id: str) -> Finished:
        """What became of a job, once it is over; state None when the store has no record of it."""
        future = self._futures.get(id)
        if future is None or future.done():
            future = self._futures[id] = asyncio.get_running_loop().create_future()
            self._fresh.append(id)
            if self._flusher is None or self._flusher.done():
                self._flusher = asyncio.get_running_loop().create_task(self._watch_fresh())
        return await asyncio.shield(future)

    async def listen(self) -> None:
        if not self._listening:
            await self._store.listen(self._name, self._deliver)
            if not self._listening:
                self._listening = True
                self._rewatcher = asyncio.get_running_loop().create_task(self._rewatch())

    async def _watch_fresh(self) -> None:
        """One watch for all who started waiting in this turn of the loop."""
        try:
            await patiently(self.listen)
            while self._fresh:
                await patiently(self._watch_some)
        except Exception as error:
            self._fail(error)

    async def _watch_some(self) -> None:
        ids = self._fresh[:MAX_BATCH]
        await self._watch(ids)
        del self._fresh[: len(ids)]

    async def _watch(self, ids: list[str]) -> None:
        reply = await self._store.watch(self._name, ids)
        self._deliver(reply.finished)
        for id in reply.missing:
            self._resolve(Finished(id, None, reason="missing"))

    def _deliver(self, items: list[Finished]) -> None:
        # Always: a wake-up for new events may have been delivered together with news of finished jobs.
        for follower in list(self._followers):
            follower()
        large = [item.id for item in items if not item.inline]
        if large:
            task = asyncio.get_running_loop().create_task(self._fetch(large))
            self._fetchers.add(task)
            task.add_done_callback(self._fetchers.discard)
        for item in items:
            if item.inline:
                self._resolve(item)

    async def _fetch(self, ids: list[str]) -> None:
        for id, job in zip(ids, await self._store.get(ids), strict=True):
            if job is None:
                self._resolve(Finished(id, None, reason="pruned"))
            else:
                # A join keeps no value, nor does a job that a workflow replaced: whoever waits puts it together.
                whole = job.result is not None or not (job.replaced or not job.task)
                self._resolve(Finished(id, job.state, job.result, job.error, job.reason, whole))

    def _resolve(self, item: Finished) -> None:
        future = self._futures.pop(item.id, None)
        if future is not None and not future.done():
            future.set_result(item)

    def _fail(self, error: Exception) -> None:
        futures, self._futures, self._fresh = self._futures, {}, []
        for future in futures.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # heard, also where whoever waited has given up by now

    async def _rewatch(self) -> None:
        """The backstop for a lost message: ask again for everything awaited, now and then."""
        while True:
            await asyncio.sleep(REWATCH_SECONDS)
            ids = [id for id, future in self._futures.items() if not future.done()]
            for follower in list(self._followers):
                follower()
            try:
                if ids:
                    await self._store.sweep()  # where no worker lives, nobody else would let an awaited job expire
                for start in range(0, len(ids), MAX_BATCH):
                    await self._watch(ids[start : start + MAX_BATCH])
            except StoreUnavailable as error:
                log.warning("cannot ask for %d awaited results now, will try again: %s", len(ids), error)
            except StoreError as error:
                self._fail(error)

    def follow(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at every plain wake-up (new events); returns the way to stop it."""
        self._followers.add(callback)
        return lambda: self._followers.discard(callback)

    async def close(self) -> None:
        for task in (self._rewatcher, self._flusher, *self._fetchers):
            if task is not None:
                task.cancel()
        if self._listening:
            self._listening = False
            with contextlib.suppress(StoreUnavailable):  # the store forgets a silent listener by itself
                await self._store.unlisten(self._name)
        self._fail(StoreError("the app was closed while waiting"))
