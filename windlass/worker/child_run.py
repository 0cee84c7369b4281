"""What a process child knows about the job it is running: whether to stop, and when it may be interrupted.

The runner wraps the user's code, and only that, in ``here.user_code()``, so that a soft timeout can hit nowhere else.
One instance serves the process, because signals belong to the process. It knows neither the socket nor the app.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.errors import SoftTimeout

_main_thread = threading.main_thread()


class ChildRun:
    """The running job, as the reader thread and the main thread both see it.

    Locks are no use here: a signal handler would deadlock on one its own thread holds. The two threads share a list,
    whose append and pop are atomic, and plain attributes that only one of them writes at a time.
    """

    def __init__(self) -> None:
        self._job = ""
        self._cancelled = ""
        self._due: list[str] = []
        self._interruptible = False
        self._holds = 0
        self._on_soft: Callable[[], None] | None = None
        self.stopping = False
        """Whether the worker was asked to stop."""

    # -- the main thread

    def end(self) -> None:
        """Note that the job has ended: nothing can interrupt the child now. Called before the reply that brings the
        next job.
        """
        self._interruptible = False
        self._on_soft = None
        self._job = ""

    @property
    def cancelled(self) -> bool:
        """Whether the running job was asked to stop."""
        return bool(self._job) and self._cancelled == self._job

    @contextmanager
    def user_code(self, on_soft: Callable[[], None] | None = None) -> Iterator[None]:
        """The stretch of code in which a soft timeout may be raised in the main thread.

        A coroutine cannot be interrupted this way: the exception would surface in the event loop. With ``on_soft``,
        that is called instead, in the reader thread, at most once.
        """
        self._on_soft = on_soft
        self._interruptible = on_soft is None
        try:
            self._fire() if on_soft is None else self._tell()
            yield
        finally:
            self._interruptible = False
            self._on_soft = None

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """A stretch of user code that a soft timeout must not tear, like sending a message; the timeout hits
        after it.
        """
        if threading.current_thread() is not _main_thread:
            yield
            return
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
        self._fire()

    def on_signal(self, _signum: int, _frame: object) -> None:
        """The handler of the signal that the reader thread sends; it runs in the main thread between two bytecodes."""
        self._fire()

    def _fire(self) -> None:
        if self._interruptible and not self._holds and self._take_due():
            self._interruptible = False
            raise SoftTimeout

    def _take_due(self) -> bool:
        try:
            # The job id is compared here and not when the timeout was put in: that job may have ended in between.
            return self._due.pop() == self._job
        except IndexError:
            return False

    def _tell(self) -> None:
        on_soft = self._on_soft
        if on_soft is not None and self._take_due():
            on_soft()

    # -- the reader thread

    def begin(self, job_id: str, cancelled: bool = False) -> None:
        """Note that a job has arrived: earlier interruptions are forgotten, later ones are for this job."""
        self._due.clear()
        self._cancelled = job_id if cancelled else ""
        self._job = job_id

    def cancel(self, job_id: str) -> None:
        """Ask the job to stop. Without effect on any other job."""
        self._cancelled = job_id

    def soft_timeout(self, job_id: str) -> None:
        """Interrupt the job, now or as soon as its user code may be interrupted."""
        if job_id != self._job:
            return
        self._due.append(job_id)
        if self._on_soft is not None:
            self._tell()
        elif _main_thread.ident is not None:
            # A real signal makes a sleep or a read in the main thread end early.
            signal.pthread_kill(_main_thread.ident, signal.SIGUSR1)


here = ChildRun()
