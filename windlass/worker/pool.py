"""The process pool: jobs run in child processes, each of which can be killed alone.

Children are clean interpreters, started when first needed and kept warm. A job that dies takes down its own child and
no neighbour. The pool does not decide what becomes of a job: ``run`` answers an outcome or raises what happened to the
child.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.errors import ConfigError, WindlassError
from windlass.support.logs import Steady
from windlass.worker import child_messages
from windlass.worker.child_messages import FromChild, Measured, Note, RunReply, RunRequest
from windlass.worker.process import ChildDied, ChildProcess, ChildStartFailed, PoolClosed
from windlass.worker.process_metrics import Measures

__all__ = ["ChildDied", "ChildStartFailed", "PoolClosed", "ProcessPool", "RunReply", "RunRequest"]

log = Steady(logging.getLogger("windlass.worker"))

WORKER_STOPS = "the worker is stopping"
_CHILD = (sys.executable, "-m", "windlass.worker.child")
_LONGEST_BACKOFF = 30.0
# How long an idle child may take to run its exit handlers.
_LEAVE_TIME = 5.0


@dataclass(slots=True, eq=False)
class _Run:
    """A request on its way. ``child`` is None while it waits for one, and again when it is over."""

    request: RunRequest
    reply: asyncio.Future[RunReply]
    started: Callable[[], None] | None
    child: ChildProcess | None = None

    def fail(self, error: WindlassError) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)


class ProcessPool:
    """Up to ``size`` children of the app named by ``target``. Lives in one event loop; no method is thread-safe.

    ``max_jobs`` and ``max_memory`` (bytes) replace a child after that many jobs or above that size; 0 is never.
    ``on_message(job_id, kind, data)`` hears what jobs say while they run. ``command`` starts another interpreter.
    ``measures``: how children measure themselves, and who is told.
    """

    def __init__(
        self, size: int, command: Sequence[str] | None, target: str, *, max_jobs: int = 0, max_memory: int = 0,
        on_message: Callable[[str, str, Any], None], imports: Sequence[str] = (),
        body: str = child_messages.DEFAULT_BODY, start_timeout: float = 120.0, measures: Measures | None = None,
    ) -> None:  # fmt: skip
        if size < 1:
            raise ConfigError(f"a process pool needs at least one child, not {size}")
        self._size = size
        self._command = tuple(command or _CHILD)
        self._measures = measures
        measure = measures.function if measures else ""
        self._setup = child_messages.Setup(target, list(imports), body, [], os.getpid(), max_memory > 0, measure)
        self._max_jobs = max_jobs
        self._max_memory = max_memory
        self._on_message = on_message
        self._start_timeout = start_timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = self._stopping = False
        self._runs: dict[str, _Run] = {}
        self._waiting: deque[_Run] = deque()
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        self._leaving: set[ChildProcess] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._failed_starts = 0
        self._resting: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()

    # -- life

    async def start(self) -> None:
        """Make the pool usable; children are started when jobs need them."""
        if sys.platform == "win32":
            raise ConfigError('runs_in="process" needs Linux or macOS')
        if self._closed:
            raise PoolClosed
        self._loop = asyncio.get_running_loop()

    async def stop(self, grace: float) -> None:
        """Let running jobs end for ``grace`` seconds, kill the rest, and wait until every child is gone."""
        self._closed = True
        if self._resting is not None:
            self._resting.cancel()
        while self._waiting:
            self._waiting.popleft().fail(PoolClosed())
        for task in self._starting:
            task.cancel()
        while self._idle:
            self._retire(self._idle.pop())
        if self._busy and grace > 0:
            await asyncio.wait([run.reply for run in self._runs.values()], timeout=grace)
        for child in self._busy:
            child.kill(WORKER_STOPS)
        while self._starting or self._busy or self._leaving:
            self._news.clear()
            await self._news.wait()

    # -- what there is

    @property
    def free(self) -> int:
        """How many more jobs could start now: idle children, and children that may still be started."""
        if self._closed:
            return 0
        startable = 0 if self._resting else self._size - self._alive
        return max(0, len(self._idle) + len(self._starting) + startable - len(self._waiting))

    @property
    def waiting(self) -> int:
        """How many jobs wait for a child."""
        return len(self._waiting)

    @property
    def busy(self) -> frozenset[str]:
        """The ids of the jobs that are in a child now."""
        return frozenset(self.pids)

    @property
    def pids(self) -> dict[str, int]:
        """The process id for each job that is in a child now."""
        return {job_id: run.child.pid for job_id, run in self._runs.items() if run.child is not None}

    @property
    def _alive(self) -> int:
        return len(self._idle) + len(self._busy) + len(self._starting)

    # -- one job

    async def run(self, request: RunRequest, started: Callable[[], None] | None = None) -> RunReply:
        """Run a job in the next free child; ``started`` is called when a child gets it.

        Raises ``ChildDied`` with the child's cause of death, ``ChildStartFailed`` with the traceback if the app cannot
        be imported there, and ``PoolClosed``. Cancelling the call kills the child: its job could not be settled any
        more.
        """
        if self._closed or self._loop is None:
            raise PoolClosed
        if request.id in self._runs:
            raise ValueError(f"{request.id} is already running in this pool")
        run = self._runs[request.id] = _Run(request, self._loop.create_future(), started)
        self._waiting.append(run)
        self._dispatch()
        try:
            return await run.reply
        except asyncio.CancelledError:
            if run.child is not None:
                run.child.kill("the run was abandoned")
            raise
        finally:
            del self._runs[request.id]

    def soft_timeout(self, job_id: str) -> bool:
        """Raise ``SoftTimeout`` in the job's code. False if the job is in no child."""
        run = self._runs.get(job_id)
        if run is None or run.child is None:
            return False
        run.child.send(child_messages.SoftTimeoutRun(job_id))
        return True

    def cancel(self, job_id: str) -> bool:
        """Tell the job to stop, even if it has not started. False if the pool has no such job."""
        run = self._runs.get(job_id)
        if run is None or run.reply.done():
            return False
        if run.child is not None:
            run.child.send(child_messages.CancelRun(job_id))
        else:
            run.request.cancelled = True
        return True

    def tell_of_stop(self) -> None:
        """Tell every child that the worker stops, also one that is yet to start. It still runs what it is given."""
        self._stopping = True
        for child in (*self._idle, *self._busy):
            child.send(child_messages.WorkerStops())

    def kill(self, job_id: str, why: str) -> bool:
        """Kill the job's child, or end its wait for one: ``run`` raises ``ChildDied``. False if the pool has no such
        job.
        """
        run = self._runs.get(job_id)
        if run is None or run.reply.done():
            return False
        if run.child is not None:
            run.child.kill(why)
        else:
            run.fail(ChildDied(f"killed: {why}"))
        return True

    # -- children and jobs find each other

    def _dispatch(self) -> None:
        while self._waiting:
            if self._waiting[0].reply.done():
                self._waiting.popleft()
            elif self._idle:
                self._assign(self._idle.pop(), self._waiting.popleft())
            else:
                break
        if self._closed or self._resting or self._loop is None:
            return
        for _ in range(min(len(self._waiting) - len(self._starting), self._size - self._alive)):
            self._starting.add(self._loop.create_task(self._start_child()))

    def _assign(self, child: ChildProcess, run: _Run) -> None:
        self._busy.add(child)
        child.jobs += 1
        child.job_id = run.request.id
        run.child = child
        child.send(run.request)
        if run.started is not None:
            run.started()

    def _on_frame(self, child: ChildProcess, frame: FromChild) -> None:
        if isinstance(frame, Measured):
            if self._measures is not None:
                self._measures.gather.heard(child.pid, frame.words)
            return
        run = self._run_of(child)
        if isinstance(frame, Note) and run is not None:
            self._pass_on(frame)
        elif isinstance(frame, RunReply):
            if run is not None:
                # The child may get its next job before the caller hears of this one: a kill must not hit that.
                run.child = None
                if not run.reply.done():
                    run.reply.set_result(frame)
            self._release(child, frame.memory)

    def _run_of(self, child: ChildProcess) -> _Run | None:
        """The run this child works for. None if it was abandoned, even if another child has the same job by now."""
        run = self._runs.get(child.job_id)
        return run if run is not None and run.child is child else None

    def _pass_on(self, note: Note) -> None:
        try:
            self._on_message(note.id, note.kind, note.data)
        except Exception:
            log.exception("a message of job %s could not be handled", note.id)

    def _release(self, child: ChildProcess, memory: int) -> None:
        if child.killed:
            return  # the signal is on its way: the child stays busy until it is gone, so that no other job is put there
        self._busy.discard(child)
        child.job_id = ""
        if self._closed or 0 < self._max_jobs <= child.jobs or 0 < self._max_memory < memory:
            self._retire(child)
        else:
            self._idle.append(child)
        self._dispatch()

    def _retire(self, child: ChildProcess) -> None:
        self._leaving.add(child)
        child.send(child_messages.Leave())
        if self._loop is not None:
            self._loop.call_later(_LEAVE_TIME, child.kill, "it did not leave in time")

    def _on_gone(self, child: ChildProcess) -> None:
        self._busy.discard(child)
        self._leaving.discard(child)
        if self._measures is not None:
            self._measures.gather.gone(child.pid)
        if child in self._idle:
            self._idle.remove(child)
            log.warning("an idle process child died: %s", child.death())
        if (run := self._run_of(child)) is not None:
            run.fail(ChildDied(child.death()))
        self._news.set()
        self._dispatch()

    # -- starting children

    async def _start_child(self) -> None:
        child = ChildProcess(self._on_frame, self._on_gone)
        try:
            self._setup.path = list(sys.path)
            async with asyncio.timeout(self._start_timeout):
                await child.start(self._command, self._setup)
        except TimeoutError:
            self._rest(ChildStartFailed(f"a process child was not ready after {self._start_timeout:g} s"))
        except OSError as error:
            self._rest(ChildStartFailed(f"a process child cannot be started: {error}"))
        except ChildStartFailed as error:
            self._rest(error)
        else:
            self._failed_starts = 0
            self._idle.append(child)
            if self._stopping:
                child.send(child_messages.WorkerStops())
        finally:
            self._starting.difference_update({asyncio.current_task()})
            if child not in self._idle and not child.gone:
                self._leaving.add(child)
                child.kill("it was not wanted any more" if self._closed else "it did not start in time")
            self._news.set()
            self._dispatch()

    def _rest(self, error: ChildStartFailed) -> None:
        """Tell one waiting job why no child comes, and start none for a while: the next one would fail the same way."""
        if self._resting is None and self._loop is not None and not self._closed:
            delay = min(2.0**self._failed_starts, _LONGEST_BACKOFF)
            self._failed_starts += 1
            self._resting = self._loop.call_later(delay, self._rested)
        while self._waiting:
            run = self._waiting.popleft()
            if not run.reply.done():
                run.fail(error)
                break

    def _rested(self) -> None:
        self._resting = None
        self._dispatch()
