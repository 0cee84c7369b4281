"""One run of a Celery task, on a worker or in place: handlers, signals, retries, and the end.

Windlass calls ``run_job`` for a job, which turns the end of a run into what Windlass understands. ``run_here`` is the
same without a job, for ``apply()``.
"""

from __future__ import annotations

import logging
import os
import random
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import windlass
from windlass import Current, Failure, State, current
from windlass.celery import _state, signals, states
from windlass.celery.exceptions import Ignore, Reject, Retry
from windlass.celery.json_values import pack, pack_all, unpack
from windlass.celery.reading import IGNORED, Reading
from windlass.celery.rebuild import arguments_worth_keeping, rebuild
from windlass.celery.request import Context, Extra, context_of, read_extra
from windlass.core.duration import to_ms
from windlass.errors import TOLD, Cancel, Signal
from windlass.errors import Retry as WindlassRetry

if TYPE_CHECKING:
    from windlass.celery.task import Task

log = logging.getLogger("celery.app.trace")

_DELAY = "__windlass_retry_in__"
_HERE = os.path.dirname(__file__)


class ExceptionInfo:
    """What handlers get as ``einfo``: the exception, its class, and its traceback as text."""

    def __init__(self, exception: BaseException) -> None:
        while (tb := exception.__traceback__) is not None and tb.tb_frame.f_code.co_filename.startswith(_HERE):
            exception.__traceback__ = tb.tb_next  # keep the user's part of the traceback only
        self.exception, self.type = exception, type(exception)
        self.tb = exception.__traceback__
        self.traceback = "".join(traceback.format_exception(exception))

    def __str__(self) -> str:
        return self.traceback

    def __repr__(self) -> str:
        return f"<ExceptionInfo: {self.exception!r}>"


class Ended(NamedTuple):
    """The end of a run. ``value`` is what was returned or raised."""

    state: str
    value: Any
    info: ExceptionInfo | None = None


# -- a run


def attempt(task: Task, request: Context, args: list[Any], kwargs: dict[str, Any]) -> Ended:
    """Run the task once, with its handlers and signals around it. Raises only exceptions that are no ``Exception``."""
    call = {"task_id": request.id, "task": task, "args": args, "kwargs": kwargs}
    started = time.monotonic()
    with _state.running(task, request), _state.waiting_allowed(False):
        if not request.is_eager:
            signals.task_received.send(sender=task, request=request)
        signals.task_prerun.send(sender=task, **call)
        ended = Ended(states.IGNORED, None)  # used if the task hands its place over, so that it does not end here
        try:
            ended = _judged(task, request, args, kwargs)
            _report(task, request, ended, time.monotonic() - started)
            _handle(task, request, ended, args, kwargs)
        finally:
            signals.task_postrun.send(sender=task, **call, retval=ended.value, state=ended.state)
    return ended


def _judged(task: Task, request: Context, args: list[Any], kwargs: dict[str, Any]) -> Ended:
    try:
        task.before_start(request.id, args, kwargs)
        value = _with_autoretry(task, task.body, args, kwargs)
        asked: Retry | None = request.get("asked_to_retry")
        return Ended(states.SUCCESS, value) if asked is None else Ended(states.RETRY, asked, ExceptionInfo(asked))
    except WindlassRetry as error:
        asked = error if isinstance(error, Retry) else _asked(task, error)
        return Ended(states.RETRY, asked, ExceptionInfo(asked))
    except Ignore as error:
        return Ended(states.IGNORED, error, ExceptionInfo(error))
    except Reject as error:
        return Ended(states.REJECTED, error, ExceptionInfo(error))
    except Cancel as error:
        return Ended(states.REVOKED, error, ExceptionInfo(error))
    except Exception as error:
        return Ended(states.FAILURE, error, ExceptionInfo(error))


def _asked(task: Task, error: WindlassRetry) -> Retry:
    """Windlass's own ``Retry`` in Celery's words."""
    when = task.default_retry_delay if error.delay is None else to_ms(error.delay, "Retry.delay") / 1000
    return Retry(str(error), when=when)


def _with_autoretry(task: Task, body: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    retried, spared = tuple(task.autoretry_for or ()), tuple(task.dont_autoretry_for or ())
    if not retried:
        return body(*args, **kwargs)
    try:
        return body(*args, **kwargs)
    except (Ignore, Retry, Reject, Signal, *spared):
        raise
    except retried as error:
        options = dict(task.retry_kwargs or {})
        if (said := task.request.get("retry_limit")) is not None:
            options["max_retries"] = said  # the task's own words in this run win
        if task.retry_backoff:
            options["countdown"] = backoff(task, task.request.retries)
        raise task.retry(exc=error, **options) from error


def backoff(task: Task, retries: int) -> int:
    """The seconds until the next try: doubling from ``retry_backoff`` up to ``retry_backoff_max``; with jitter,
    anything up to that.
    """
    grown = min(int(task.retry_backoff_max), int(max(1.0, float(task.retry_backoff))) * 2**retries)
    return random.randrange(grown + 1) if task.retry_jitter else grown


def _report(task: Task, request: Context, ended: Ended, seconds: float) -> None:
    what = (task.name, request.id)
    if ended.state == states.SUCCESS:
        log.info("Task %s[%s] succeeded in %.6fs: %s", *what, seconds, _short(ended.value))
    elif ended.state == states.RETRY:
        log.info("Task %s[%s] retry: %s", *what, ended.value)
    elif ended.state == states.IGNORED:
        log.info("Task %s[%s] ignored", *what)
    elif ended.state == states.REJECTED:
        log.warning("Task %s[%s] rejected: %s", *what, ended.value.reason)
    elif ended.state == states.REVOKED:
        log.warning("Task %s[%s] revoked", *what)
    elif isinstance(ended.value, tuple(task.throws or ())):
        log.info("Task %s[%s] raised expected: %r", *what, ended.value)
    else:
        log.error("Task %s[%s] raised unexpected: %r", *what, ended.value, exc_info=ended.value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 1024 else f"{text[:1021]}..."


def _handle(task: Task, request: Context, ended: Ended, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Call the task's own handlers and the signal for this end. One that raises is logged and changes nothing."""
    id, (state, value, info) = request.id, ended
    try:
        if state == states.SUCCESS:
            task.on_success(value, id, args, kwargs)
            signals.task_success.send(sender=task, result=value)
        elif state == states.RETRY:
            task.on_retry(value.exc or value, id, args, kwargs, info)
            signals.task_retry.send(sender=task, request=request, reason=value, einfo=info)
        elif state == states.FAILURE and info is not None:
            task.on_failure(value, id, args, kwargs, info)
            signals.task_failure.send(
                sender=task, task_id=id, exception=value, args=args, kwargs=kwargs, traceback=info.tb, einfo=info
            )
        elif state == states.REVOKED:
            signals.task_revoked.send(sender=task, request=request, terminated=True, signum=None, expired=False)
        if state in (states.SUCCESS, states.FAILURE, states.RETRY):
            task.after_return(state, value, id, args, kwargs, info)
    except Exception:
        log.exception("a handler of task %s raised", task.name)


# -- on a worker


def run_job(task: Task, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What Windlass calls for a job of this task. Returns the result, or raises what Windlass understands."""
    job = current()
    args, kwargs = task.accept([unpack(value) for value in args], unpack(kwargs))
    extra = read_extra(job.headers)
    if extra.errback and args and isinstance(args[0], Failure):
        args = _errback_arguments(task, extra, args[0], args[1:])
    request = context_of(job, task, args, kwargs)
    ended = attempt(task, request, args, kwargs)
    children = [child.as_tuple() for child in request.children] if task.trail else []
    worth = arguments_worth_keeping(_raised(ended.value)) if ended.state in (states.FAILURE, states.RETRY) else None
    if children or worth is not None:
        tell(job, request, children=children, exc_args=worth)
    return _answer(task, job, request, ended)


def _raised(value: Any) -> BaseException:
    return value.exc or value if isinstance(value, Retry) else value


def _answer(task: Task, job: Current, request: Context, ended: Ended) -> Any:
    state, value, _ = ended
    if state == states.SUCCESS:
        return _with_added(task, job, request, value) if request.get("added") else pack(value)
    if state == states.RETRY:
        return _retry(task, job, value)
    if state == states.IGNORED:
        raise Cancel(IGNORED) from value
    if state != states.REJECTED:
        setattr(value, TOLD, True)
    raise value


def _with_added(task: Task, job: Current, request: Context, value: Any) -> Any:
    """The value of a task that added others with ``add_to_chord``: they run in its place, and their values join its
    own.
    """
    from windlass.celery.compile import work_of

    works = [work_of(task.app, sig, parent=request.id, root=request.root_id) for sig in request.get("added")]
    together = task.app.windlass.sig("celery.together", {"own": pack(value)})
    return job.replace(windlass.chord(windlass.group(works), together))


def _retry(task: Task, job: Current, asked: Retry) -> Any:
    """Retry as Windlass does, with the same arguments. A retry with others hands this job over to a new one."""
    if asked.sig is not None:
        from windlass.celery.compile import work_of

        return job.replace(work_of(task.app, asked.sig))
    delay = asked.when if isinstance(asked.when, int | float) else seconds_until(asked.when)
    error = _raised(asked)
    setattr(error, _DELAY, max(0.0, float(delay)))
    setattr(error, TOLD, True)
    raise error


def seconds_until(when: datetime | None) -> float:
    if when is None:
        return 0.0
    return (when - datetime.now(UTC)).total_seconds()


def no_retry_asked(error: BaseException) -> bool:
    """Windlass's ``give_up_on``: retry an exception only if the task asked for it."""
    return not hasattr(error, _DELAY)


def retry_in(attempt: int, error: BaseException) -> float:
    """Windlass's ``backoff``: the delay the task asked for."""
    delay: float = getattr(error, _DELAY, 0.0)
    return delay


def tell(job: Current, request: Context, **news: Any) -> None:
    """Store with the job what a result in Celery's words needs: the task's own state, children, arguments."""
    told = request.__dict__.setdefault("told", {"attempt": job.attempt})
    told.update({key: value for key, value in news.items() if value})
    meta = told.get("meta")
    job.progress(percent_of(meta), str(told.get("state", "")), celery=pack(told))


def percent_of(meta: Any) -> float:
    """The progress of a task in percent, if its meta says it in one of the usual ways."""
    if not isinstance(meta, dict):
        return 0.0
    done, total = meta.get("current", meta.get("done")), meta.get("total")
    if isinstance(done, int | float) and isinstance(total, int | float) and total > 0:
        return min(100.0, 100.0 * done / total)
    percent = meta.get("percent", meta.get("progress"))
    return float(percent) if isinstance(percent, int | float) else 0.0


# -- error callbacks


def _errback_arguments(task: Task, extra: Extra, failure: Failure, own: list[Any]) -> list[Any]:
    """The arguments an error callback gets before its own: the failed task's id, or its request, exception and
    traceback.
    """
    id, error, found = _blamed(task, extra, failure)
    if extra.errback == 1:
        return [id, *own]
    info = found.info
    request = Context(
        id=id, task=info.task if info is not None else failure.task, args=[], called_directly=False,
        kwargs=unpack(info.args) if info is not None else {}, parent_id=found.extra.parent,
        retries=max(0, info.attempts - 1) if info is not None else 0, root_id=found.extra.root or id,
        group=found.extra.group, group_index=found.extra.index,
    )  # fmt: skip
    return [request, error, failure.traceback, *own[extra.errback - 1 :]]


def _blamed(task: Task, extra: Extra, failure: Failure) -> tuple[str, Any, Reading]:
    """The task an error callback is told of: the one that failed, or the chord body that did not run because of it."""
    from windlass.celery.result import AsyncResult

    if extra.about and extra.about != failure.job:
        body = AsyncResult(extra.about, app=task.app)
        found = body.read()
        if found.info is not None and found.info.state is State.SKIPPED:
            return body.id, body.result, found
    found = Reading(task.app.windlass.sync.job(failure.job).info())
    return failure.job, rebuild(failure.type, failure.message, found.exc_args), found


# -- in place


def run_here(task: Task, request: Context, args: list[Any], kwargs: dict[str, Any]) -> Ended:
    """Run the task to its end. Retries come at once, without their delay."""
    while True:
        ended = attempt(task, request, args, kwargs)
        if ended.state != states.RETRY:
            return ended
        sig = ended.value.sig
        if sig is not None:
            args, kwargs = list(sig.args), dict(sig.kwargs)
        request = Context(**{**vars(request), "retries": request.retries + 1, "asked_to_retry": None})
        request.update(args=args, kwargs=kwargs)


def through_json(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as a worker would see them."""
    data = msgspec.json.encode([pack_all(args), pack(kwargs)])
    args, kwargs = msgspec.json.decode(data)
    return unpack(args), unpack(kwargs)
