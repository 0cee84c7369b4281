"""Process tasks: makes requests to the pool out of claims, and outcomes out of the pool's answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass.calls.context import Current, Notes
from windlass.calls.watch import Watcher, carried
from windlass.core.failure import describe
from windlass.core.job import Claim
from windlass.core.lifecycle import Crashed, HandedBack, Outcome, Stopped
from windlass.errors import WindlassError
from windlass.support.logs import Steady
from windlass.worker import runner
from windlass.worker.child_functions import function_path, function_request, function_result, load_object
from windlass.worker.child_messages import RunRequest
from windlass.worker.child_run import here
from windlass.worker.pool import ProcessPool
from windlass.worker.process import ChildDied, ChildStartFailed, PoolClosed
from windlass.worker.process_metrics import Measures
from windlass.worker.runner import CANCELLED, LOST, SHUT_DOWN, TIMED_OUT, Run, SoftTask, soften

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.task import Task

log = Steady(logging.getLogger("windlass.worker"))


class Children:
    """The worker's side of its process pool. The pool starts with the first job that needs it.

    ``imports``: what a child imports before its first job, so that the job's time limit does not run during the import.
    """

    def __init__(
        self, size: int, on_message: Callable[[str, str, Any], None], measures: Measures | None = None,
        watchers: Sequence[Watcher] = (), max_jobs: int = 0, max_memory: int = 0,
        imports: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._imports = imports
        self._max_jobs, self._max_memory = max_jobs, max_memory * 1_048_576
        self._size, self._on_message, self._measures, self._watchers = size, on_message, measures, watchers
        self._pool: ProcessPool | None = None
        self._stopping = False
        self._calls = 0

    @property
    def behind(self) -> bool:
        """Whether more jobs wait for a child than there are children: another worker should take further ones."""
        return self._pool is not None and self._pool.waiting >= self._size

    async def _started(self) -> ProcessPool:
        if self._pool is None:
            self._pool = ProcessPool(
                self._size, None, "", on_message=self._on_message, measures=self._measures, max_jobs=self._max_jobs,
                max_memory=self._max_memory, imports=self._imports,
            )  # fmt: skip
            await self._pool.start()
            if self._stopping:
                self._pool.tell_of_stop()
        return self._pool

    async def run(self, run: Run, started: Callable[[], None]) -> Outcome:
        """Run one job in a child; the child's death is charged to this job alone. ``started`` is called when a child
        has the job.
        """
        pool = await self._started()
        try:
            return (await pool.run(self._equip(request_of(run)), started)).outcome
        except ChildDied as error:
            return self._died(run, error)
        except PoolClosed:
            return HandedBack()
        except ChildStartFailed as error:
            # The deployment is at fault, not the job: the job waits for a worker whose children can start.
            log.error("job %s (%s) is handed back: %s", run.claim.id, run.claim.task, error)
            return HandedBack()
        except WindlassError as error:
            return runner.judge(run, error)

    @staticmethod
    def _died(run: Run, error: ChildDied) -> Outcome:
        if run.stop == CANCELLED:
            return Stopped()
        if run.stop in (SHUT_DOWN, LOST):
            return HandedBack()
        if run.stop == TIMED_OUT:
            return runner.judge(run, runner.timed_out(run))
        return Crashed(msgspec.structs.replace(describe(error), fingerprint="child-died"), run.rules.max_crashes)

    async def call(self, claim: Claim, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """``current().in_process(fn, *args)``."""
        pool = await self._started()
        self._calls += 1
        request = self._equip(function_request(f"{claim.id}#{self._calls}", fn, args))
        return function_result(request, (await pool.run(request)).outcome)  # cancelling this call kills the child

    def _equip(self, request: RunRequest) -> RunRequest:
        """Add what watchers want known in the child: a child inherits no context."""
        if self._watchers:
            request.carried = carried(self._watchers)
        return request

    def soft_timeout(self, run: Run) -> None:
        if self._pool is not None:
            self._pool.soft_timeout(run.claim.id)

    def cancel(self, run: Run) -> None:
        if self._pool is not None and run.place == "process":
            self._pool.cancel(run.claim.id)

    def kill(self, run: Run, why: str) -> None:
        if self._pool is not None:
            self._pool.kill(run.claim.id, why)

    def tell_of_stop(self) -> None:
        """Tell the children that the worker was asked to stop; their jobs can see it."""
        self._stopping = True
        if self._pool is not None:
            self._pool.tell_of_stop()

    async def stop(self) -> None:
        if self._pool is not None:
            await self._pool.stop(0)


def request_of(run: Run) -> RunRequest:
    claim = run.claim
    return RunRequest(
        id=claim.id, task=claim.task, version=claim.version, payload=claim.payload, meta=claim.meta, queue=claim.queue,
        priority=claim.priority, run=claim.run, attempt=claim.attempt, crashes=claim.crashes, snoozes=claim.snoozes,
        enqueued_at=claim.enqueued_at, function=function_path(run.app.tasks[claim.task].fn), graph=claim.graph,
        inject=claim.inject, given=claim.given, awaits=claim.awaits, awaited=claim.awaited,
    )  # fmt: skip


# -- the child's side


class PipeNotes:
    """A running job's notes, sent through the pipe to the worker."""

    def __init__(self, emit: Callable[[str, Any], None]) -> None:
        self._emit = emit

    @property
    def stopping(self) -> bool:
        return here.stopping

    def progress(self, claim: Claim, data: bytes) -> None:
        self._emit("progress", data)

    def log(self, claim: Claim, level: str, text: str) -> None:
        self._emit("log", [level, text])

    def in_process(self, claim: Claim, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        raise WindlassError("current().in_process() was called in a child process; it is one already")


def run_in_child(_: object, request: RunRequest, emit: Callable[[str, Any], None]) -> Outcome:
    """The body of a pool child: runs a job in the same steps as a thread does."""
    task: Task[Any, Any] = load_object(request.function)
    claim = Claim(
        request.id, request.task, request.version, request.queue, request.priority, request.payload, request.meta,
        request.run, 0, 0, request.attempt, request.crashes, request.snoozes, request.enqueued_at,
        graph=request.graph, inject=request.inject, given=request.given, awaits=request.awaits,
        awaited=request.awaited,
    )  # fmt: skip
    notes: Notes = PipeNotes(emit)
    app = cast("Windlass", task._app)
    run = Run(app, claim, notes, SimpleNamespace())
    run.current = ChildCurrent(claim, notes, SimpleNamespace(), app)
    run.layers = []  # the worker runs the middleware, around the child
    if task.is_async:
        return asyncio.run(_run_async(run))
    return runner.run_blocking(run, here.user_code())


class ChildCurrent(Current):
    """The running job, as its code in a child sees it: a cancel arrives through the pipe."""

    __slots__ = ()

    is_in_child = True

    @property
    def cancelled(self) -> bool:
        return here.cancelled


async def _run_async(run: Run) -> Outcome:
    outcomes: list[Outcome] = []
    loop = asyncio.get_running_loop()
    body = runner.run_on_loop(run, lambda _, outcome: outcomes.append(outcome))
    run.handle = loop.create_task(SoftTask(body, run))
    with here.user_code(lambda: _soften_soon(loop, run)):
        await run.handle
    with suppress(Exception):  # the job's outcome stands, even if the connection fails to close
        await run.app.close()  # the task may have used a connection, and the loop ends with the job
    return outcomes[0]


def _soften_soon(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    loop.call_soon_threadsafe(soften, run)
