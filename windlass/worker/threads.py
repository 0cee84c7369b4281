"""Threads for plain ``def`` tasks: runs come in by one shared queue, and outcomes return to the loop in batches."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from windlass.core.lifecycle import Outcome
from windlass.errors import Cancel, SoftTimeout
from windlass.support.logs import Steady
from windlass.worker.runner import Run, run_blocking

log = Steady(logging.getLogger("windlass.worker"))

Done = Callable[[Run, Outcome], None]


class Threads:
    """Up to ``size`` threads, started as they are needed."""

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self._size, self._loop = size, loop
        self._inbox: SimpleQueue[tuple[Run, Done, contextvars.Context] | None] = SimpleQueue()
        self._outbox: deque[tuple[Run, Done, Outcome]] = deque()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._injected: set[int] = set()
        self._busy = 0
        self._announced = False

    def submit(self, run: Run, done: Done) -> None:
        """Queue a run. Called on the loop, as ``done`` will be; the task sees a copy of the caller's context."""
        self._busy += 1
        if self._busy > len(self._threads) < self._size:
            self._add_thread()
        self._inbox.put((run, done, contextvars.copy_context()))

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"windlass-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads; the existing ones will take the run
            if not self._threads:
                self._busy -= 1
                raise
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            run, done, context = item
            outcome = self._run(run, context)
            with self._lock:
                self._outbox.append((run, done, outcome))
                announce, self._announced = not self._announced, True
            if announce:
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    return  # the loop is closed: the worker has stopped and handed its jobs back

    def _run(self, run: Run, context: contextvars.Context) -> Outcome:
        """Run it and answer its outcome. An exception injected too late is taken back, so that it does not end this
        thread.
        """
        outcome: Outcome | None = None
        while True:
            try:
                if outcome is None:
                    outcome = context.run(run_blocking, run, self._interruptible(run))
                self._take_back(run)
                return outcome
            except (SoftTimeout, Cancel) as late:
                outcome = outcome or run.judge(late)

    @contextmanager
    def _interruptible(self, run: Run) -> Iterator[None]:
        """The stretch in which an exception may be injected; one that comes a moment too late is taken back."""
        run.thread = threading.get_ident()
        try:
            yield
        finally:
            self._take_back(run)

    def _take_back(self, run: Run) -> None:
        """Called in the job's thread: let no exception be injected from here on, and catch one that is still on its
        way.

        Python can also be told to withdraw it, but then never lowers its flag for such exceptions: everything in the
        process gets slower, and on 3.11 a thread that is traced or profiled never gets past its next call.
        """
        ident = threading.get_ident()
        with self._lock:
            run.thread = 0
            injected = ident in self._injected
            self._injected.discard(ident)
        if injected:
            with suppress(SoftTimeout, Cancel):
                for _ in range(1_000):
                    pass

    def _collect(self) -> None:
        with self._lock:
            batch, self._outbox, self._announced = self._outbox, deque(), False
        self._busy -= len(batch)
        for run, done, outcome in batch:
            try:
                done(run, outcome)
            except Exception:  # the error is one job's, and the others of the batch have ended too
                log.exception("job %s (%s) ended, and that could not be handled", run.claim.id, run.claim.task)

    def inject(self, run: Run, kind: type[BaseException]) -> None:
        """Raise an exception in the thread that runs this job, at its next bytecode. Code that waits in C is not
        reached.
        """
        with self._lock:
            if run.thread:
                self._injected.add(run.thread)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(run.thread), ctypes.py_object(kind))

    def stop(self) -> None:
        """End idle threads; one that is stuck in user code ends with the process."""
        for _ in self._threads:
            self._inbox.put(None)
