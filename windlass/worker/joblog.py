"""One log record for each run that ended badly, and for others on request, under the logger ``windlass.job``.

Error trackers hook into a process's standard logging, and learn of jobs from here. The worker calls it once the end of
a run is decided, wherever the job ran. Nothing a log handler does can change that end.
"""

from __future__ import annotations

import logging
from time import monotonic
from types import TracebackType
from typing import Any

import msgspec

from windlass.core import safe
from windlass.core.duration import show_ms
from windlass.core.failure import users_part
from windlass.core.job import Claim, ErrorInfo, Job, State, read_meta
from windlass.core.lifecycle import ENGINE_MADE, Crashed, Failed, Outcome, Stopped, Transition
from windlass.core.trace import trace_id
from windlass.errors import JobFailed
from windlass.support.logs import JOB_LOGGER, Steady
from windlass.worker.runner import Run

log = Steady(logging.getLogger(JOB_LOGGER))

_LEVELS = {"failed": logging.ERROR, "retried": logging.WARNING, "lost": logging.WARNING, "cancelled": logging.INFO}
_error_decoder = msgspec.json.Decoder(ErrorInfo)

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class JobLog:
    """``success``: whether jobs that succeed are logged as well."""

    def __init__(self, success: bool = False) -> None:
        self.success = success

    def tell(self, run: Run, outcome: Outcome, move: Transition, worker: str) -> None:
        """Log what a worker decided about a run of its own."""
        event = move.event
        level = _LEVELS.get(event, logging.INFO if event == "succeeded" and self.success else 0)
        if level:
            self._tell(level, run, outcome, move, worker)

    def _tell(self, level: int, run: Run, outcome: Outcome, move: Transition, worker: str) -> None:
        if not log.isEnabledFor(level) or (type(outcome) is Failed and outcome.told):
            return
        claim = run.claim
        ran = int((monotonic() - run.began) * 1000) if run.began else 0
        fields = about(claim, attempt=claim.attempt + 1, worker=worker, state=str(move.to), reason=move.reason)
        fields["duration_ms"] = ran
        error = outcome.error if isinstance(outcome, Failed | Crashed) else None
        if error is not None:
            fields |= {"error_type": error.type, "fingerprint": error.fingerprint}
        if move.event in ("retried", "lost"):
            fields["retry_in_ms"] = move.delay
        exc_info = _raised(run, error) if error is not None and level == logging.ERROR else None
        emit(level, _said(claim, outcome, move, ran), fields, exc_info, error.traceback if error is not None else "")

    def tell_of_record(self, kind: str, job: Job, worker: str) -> None:
        """Log what the store decided about a job without a worker."""
        level = _LEVELS[kind]
        if not log.isEnabledFor(level):
            return
        error = _error_decoder.decode(job.error) if job.error else ErrorInfo("", job.reason)
        fields = about(job, attempt=job.attempt + bool(job.crashes), worker=worker, state=kind, reason=job.reason)
        said = f"{kind}: {job.reason}"
        exc_info: ExcInfo | None = None
        if kind == "failed":
            fields |= {"error_type": error.type, "fingerprint": error.fingerprint}
            said, exc_info = f"failed: {in_short(error)} ({job.reason})", _stand_in(error)
        emit(level, f"job {job.id} ({job.task}) {said}", fields, exc_info, "")


def by_engine(job: Job) -> bool:
    """Whether an engine alone decided a failure. Failures that a worker decided, it has logged itself."""
    return job.state is State.FAILED and job.fingerprint in ENGINE_MADE


# -- what is in a record


def about(job: Claim | Job, **more: Any) -> dict[str, Any]:
    """The fields that identify the job."""
    fields = {"job_id": job.id, "task": job.task, "queue": job.queue, "run": job.run, **more}
    try:
        found = trace_id(read_meta(job.meta).headers.get("traceparent", ""))
    except (ValueError, msgspec.MsgspecError):  # the meta is damaged in the store
        found = ""
    return {**fields, "trace_id": found} if found else fields


def in_short(error: ErrorInfo) -> str:
    """The error in one line, for a text that people scan."""
    line = error.message.partition("\n")[0]
    return f"{error.type}: {line}" if line else error.type


def _said(claim: Claim, outcome: Outcome, move: Transition, ran: int) -> str:
    who = f"job {claim.id} ({claim.task})"
    if isinstance(outcome, Failed | Crashed):
        error = in_short(outcome.error)
        if move.to is State.FAILED:
            return f"{who} failed: {error} ({move.reason})" if move.reason else f"{who} failed: {error}"
        when = f"in {show_ms(move.delay)}" if move.delay else "now"
        return f"{who} {'lost its process' if move.event == 'lost' else 'failed'}, is tried again {when}: {error}"
    if isinstance(outcome, Stopped):
        return f"{who} was cancelled: {outcome.reason}"
    return f"{who} {move.event} in {show_ms(ran)}"


def _raised(run: Run, error: ErrorInfo) -> ExcInfo:
    """The exception itself if it was raised in this process; else a stand-in."""
    exc = run.raised
    if exc is None or safe.kind(exc) != error.type:
        return _stand_in(error)
    return type(exc), exc, users_part(exc.__traceback__)


def _stand_in(error: ErrorInfo) -> ExcInfo:
    exc = JobFailed(
        in_short(error), error_type=error.type, error_message=error.message, traceback=error.traceback
    )  # fmt: skip
    return JobFailed, exc, None


def emit(level: int, text: str, fields: dict[str, Any], exc_info: ExcInfo | None, trace: str) -> None:
    """Write one record. ``trace``: the traceback's text, which was bounded when the error was described and is not made
    again.
    """
    record = log.logger.makeRecord(JOB_LOGGER, level, __file__, 0, "%s", (text,), exc_info, "tell", fields)
    if exc_info is not None and trace:
        record.exc_text = trace.rstrip("\n")
    log.handle(record)
