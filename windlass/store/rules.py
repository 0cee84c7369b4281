"""What engines written in Python decide alike: pure functions of what they have read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from windlass.core.job import Finished, NewJob, State
from windlass.core.limits import Limits
from windlass.core.terms import DRAINING
from windlass.store.answers import Accept, Answer
from windlass.store.items import ANY, HEEDED, Commit, LogKeep
from windlass.store.jobs import INLINE_MAX

# -- new jobs that are not taken in


def full_at(job: NewJob, limits: Limits) -> int:
    """So many ready jobs make the queue full for this job; 0: it takes any number. What the gate says goes first."""
    if limits.max_ready is not None:
        return limits.max_ready
    return job.terms.max_ready if job.terms is not None else 0


def full(job: NewJob, most: int) -> Answer:
    return Answer(Accept.FULL, f"queue {job.queue!r} has {most} ready jobs or more")


def draining(job: NewJob) -> Answer:
    return Answer(Accept.REFUSED, f"queue {job.queue!r} is {DRAINING} and takes in nothing new")


def staged(job: NewJob) -> Answer:
    return Answer(Accept.CONFLICT, f"job {job.id!r} belongs to a workflow that is being submitted")


def conflict(job: NewJob, task: str, state: State) -> Answer:
    """The id is that of a job which is not the same: it has this task, or the same one and other arguments."""
    what = "another task" if task != job.task else "other arguments"
    return Answer(Accept.CONFLICT, f"job {job.id!r} exists with {what} ({task}, {state})")


# -- jobs that ended


def finished(
    id: str, state: State, result: bytes | None, error: bytes | None, reason: str, gathers: bool = False
) -> Finished:
    """What watchers are told. ``gathers``: the job's value is that of other nodes, and has to be put together where it
    has none of its own."""
    elsewhere = gathers and state is State.SUCCEEDED and result is None
    if elsewhere or len(result or b"") + len(error or b"") > INLINE_MAX:
        return Finished(id, state, reason=reason, inline=False)
    return Finished(id, state, result, error, reason)


# -- commits


def is_as_expected(step: Commit, versions: Sequence[int], lengths: Sequence[int]) -> bool:
    """``versions`` are those of the items it puts (0: there is none), ``lengths`` those of the streams it appends to,
    before the commit."""
    if any(put.expect not in (ANY, version) for put, version in zip(step.items, versions, strict=True)):
        return False
    added = Counter[tuple[str, str]]()
    for new, length in zip(step.appends, lengths, strict=True):
        if new.expect not in (ANY, length + added[new.log, new.stream]):
            return False
        added[new.log, new.stream] += len(new.bodies)
    return True


def is_heeded(step: Commit) -> bool:
    """Whether workers are to be told: it puts or drops an item of the shelf they heed."""
    return any(put.shelf == HEEDED and put.body is not msgspec.UNSET for put in step.items)


# -- logs


def is_too_much(keep: LogKeep, now: int, many: int, size: int, oldest: int) -> bool:
    """Whether the oldest record of a log goes: the log has so many records of so many bytes, and that is so old."""
    return 0 < keep.count < many or 0 < keep.size < size or (keep.age > 0 and oldest + keep.age <= now)


def prunes_at(keep: LogKeep, now: int, many: int, size: int, oldest: int) -> int | None:
    """When the oldest record of a log goes; None: not by time."""
    if is_too_much(keep, now, many, size, oldest):
        return now
    return oldest + keep.age if keep.age else None
