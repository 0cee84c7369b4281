"""The values that travel between caller, store and worker. They do no I/O and know no engine.

``NewJob`` is what a caller hands in, ``Claim`` what a worker gets, ``Job`` the whole record as it is read back.
Instants are whole milliseconds on the store's clock; 0 means "never". ``payload``, ``meta``, ``result`` and ``error``
are JSON bytes which no engine looks into.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from windlass.core.links import Inject, Links
from windlass.core.terms import Terms
from windlass.errors import PayloadError


class State(StrEnum):
    """Where a job is in its life; the last four are terminal."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED})
WORKING = frozenset(State) - TERMINAL

DEFAULT_PRIORITY = 5
MAX_CRASHES = 3


class Fence(NamedTuple):
    """What a claim must show to write: the run, the claim count and the exchange that granted it.

    The exchange number is never reused by a worker process and worker ids are random, so together with the worker's id
    it is the nonce that keeps a zombie out even when a server lost its last second and grants an epoch again.
    """

    run: int
    epoch: int
    seq: int


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a record that only callers and workers read; encoded once, at the call."""

    source: str = ""
    correlation_id: str = ""
    headers: dict[str, str] = {}
    options: dict[str, Any] = {}
    tags: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """As JSON. Options are checked where they are written, but middleware may put anything into headers."""
        try:
            return msgspec.json.encode(self)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"the headers, tags or options of this call cannot be carried: {error}") from error


class NewJob(msgspec.Struct, kw_only=True):
    """One call of a task, as handed to ``Store.insert``. Relative times are measured from the store's now."""

    id: str
    task: str
    queue: str
    payload: bytes
    meta: bytes = b"{}"
    version: int = 1
    priority: int = DEFAULT_PRIORITY
    delay: int = 0
    at: int = 0
    expires_in: int = 0
    expires_at: int = 0
    expire_to: State = State.CANCELLED
    max_crashes: int = MAX_CRASHES
    crash_delay: int = 0
    keep_done: str = ""
    keep_failed: str = ""
    links: Links | None = None
    terms: Terms | None = None


class Claim(msgspec.Struct, array_like=True):
    """A job granted to a worker. From ``graph`` on, six say what a graph brings to it; a job of its own has none.

    ``source``: the node whose value is injected (as ``inject`` says), ``given``: that value where it was at hand.
    ``awaits``: the graph this job started and waited for in an earlier claim of the same run. ``awaited``: that graph's
    value; no engine sets it, the worker does, and ``given`` where the engine had none at hand. ``due_at``: when it was
    due, 0 if it never had to wait for its time; ``claimed_at``: when it was granted.
    """

    id: str
    task: str
    version: int
    queue: str
    priority: int
    payload: bytes
    meta: bytes
    run: int
    epoch: int
    seq: int
    attempt: int
    crashes: int
    snoozes: int
    enqueued_at: int
    error: bytes | None = None
    graph: str = ""
    source: str = ""
    inject: Inject = Inject.NONE
    given: bytes | None = None
    awaits: str = ""
    awaited: bytes | None = None
    due_at: int = 0
    claimed_at: int = 0

    @property
    def fence(self) -> Fence:
        return Fence(self.run, self.epoch, self.seq)


class Job(msgspec.Struct, kw_only=True):
    """The whole record. ``awaits``: the graph it started and waits for; ``replaced``: whose value is to be its own.

    ``terms``: under which it may start, None for a job that has none.
    """

    id: str
    task: str
    version: int
    queue: str
    priority: int
    state: State
    payload: bytes
    meta: bytes
    run: int = 1
    epoch: int = 0
    attempt: int = 0
    crashes: int = 0
    snoozes: int = 0
    max_crashes: int = MAX_CRASHES
    cancel_requested: bool = False
    worker: str = ""
    reason: str = ""
    fingerprint: str = ""
    enqueued_at: int = 0
    due_at: int = 0
    expires_at: int = 0
    started_at: int = 0
    finished_at: int = 0
    result: bytes | None = None
    error: bytes | None = None
    progress: bytes | None = None
    graph: str = ""
    links: Links | None = None
    awaits: str = ""
    replaced: bool = False
    terms: Terms | None = None


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as text: nothing of it is ever imported or rebuilt.

    ``at``: when the attempt began that ended with it (0: nobody knows), ``took`` ms, ``worker``: where. ``run`` and
    ``attempt`` number it (0: an engine or an older version wrote it).
    """

    type: str
    message: str
    traceback: str = ""
    fingerprint: str = ""
    attempts: list[AttemptInfo] = []
    at: int = 0
    took: int = 0
    worker: str = ""
    run: int = 0
    attempt: int = 0


class AttemptInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One earlier error of a job, without its traceback. ``at``: when that attempt began, ``took`` ms.

    ``run``: which, for a job that was replayed; attempts are counted anew in each (0: nobody knows).
    """

    attempt: int
    type: str
    message: str
    at: int = 0
    took: int = 0
    worker: str = ""
    run: int = 0


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last progress a task reported."""

    percent: float = 0.0
    message: str = ""
    data: dict[str, Any] = {}


class LogLine(msgspec.Struct, frozen=True):
    """One line a job logged; ``n`` is its place among the job's lines."""

    n: int
    at: int
    level: str
    text: str


class Finished(msgspec.Struct, array_like=True):
    """What a waiting client is told about a job that ended.

    ``state`` is None when the record is gone. ``inline`` is False when the outcome was too large to send along and must
    be fetched.
    """

    id: str
    state: State | None
    result: bytes | None = None
    error: bytes | None = None
    reason: str = ""
    inline: bool = True
