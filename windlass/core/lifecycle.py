"""The state machine: pure functions that decide, in one place, what becomes of a job.

``decide(claim, outcome)`` is the only maker of transitions; engines apply them and choose nothing. A transition carries
delays, never instants: the store's clock turns them into instants. What engines must do without a worker (crash,
expiry, cancel, replay) follows the small rules at the end of this file, so that every engine does the same.
"""

from __future__ import annotations

import msgspec

from windlass.core.graph import NewGraph
from windlass.core.job import AttemptInfo, Claim, ErrorInfo, Fence, NewJob, State
from windlass.errors import UNSAID

MAX_ATTEMPTS_KEPT = 10
LEASE_LOST = "lease lost"
CRASHED, UNKNOWN, EXPIRED, DROPPED = "worker crashed", "unknown task", "expired", "queue full"
UNWRITABLE = "the outcome cannot be written"
CORRUPT, CORRUPT_MARK = "corrupt record", "corrupt-record"
ENGINE_MADE = frozenset({"worker-crashed", "lease-lost", "unknown-task", "expired", "queue-full", "corrupt-record"})
"""Fingerprints of the failures that an engine decides alone, with no worker at hand."""

_error_decoder = msgspec.json.Decoder(ErrorInfo)
_encode = msgspec.json.Encoder().encode


class Transition(msgspec.Struct):
    """What a worker writes about one claim. The store applies it only if the fence still holds.

    ``yields_to_cancel``: a cancel that was requested meanwhile wins, and the job ends cancelled with the cancel's
    reason. Success and failure win over a cancel; retry, snooze, hand-back, waiting and a stop without a reason of its
    own lose to it. ``adopt``: with ``to=WAITING``, the staged graph that becomes real in the same write and that the
    job waits for.
    """

    id: str
    fence: Fence
    to: State
    event: str
    delay: int = 0
    attempt: int = 0
    crashes: int = 0
    snoozes: int = 0
    yields_to_cancel: bool = False
    result: bytes | None = None
    error: bytes | None = None
    reason: str = ""
    fingerprint: str = ""
    keep_done: str = ""
    keep_failed: str = ""
    adopt: str = ""
    replaced: bool = False


# -- outcomes: what a run of a claim came to


class Succeeded(msgspec.Struct):
    """The task returned. ``result`` is None where the task keeps none."""

    result: bytes | None = None


class Failed(msgspec.Struct):
    """The attempt failed. ``retry_in`` is the delay of the next attempt, None if this was the last.

    ``trips``: the error counts at the task's circuit breaker. ``told``: the process that ran the attempt has logged it
    already.
    """

    error: ErrorInfo
    retry_in: int | None = None
    reason: str = ""
    trips: bool = False
    told: bool = False


class Snoozed(msgspec.Struct):
    """The task wants to run again later at no cost."""

    delay: int


class Stopped(msgspec.Struct):
    """The task ended because of a cancel, or cancelled itself. Without ``reason``, the cancel's reason is used."""

    reason: str = ""


class Crashed(msgspec.Struct):
    """The child process that ran the job died. This counts like a worker's death, for this job alone."""

    error: ErrorInfo
    max_crashes: int


class Adopting(msgspec.Struct):
    """The job wants to become a graph. The worker stages the graph and turns this into ``Adopted``; ``decide`` never
    sees it.
    """

    graph: NewGraph
    nodes: list[NewJob]
    replaced: bool = False


class Adopted(msgspec.Struct):
    """The job waits for a graph it has staged: to run again when the graph is over, or to be ``replaced`` by
    its value.
    """

    graph: str
    replaced: bool = False


class HandedBack(msgspec.Struct):
    """The worker gives the claim back unfinished or unstarted, at no cost to the job."""


Outcome = Succeeded | Failed | Crashed | Snoozed | Stopped | Adopting | Adopted | HandedBack


def decide(claim: Claim, outcome: Outcome, keep_done: str = "", keep_failed: str = "") -> Transition:
    """The transition that an outcome makes of a claim."""
    move = Transition(
        claim.id, claim.fence, State.SUCCEEDED, "succeeded", attempt=claim.attempt, crashes=claim.crashes,
        snoozes=claim.snoozes, keep_done=keep_done, keep_failed=keep_failed,
    )  # fmt: skip
    if type(outcome) is Succeeded:
        move.result = outcome.result
    elif type(outcome) is Failed:
        _fail(move, claim, outcome)
    elif type(outcome) is Snoozed:
        _again(move, "snoozed", outcome.delay)
        move.snoozes += 1
    elif type(outcome) is Crashed:
        _crash(move, claim, outcome)
    elif type(outcome) is Stopped:
        move.to, move.event, move.reason = State.CANCELLED, "cancelled", outcome.reason or "cancelled"
        move.yields_to_cancel = outcome.reason in ("", UNSAID)
    elif type(outcome) is Adopted:
        move.to, move.event, move.yields_to_cancel = State.WAITING, "waiting", True
        move.adopt, move.replaced = outcome.graph, outcome.replaced
    else:
        _again(move, "released", 0)
    return move


def _fail(move: Transition, claim: Claim, outcome: Failed) -> None:
    move.attempt += 1
    move.error = _encode(with_history(outcome.error, claim))
    move.fingerprint = outcome.error.fingerprint
    if outcome.retry_in is None:
        move.to, move.event, move.reason = State.FAILED, "failed", outcome.reason or outcome.error.type
    else:
        _again(move, "retried", outcome.retry_in)


def _crash(move: Transition, claim: Claim, outcome: Crashed) -> None:
    move.crashes += 1
    move.error = _encode(with_history(outcome.error, claim))
    move.fingerprint = outcome.error.fingerprint
    if after_crash(move.crashes, outcome.max_crashes, cancel_requested=False) is State.FAILED:
        move.to, move.event, move.reason = State.FAILED, "failed", CRASHED
    else:
        _again(move, "lost", 0)


def _again(move: Transition, event: str, delay: int) -> None:
    move.to = State.SCHEDULED if delay > 0 else State.READY
    move.event, move.delay, move.yields_to_cancel = event, delay, True


def with_history(error: ErrorInfo, claim: Claim) -> ErrorInfo:
    """The error with its run and attempt, followed by the job's earlier errors: newest last, and bounded."""
    error = msgspec.structs.replace(error, run=claim.run, attempt=claim.attempt + 1)
    if claim.error is None:
        return error
    try:
        last = _error_decoder.decode(claim.error)
    except ValueError:  # the earlier errors are damaged in the store: keep the new one alone
        return error
    number = last.attempt or claim.attempt
    before = AttemptInfo(number, last.type, last.message, last.at, last.took, last.worker, last.run)
    earlier = [*last.attempts, before]
    return msgspec.structs.replace(error, attempts=earlier[-MAX_ATTEMPTS_KEPT:])


# -- rules every engine applies alone


def after_crash(crashes: int, max_crashes: int, cancel_requested: bool) -> State:
    """The state of a job after its worker died under it for the ``crashes``-th time."""
    if crashes >= max_crashes:
        return State.FAILED
    return State.CANCELLED if cancel_requested else State.READY


def runs_alone(crashes: int, max_crashes: int) -> bool:
    """Whether a job is one crash below its limit. It then runs alone, so that no neighbour is charged for its crash."""
    return 0 < crashes == max_crashes - 1


def crash_reason(silent: int) -> str:
    """The reason of a quarantine: the worker died, or it did not beat for ``silent`` ms and nothing else is known."""
    return LEASE_LOST if silent else CRASHED


def crash_mark(silent: int) -> str:
    return "lease-lost" if silent else "worker-crashed"


def crash_error(crashes: int, worker: str, silent: int = 0) -> bytes:
    """The error of a job that is quarantined because its workers kept dying, or did not beat for ``silent`` ms."""
    times = "once" if crashes == 1 else f"{crashes} times"
    message = f"the worker died {times} while running this job (last: {worker})"
    if silent:
        message = (
            f"worker {worker} did not beat for {silent // 1000} s and lost its lease while running this job (lost "
            f"{times} so far): it died, its machine stood still, or code held the interpreter (the GIL) all that time; "
            "one that lived on says so in its log"
        )
    return _encode(ErrorInfo("windlass.errors.WorkerCrashed", message, fingerprint=crash_mark(silent)))


def unwritable(of: Claim | Transition, why: str) -> Transition:
    """The transition for a job whose outcome the store cannot keep: a dead letter that says so."""
    message = f"what became of this job could not be written: {why}"
    error = ErrorInfo("windlass.errors.StoreError", message, fingerprint="unwritable-outcome")
    return Transition(
        of.id, of.fence, State.FAILED, "failed", attempt=of.attempt, crashes=of.crashes, snoozes=of.snoozes,
        error=_encode(error), fingerprint=error.fingerprint, reason=UNWRITABLE,
    )  # fmt: skip


def unknown_error(task: str, version: int, waited_ms: int) -> bytes:
    """The error of a job that no live worker declares."""
    message = f"no live worker declared task {task!r} version {version} for {waited_ms // 1000} s"
    return _encode(ErrorInfo("windlass.errors.UnknownTask", message, fingerprint="unknown-task"))


def expired_error() -> bytes:
    """The error of a job that expired and asked to be dead-lettered then."""
    return _encode(ErrorInfo("windlass.errors.JobExpired", "not started before it expired", fingerprint="expired"))


def dropped_error(queue: str, most: int) -> bytes:
    """The error of a job that made room for a newer one in a full queue."""
    message = f"dropped as the oldest: queue {queue!r} had {most} ready jobs and another came"
    return _encode(ErrorInfo("windlass.errors.QueueFull", message, fingerprint="queue-full"))


def corrupt_error() -> bytes:
    """The error of a job whose record was damaged in the store."""
    message = "the record of this job cannot be read; its bytes were put aside in the store"
    return _encode(ErrorInfo("windlass.errors.StoreError", message, fingerprint=CORRUPT_MARK))
