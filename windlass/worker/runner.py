"""One job from claim to outcome: find the task, read the arguments, run the function, judge the result. The steps are
the same in every kind of place.

A runner never talks to the store and never decides a state: it makes an ``Outcome``, and ``lifecycle.decide`` does the
rest.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.calls.context import Current, HandOver, Notes, set_current
from windlass.calls.middleware import around_run
from windlass.core import codec, safe
from windlass.core.duration import to_ms
from windlass.core.failure import describe
from windlass.core.job import Claim, ErrorInfo
from windlass.core.lifecycle import (
    Adopting,
    Crashed,
    Failed,
    HandedBack,
    Outcome,
    Snoozed,
    Stopped,
    Succeeded,
    Transition,
    decide,
    unwritable,
)
from windlass.core.options import Resolved, unpack_call
from windlass.core.retry import requeue_delay
from windlass.errors import (
    TOLD,
    Cancel,
    JobFailed,
    PayloadError,
    Reject,
    Snooze,
    SoftTimeout,
    TaskTimeout,
    UnknownTask,
)
from windlass.handles.results import MARK, hide_marks
from windlass.support.logs import Steady
from windlass.worker.arguments import Ready, arguments, in_turn

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.calls.task import Task

log = Steady(logging.getLogger("windlass.worker"))

CANCELLED, TIMED_OUT, SHUT_DOWN, LOST = "cancelled", "timed out", "shutting down", "lost"
"""Why a running job was told to stop."""


class Run:
    """One claim being worked on: the rules that hold for it, and whether it was told to stop."""

    __slots__ = (
        "app", "began", "claim", "codec", "current", "each", "error", "fault", "function", "handle", "layers", "place",
        "raised",
        "result", "rules", "settled", "soft", "stop", "thread",
    )  # fmt: skip

    def __init__(self, app: Windlass, claim: Claim, notes: Notes, state: SimpleNamespace) -> None:
        self.app, self.claim = app, claim
        self.current = Current(claim, notes, state, app)
        task = app.tasks.get(claim.task)
        handler = None if task else app.handlers.get(claim.queue)
        self.function: Task[Any, Any] | Callable[..., Any] | None = task or handler
        self.codec = task.codec if task else None
        self.place = task.runs_in if task else "loop" if asyncio.iscoroutinefunction(handler) else "thread"
        self.rules: Resolved = app.declared.resolve(claim.task, claim.queue)
        self.handle: asyncio.Task[None] | None = None
        self.thread = 0
        self.began = 0.0
        self.stop = ""
        self.soft = self.settled = False
        self.layers = app.declared.run_layers
        self.result: Any = None
        self.error: BaseException | None = None
        self.raised: BaseException | None = None
        self.fault = self.each = ""
        if b'"options"' in claim.meta:  # most calls have no options, and decoding costs time
            self._read_call()

    def _read_call(self) -> None:
        """The options of the call itself. Options that cannot be read fail this job, and not the worker."""
        try:
            call = checked_call(self.current.meta.options)
            self.each = call.pop("each", "")
            self.rules = self.app.declared.resolve(self.claim.task, self.claim.queue, call) if call else self.rules
        except Exception as error:
            self.fault = f"the options of the call cannot be read: {error!r}"

    def many(self, task: Task[Any, Any]) -> Ready:
        """The call of one job that calls its task for many items."""
        return in_turn(self.current, task, self.claim), (), {}

    def judge(self, exc: BaseException) -> Outcome:
        """The outcome an exception of the run stands for."""
        return judge(self, exc)


_CALL_TYPES = {"result": bool, "on_crash": str, "each": str}


def checked_call(packed: dict[str, Any]) -> dict[str, Any]:
    """The options of a call as read from the store, where others may write too."""
    for name, value in packed.items():
        if name != "backoff" and type(value) is not _CALL_TYPES.get(name, int):
            raise PayloadError(f"{name} is {value!r}")
    return unpack_call(packed)


def succeeded(run: Run, result: Any) -> Outcome:
    """The outcome for what a task returned. Never raises, whatever the value's own code does."""
    if not run.rules.result:
        return Succeeded(None)
    if result is None:
        return _NOTHING
    try:
        cap = run.app.settings.max_payload
        data = run.codec.encode_result(result, cap) if run.codec else codec.encode(result, "the result", cap)
        return Succeeded(hide_marks(data, result) if MARK in data else data)
    except BaseException as error:
        run.raised = error
        return Failed(describe(error), None, "the result cannot be kept")


_NOTHING = Succeeded(b"null")


def judge(run: Run, exc: BaseException) -> Outcome:
    """The outcome for an exception out of a task. Never raises, whatever the exception's own code does."""
    run.raised = exc
    try:
        return _judge(run, exc)
    except BaseException as wrong:
        log.error("an exception of job %s (%s) cannot be judged: %s", run.claim.id, run.claim.task, safe.kind(wrong))
        return Failed(describe(exc), None, "the exception cannot be judged")


def _judge(run: Run, exc: BaseException) -> Outcome:
    if isinstance(exc, HandOver):
        return exc.outcome
    if isinstance(exc, Cancel):
        return Stopped(safe.text(exc, safe.MAX_REASON))
    if (outcome := when_stopped(run.stop, exc)) is not None:
        return outcome
    if isinstance(exc, asyncio.CancelledError) and run.stop == TIMED_OUT:
        exc = run.raised = timed_out(run)
    try:
        if isinstance(exc, Snooze):
            return Snoozed(to_ms(exc.delay, "Snooze.delay"))
        if isinstance(exc, Reject) and exc.requeue:
            return Snoozed(requeue_delay(run.claim.snoozes))
        delay, reason = run.rules.retry.next_delay(run.claim.attempt + 1, exc, random.random())
    except BaseException as wrong:
        # A predicate or backoff function that raises must neither lose the job nor hide the task's own error.
        wrong.__context__ = exc
        run.raised = wrong
        return Failed(describe(wrong), None, "the retry policy raised")
    return Failed(describe(exc), delay, reason, trips(run, exc), getattr(exc, TOLD, False) is True)


def when_stopped(stop: str, exc: BaseException) -> Outcome | None:
    """The outcome for an exception of a job that was told to stop, if the stop explains it.

    At the end of the worker's grace any exception counts as the stop: what clean-up raises then is not the job's fault.
    A task's own decision stands.
    """
    if stop == SHUT_DOWN and not isinstance(exc, (Cancel, Snooze, Reject, HandOver)):
        return HandedBack()
    if stop in (CANCELLED, LOST) and isinstance(exc, asyncio.CancelledError):
        return Stopped() if stop == CANCELLED else HandedBack()
    return None


def trips(run: Run, exc: BaseException) -> bool:
    """Whether the exception counts as an error at the task's breaker, if it has one."""
    task = run.app.tasks.get(run.claim.task)
    breaker: str = task.layer.get("breaker", "") if task else ""
    return bool(breaker) and run.app.breaker(breaker).counts(exc)


def timed_out(run: Run) -> TaskTimeout:
    """The outcome for a thread that outlived its timeout: it cannot be stopped, but its job is over."""
    end = "; its job is over, and its thread goes on until it returns" if run.place == "thread" else " and was stopped"
    return TaskTimeout(f"the task ran longer than its timeout of {run.rules.timeout / 1000:g} s{end}")


def dated(error: ErrorInfo, run: Run, worker: str) -> ErrorInfo:
    """The error with the attempt's begin (the claim's instant, by the store's clock), duration and worker."""
    took = int((monotonic() - run.began) * 1000) if run.began else 0
    return msgspec.structs.replace(error, at=run.claim.claimed_at, took=took, worker=worker)


def transition(run: Run, outcome: Outcome, worker: str) -> Transition:
    """What the store is to write. The job counts as settled from here on, so nothing here may fail."""
    try:
        if type(outcome) is Failed or type(outcome) is Crashed:
            outcome.error = dated(outcome.error, run, worker)
        return decide(run.claim, outcome, run.rules.keep_done, run.rules.keep_failed)
    except Exception as error:
        log.exception("the outcome of job %s (%s) cannot be decided", run.claim.id, run.claim.task)
        return unwritable(run.claim, safe.text(error, safe.MAX_REASON))


def bad_payload(run: Run, error: BaseException) -> Outcome:
    run.raised = error
    reason = "unknown task" if isinstance(error, UnknownTask) else "bad payload"
    return Failed(describe(error), None, reason)


async def run_on_loop(run: Run, done: Callable[[Run, Outcome], None]) -> None:
    """Run a coroutine task, in an asyncio.Task and context of its own."""
    try:
        function, args, kwargs = arguments(run)
    except BaseException as error:  # upcasters and validators are user code, which may even call sys.exit()
        done(run, bad_payload(run, error))
        return
    set_current(run.current)
    try:
        if run.layers:
            result = await around_run(run.layers, run.current, lambda: function(*args, **kwargs))()
        else:
            result = await function(*args, **kwargs)
        outcome = succeeded(run, result)
    except BaseException as error:
        outcome = run.judge(error)
    done(run, outcome)


def run_blocking(run: Run, guard: AbstractContextManager[None]) -> Outcome:
    """Run a plain function in the calling thread or process; it may be interrupted only inside ``guard``."""
    try:
        function, args, kwargs = arguments(run)
    except BaseException as error:
        return bad_payload(run, error)
    set_current(run.current)
    try:
        with guard:
            run.result = function(*args, **kwargs)
    except BaseException as error:
        run.error = error
        return run.judge(error)
    return succeeded(run, run.result)


async def run_elsewhere(
    run: Run, start: Callable[[], Awaitable[Outcome]], done: Callable[[Run, Outcome], None]
) -> None:
    """Run a thread or process task with its middleware around it, which runs on the loop as always."""
    ended: list[tuple[BaseException, Outcome]] = []

    async def inner() -> Any:
        outcome = await start()
        if isinstance(outcome, Succeeded):
            return result_of(run, outcome)
        ended[:] = [(run.error or raised_elsewhere(outcome), outcome)]
        raise ended[0][0]

    set_current(run.current)
    try:
        outcome = succeeded(run, await around_run(run.layers, run.current, inner)())
    except BaseException as error:
        # The task's own error was judged where it was raised; any other error is the middleware's.
        outcome = ended[0][1] if ended and error is ended[0][0] else run.judge(error)
    done(run, outcome)


def result_of(run: Run, outcome: Succeeded) -> Any:
    """A task's result: a thread's value, or a child's answer read by the task's annotation."""
    task = run.app.tasks.get(run.claim.task)
    if run.place == "thread" or task is None:
        return run.result
    try:
        return task.codec.decode_result(outcome.result)
    except PayloadError:
        return codec.decode_any(outcome.result)


def raised_elsewhere(outcome: Outcome) -> BaseException:
    """The exception that middleware sees for what was raised in a child."""
    return HandOver(outcome) if isinstance(outcome, Adopting) else Elsewhere(outcome)


class Elsewhere(JobFailed):
    """An exception that stands, for the middleware, for what a job raised in a child; the original stays there."""

    def __init__(self, outcome: Outcome) -> None:
        error = getattr(outcome, "error", None) or ErrorInfo(type(outcome).__name__, "")
        super().__init__(
            f"{error.type}: {error.message}",
            error_type=error.type,
            error_message=error.message,
            traceback=error.traceback,
        )


def soften(run: Run) -> None:
    """Raise SoftTimeout in a coroutine task. Called on the loop that runs it."""
    if run.handle is not None and not run.handle.done():
        run.soft = True
        run.handle.cancel()


class SoftCancellation(SoftTimeout, asyncio.CancelledError):
    """Raises SoftTimeout in the task's code, and is a cancellation for task groups on the way there.

    A group that met any other exception while it waits would leave its own tasks running.
    """


SoftCancellation.__name__ = SoftCancellation.__qualname__ = SoftTimeout.__qualname__
SoftCancellation.__module__ = SoftTimeout.__module__


class SoftTask(Coroutine[Any, Any, None]):
    """A coroutine in which one cancellation arrives as SoftTimeout instead.

    Only asyncio can reach a waiting coroutine, and only with CancelledError; this stands between the two. Jobs without
    a soft timeout run without it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None], run: Run) -> None:
        self._coroutine, self._run = coroutine, run

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, exc: Any, value: Any = None, trace: Any = None) -> Any:
        if isinstance(exc, asyncio.CancelledError) and self._run.soft:
            self._run.soft = False
            if self._run.handle is not None:
                self._run.handle.uncancel()
            limit = self._run.rules.soft_timeout / 1000
            text = f"the task has run longer than its soft timeout of {limit:g} s"
            return self._coroutine.throw(SoftCancellation(text))
        return self._coroutine.throw(exc)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, None, None]:
        return self._coroutine.__await__()
