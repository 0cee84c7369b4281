"""A worker for tests: it works off what is due, one job after the other, and stops.

It runs jobs with the real executor and runner, so retries, timeouts, middleware and hooks are those of production. It
has no heartbeat, no process pool and no clock of its own: the harness that uses it moves the time.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

from windlass.calls.context import Current
from windlass.calls.middleware import AroundRun
from windlass.core.failure import describe, read_error
from windlass.core.job import Claim, Finished, State
from windlass.core.lifecycle import Outcome, Transition
from windlass.errors import Cancel, JobFailed, Signal, StoreUnavailable, WindlassError
from windlass.store.base import Clock, Store
from windlass.store.jobs import BeatReply, Presence, Want
from windlass.worker.children import Children
from windlass.worker.executor import Executor
from windlass.worker.graphs import Graphs
from windlass.worker.note_buffer import NoteBuffer
from windlass.worker.notifier import Notifier
from windlass.worker.runner import TIMED_OUT, Elsewhere, Run, judge, run_blocking, run_on_loop, timed_out
from windlass.worker.scheduler import Scheduler
from windlass.worker.threads import Done, Threads
from windlass.worker.worker_options import declarations, declare_limits, default_queues

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")

FOREVER = 100 * 365 * 86_400_000
SLOTS = 1_000
RESENDS = 100


class Shift:
    """One life of the test worker. ``raise_errors``: what a task raises comes out of ``work_off``, once it is
    settled.
    """

    def __init__(
        self, app: Windlass, store: Store, id: str, *, awaited: Callable[[], int], inline: bool, raise_errors: bool,
        limit: int, clock: Clock,
    ) -> None:  # fmt: skip
        self._app, self._store, self.id, self._raise_errors, self._limit = app, store, id, raise_errors, limit
        self._awaited = awaited
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._errors: dict[str, BaseException] = {}
        self._seq = 0
        self.events: Counter[str] = Counter()
        self._threads = InlineThreads(self._loop, self._errors) if inline else KeepingThreads(self._loop, self._errors)
        self._notes = NoteBuffer(store, self._loop, in_process)
        self._notes.worker = id
        children = InlineChildren(self._threads, [self._keep_error] if raise_errors else [])
        self._executor = Executor(app, SLOTS, self._notes, children, Graphs(store), self._news.set)
        self._executor._threads = self._threads
        self._scheduler = Scheduler(app, store, clock)
        self._notifier = Notifier(app, store, clock) if app.notices else None

    # -- life

    async def start(self) -> None:
        if self._raise_errors:
            self._app.declared.run_layers.append(self._keep_error)
        await self._run_hooks(self._app.declared.start_hooks)
        await self._insist(lambda: declare_limits(self._store, self._app))
        await self._insist(self._scheduler.declare)
        if self._notifier is not None:
            await self._insist(self._notifier.begin)
        await self._insist(lambda: self._store.listen(self.id, self._on_mail))

    async def stop(self) -> None:
        if self._raise_errors:
            self._app.declared.run_layers.remove(self._keep_error)
        self._executor.drop()
        await self._notes.flush()
        if self._notifier is not None:
            await self._notifier.stop()
        await self._insist(lambda: self._store.leave(self.id))
        await self._insist(lambda: self._store.unlisten(self.id))
        self._executor.close()
        self._notes.close()
        await self._run_hooks(self._app.declared.stop_hooks)

    async def _run_hooks(self, hooks: list[Any]) -> None:
        for hook in hooks:
            result = hook(self._executor.state)
            if result is not None:
                await result

    # -- work

    async def next_step(self) -> int:
        """Milliseconds until something is due, or -1."""
        reply = await self._beat()
        scheduled, told = await self._insist(self._scheduler.catch_up), await self._tell()
        times = [ms for ms in (reply.next_due, reply.next_check, scheduled, told) if ms >= 0]
        return min(times, default=-1)

    async def work_off(self) -> None:
        """Run what is due, and what that enqueues, until nothing is."""
        while True:
            await self._insist(self._scheduler.catch_up)
            while (swept := await self._insist(self._store.sweep)).more:
                pass
            await self._tell()
            await self._beat()
            # A workflow may have more todos than fit one step: ends to spread, and the jobs they start.
            if not await self._run_due() and swept.next_check != 0:
                return

    async def _tell(self) -> int:
        """Make the jobs of notices. Answers the ms until there is another to make, or -1."""
        return await self._insist(self._notifier.catch_up) if self._notifier is not None else -1

    async def _run_due(self) -> bool:
        """Run what is due. Answers whether there was anything."""
        ran = False
        while True:
            granted = await self._round()
            ran = ran or granted
            if not self._executor.held:
                return ran
            if granted and self._has_room(0):
                continue
            self._executor.start_gathered()  # no more jobs come, so batches need not wait
            if not self._executor.finished:
                await self._news.wait()
            self._news.clear()

    def _has_room(self, settling: int) -> bool:
        """Whether another job may start: one at a time, so that tests know what runs when, and one more for each
        awaited result.

        The job that waits may be a running one, and it may wait for a job that has not started.
        """
        return len(self._executor.held) - settling - self._executor.gathering <= self._awaited()

    async def _round(self) -> bool:
        """One exchange: settle, and start the next job. Answers whether there was one."""
        executor = self._executor
        moves = executor.finished[:]
        del executor.finished[:]
        room = 1 if self._has_room(len(moves)) else 0
        if self._notes.pending:
            await self._notes.flush()
        self._seq += 1
        seq, want = self._seq, Want([(queue, room) for queue in self._queues], room)
        began = time_ns()
        reply = await self._insist(lambda: self._store.exchange(self.id, seq, moves, want))
        executor.settled(moves, reply.refused, began)
        self.events.update(move.event for move in moves)
        self._raise_first(moves)
        if sum(self.events.values()) >= self._limit and reply.claims:
            raise WindlassError(f"ran {self._limit} jobs and there are more; does a job enqueue itself forever?")
        executor.take(reply.claims)
        for id in reply.cancels:
            executor.cancel(id)
        return bool(reply.claims)

    async def _beat(self) -> BeatReply:
        """Present this worker, which serves every queue that exists by now."""
        known = {queue.name for queue in await self._insist(self._store.queues)}
        self._queues = sorted(known | set(default_queues(self._app)))
        presence = Presence(
            id=self.id, queues=self._queues, declares=declarations(self._app), lease=FOREVER,
            host=socket.gethostname(), pid=os.getpid(), concurrency=1,
        )  # fmt: skip
        return await self._insist(lambda: self._store.beat(presence, self._seq, list(self._executor.held)))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call without an answer, as a worker does, but not forever."""
        for _ in range(RESENDS - 1):
            try:
                return await call()
            except StoreUnavailable:
                continue
        return await call()

    # -- news

    def _on_mail(self, items: list[Finished]) -> None:
        self._news.set()

    def nudge(self) -> None:
        """Look again: a result is waited for. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._news.set)

    # -- errors

    async def _keep_error(self, running: Current, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """The innermost layer around each run: remembers the exception itself, of which the store keeps only text."""
        try:
            return await call_next()
        except Elsewhere:
            raise
        except Exception as error:
            self._errors[running.id] = error
            raise

    def _raise_first(self, moves: list[Transition]) -> None:
        for move in moves:
            error = self._errors.pop(move.id, None)
            if not self._raise_errors or isinstance(error, Signal):
                continue
            if error is not None:
                raise error
            if move.to is State.FAILED and (info := read_error(move.error)):
                raise JobFailed(
                    f"job {move.id} failed: {info.type}: {info.message}",
                    error_type=info.type, error_message=info.message, traceback=info.traceback,
                )  # fmt: skip


class KeepingThreads(Threads):
    """The worker's threads, remembering what tasks raise in them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, errors: dict[str, BaseException]) -> None:
        super().__init__(SLOTS, loop)
        self._errors = errors

    @contextmanager
    def _interruptible(self, run: Run) -> Iterator[None]:
        with super()._interruptible(run):
            try:
                yield
            except Exception as error:
                self._errors[run.claim.id] = error
                raise


class InlineThreads(KeepingThreads):
    """No threads at all: plain functions run where the loop runs, and block it."""

    def submit(self, run: Run, done: Done) -> None:
        outcome = contextvars.copy_context().run(run_blocking, run, self._kept(run))
        self._loop.call_soon(done, run, outcome)

    @contextmanager
    def _kept(self, run: Run) -> Iterator[None]:
        with nullcontext():
            try:
                yield
            except Exception as error:
                self._errors[run.claim.id] = error
                raise

    def inject(self, run: Run, kind: type[BaseException]) -> None:
        """Do nothing: the thread that would have to interrupt the task is the one that runs it."""


class InlineChildren(Children):
    """Process tasks in this process: quick to start, seen by mocks, and not killable."""

    def __init__(self, threads: KeepingThreads, layers: list[AroundRun]) -> None:
        super().__init__(1, lambda id, kind, data: None)
        self._threads, self._layers = threads, layers

    async def run(self, run: Run, started: Callable[[], None]) -> Outcome:
        started()
        run.layers = self._layers  # the app's own layers run around this, as around a child
        if run.app.tasks[run.claim.task].is_async:
            outcomes: list[Outcome] = []
            await run_on_loop(run, lambda _, outcome: outcomes.append(outcome))
            return outcomes[0]
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._threads.submit(run, lambda _, outcome: None if future.done() else future.set_result(outcome))
        outcome = await future
        return judge(run, timed_out(run)) if run.stop == TIMED_OUT else outcome

    def kill(self, run: Run, why: str) -> None:
        if run.handle is not None and run.app.tasks[run.claim.task].is_async:
            run.handle.cancel()
        else:
            self._threads.inject(run, Cancel)


async def in_process(claim: Claim, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """``current().in_process(...)``, in this process."""
    try:
        if inspect.iscoroutinefunction(fn):
            return await fn(*args)
        return await asyncio.to_thread(fn, *args)
    except Exception as error:
        info = describe(error)
        raise JobFailed(
            f"in_process({fn.__qualname__}): {info.type}: {info.message}",
            error_type=info.type, error_message=info.message, traceback=info.traceback,
        ) from error  # fmt: skip
