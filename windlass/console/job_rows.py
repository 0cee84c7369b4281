"""A job's record as rows and details for people. What cannot be read is left out and is never an error."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from windlass.console import show
from windlass.console.replies import Attempt, ErrorValue, JobRow
from windlass.core.access import Access
from windlass.core.job import AttemptInfo, ErrorInfo, Job, Meta, Progress, State
from windlass.core.schedule import NAME_HEADER

T = TypeVar("T")

_errors = msgspec.json.Decoder(ErrorInfo)
_metas = msgspec.json.Decoder(Meta)
_progresses = msgspec.json.Decoder(Progress)
NO_META = Meta()
_SCHEDULED = NAME_HEADER.encode()
ATTEMPT_TEXT = 2_000
"""Characters of the message of one attempt."""


def read(decoder: msgspec.json.Decoder[T], data: bytes | None) -> T | None:
    """The decoded bytes; None if they cannot be read."""
    if not data:
        return None
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def meta_of(job: Job) -> Meta:
    return NO_META if job.meta == b"{}" else read(_metas, job.meta) or NO_META


def schedule_of(job: Job) -> str:
    """The schedule that made the job. Few jobs have one; only their records are read further."""
    return meta_of(job).headers.get(NAME_HEADER, "") if _SCHEDULED in job.meta else ""


def error_of(job: Job) -> ErrorInfo | None:
    return read(_errors, job.error)


def progress_of(job: Job) -> Progress | None:
    return read(_progresses, job.progress)


def job_row(access: Access, job: Job) -> JobRow:
    error, progress, values = error_of(job), progress_of(job), "values" in access.rights
    return JobRow(
        id=job.id, task=job.task, queue=job.queue, state=str(job.state), priority=job.priority,
        args=show.line(access, job.payload), error=error_line(error, values) if error else "",
        reason=show.one_line(job.reason) if job.reason else "", key=key_of(job) if values else "",
        tags=tags_of(access, job), workflow=job.graph, worker=job.worker, attempts=begun(job),
        progress=progress.percent if progress else None, enqueued_at=job.enqueued_at, due_at=job.due_at,
        started_at=job.started_at, finished_at=job.finished_at, took=took(job),
    )  # fmt: skip


def error_line(error: ErrorInfo, values: bool) -> str:
    """The error on one line, its type without the module; only the type if the user may not see values."""
    kind = error.type.rpartition(".")[2]
    return show.one_line(f"{kind}: {error.message}" if values and error.message else kind)


def key_of(job: Job) -> str:
    return job.terms.key if job.terms is not None else ""


def tags_of(access: Access, job: Job) -> tuple[str, ...]:
    """The job's tags, without those made of hidden arguments."""
    if "values" not in access.rights:
        return ()
    return tuple(show.one_line(tag) for tag in meta_of(job).tags if not access.hides(tag.partition(":")[0]))


def took(job: Job) -> int | None:
    return max(job.finished_at - job.started_at, 0) if job.started_at and job.finished_at else None


def error_value(access: Access, error: ErrorInfo | None) -> ErrorValue | None:
    if error is None:
        return None
    if "values" not in access.rights:
        return ErrorValue(type=show.one_line(error.type), message="", fingerprint=error.fingerprint)
    return ErrorValue(
        type=show.one_line(error.type), message=show.safe(error.message[: show.MOST_TEXT]),
        traceback=show.safe(error.traceback[-show.MOST_TEXT :]), fingerprint=error.fingerprint,
    )  # fmt: skip


def begun(job: Job) -> int:
    """How many attempts were begun: the failed ones the record counts, and the one that runs or succeeded."""
    return job.attempt + job.crashes + (job.state in (State.RUNNING, State.SUCCEEDED))


def attempts_of(access: Access, job: Job) -> list[Attempt]:
    """Every known attempt, of all runs, oldest first; the present one is last."""
    error = error_of(job)
    past: list[AttemptInfo | ErrorInfo] = [*error.attempts, error] if error is not None else []
    runs = [one.run or job.run for one in past] + [job.run]
    found = [_attempt(access, job, one, runs[i], ends=runs[i] < runs[i + 1]) for i, one in enumerate(past)]
    if job.state in (State.RUNNING, State.SUCCEEDED, State.CANCELLED) and job.started_at:
        number = found[-1].number + 1 if found and found[-1].run == job.run else 1
        state = str(job.state)
        found.append(
            Attempt(number=number, outcome=state, at=job.started_at, took=took(job), worker=job.worker, run=job.run)
        )
    return found


def _attempt(access: Access, job: Job, one: AttemptInfo | ErrorInfo, run: int, ends: bool) -> Attempt:
    """A failed attempt. ``ends``: it was the last of an earlier run; the last of all takes the job's own times."""
    last = isinstance(one, ErrorInfo) and not ends and job.state is State.FAILED
    return Attempt(
        number=one.attempt or max(job.attempt, 1), outcome="failed" if last or ends else "retried", run=run,
        at=one.at or (job.started_at if last else 0), took=one.took if one.at else took(job) if last else None,
        worker=show.one_line(one.worker or (job.worker if last else "")), error=show.one_line(one.type),
        message=show.safe(one.message[:ATTEMPT_TEXT]) if "values" in access.rights else "",
    )  # fmt: skip
