"""The values that travel between caller, store and worker. They do no I/O and know no engine.

A caller hands in a ``NewJob``, a worker gets a ``Claim``, and a ``Job`` is the whole record as it is read back.
Instants are whole milliseconds on the store's clock; 0 means "never". ``payload``, ``meta``, ``result`` and ``error``
are JSON bytes that no engine reads.
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
    """What a write about a claim must show: the run, the number of the claim, and the exchange that granted it.

    A worker process never reuses an exchange number, and worker ids are random. Together they keep a zombie out even
    when a server that lost its last second grants an epoch again.
    """

    run: int
    epoch: int
    seq: int


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a record that only callers and workers read. It is encoded once, at the call."""

    source: str = ""
    correlation_id: str = ""
    headers: dict[str, str] = {}
    options: dict[str, Any] = {}
    tags: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The JSON bytes. Options were checked where they were written, but middleware may have put anything into
        headers.
        """
        try:
            return msgspec.json.encode(self)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"the headers, tags or options of this call cannot be carried: {error}") from error


_meta_decoder = msgspec.json.Decoder(Meta)
_NO_META = Meta()


def read_meta(data: bytes) -> Meta:
    """The meta of a record; most records have none, and those need no decoding."""
    return _NO_META if data == b"{}" else _meta_decoder.decode(data)


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
    """A job granted to a worker. The six fields from ``graph`` on say what a graph brings to it; they are empty for a
    job outside graphs.

    ``source``: the node whose value is passed in (``inject`` says how); ``given``: that value, if the store had it at
    hand. ``awaits``: the graph this job started and waited for in an earlier claim of the same run. ``awaited``: that
    graph's value. The worker sets ``awaited``, and ``given`` where the engine did not; no engine sets ``awaited``.
    ``due_at``: the instant it was due, 0 if it never had to wait for one; ``claimed_at``: when it was granted.
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
    """The whole record. ``awaits``: the graph the job started and waits for; ``replaced``: that graph's value is to be
    the job's own.

    ``terms``: the conditions under which it may start; None for a job without any.
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
    """An exception as text. Nothing of it is ever imported or rebuilt.

    ``at``: when the attempt that ended with it began (0: not known), ``took``: how many ms it took, ``worker``: where
    it ran. ``run`` and ``attempt`` number the attempt (0: written by an engine or an older version).
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
    """One earlier error of a job, without its traceback. ``at``: when that attempt began, ``took``: how many ms it
    took.

    ``run``: the run it belongs to, as a replayed job counts attempts anew (0: not known).
    """

    attempt: int
    type: str
    message: str
    at: int = 0
    took: int = 0
    worker: str = ""
    run: int = 0


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress a task reported last."""

    percent: float = 0.0
    message: str = ""
    data: dict[str, Any] = {}


class LogLine(msgspec.Struct, frozen=True):
    """One line a job logged; ``n`` numbers the job's lines."""

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
