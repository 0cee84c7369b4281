"""The messages between a worker and its process children, and their framing on the socket.

A frame is a four-byte length and a msgpack map with a tag; both sides decode it into the structs below and nothing
else. Nothing is pickled: a child under an attacker's control can send wrong values, never code. This module does no
I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from windlass.core.lifecycle import Adopting, Crashed, Failed, HandedBack, Outcome, Snoozed, Stopped, Succeeded
from windlass.core.links import Inject

DEFAULT_BODY = "windlass.worker.children:run_in_child"

_length = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode


# -- from the worker to the child


class Setup(msgspec.Struct, tag="setup"):
    """The first message: how the child becomes a copy of the worker that is ready to run jobs.

    ``measure``: the function that measures the child, for metrics; empty where metrics are off.
    """

    target: str
    imports: list[str]
    body: str
    path: list[str]
    parent: int
    report_memory: bool
    measure: str = ""


class RunRequest(msgspec.Struct, tag="run", kw_only=True, omit_defaults=True):
    """One job to run, or one module-level function to call for a running job.

    ``id`` is unique among the runs a pool has at a time. For ``kind="function"``, ``function`` is "module:qualname" and
    ``payload`` its arguments by name. ``cancelled`` is set by the pool for a job that was cancelled while it waited.
    ``carried``: what watchers hand to the child, by the function there that receives it.
    """

    id: str
    payload: bytes
    kind: Literal["task", "function"] = "task"
    task: str = ""
    version: int = 1
    meta: bytes = b"{}"
    attempt: int = 0
    crashes: int = 0
    snoozes: int = 0
    run: int = 1
    queue: str = ""
    priority: int = 5
    enqueued_at: int = 0
    function: str = ""
    cancelled: bool = False
    graph: str = ""
    inject: Inject = Inject.NONE
    given: bytes | None = None
    awaits: str = ""
    awaited: bytes | None = None
    carried: dict[str, dict[str, str]] = {}


class CancelRun(msgspec.Struct, tag="cancel"):
    """The job should stop at its next check."""

    id: str


class SoftTimeoutRun(msgspec.Struct, tag="soft"):
    """The job has run longer than its soft timeout."""

    id: str


class WorkerStops(msgspec.Struct, tag="stops"):
    """The worker was asked to stop: the child's job may see that and finish early."""


class Leave(msgspec.Struct, tag="leave"):
    """Finish the running job and exit."""


# -- from the child to the worker


class Ready(msgspec.Struct, tag="ready"):
    """The app is imported."""


class NotReady(msgspec.Struct, tag="not-ready"):
    """The app cannot be imported; ``text`` is the traceback. The child exits."""

    text: str


class Note(msgspec.Struct, tag="note"):
    """What a running job says before it ends: progress, a log line or the like."""

    id: str
    kind: str
    data: Any


class Measured(msgspec.Struct, tag="measured"):
    """What the child measured of itself, as bytes that only ``windlass.observe`` reads."""

    words: bytes


class RunReply(msgspec.Struct, tag="reply", kw_only=True, omit_defaults=True):
    """How a run ended: exactly one of the outcomes is set, under its own name.

    ``memory`` is the child's resident size in bytes after the job, or 0 where it was not asked for.
    """

    id: str
    memory: int = 0
    succeeded: Succeeded | None = None
    failed: Failed | None = None
    snoozed: Snoozed | None = None
    stopped: Stopped | None = None
    crashed: Crashed | None = None
    adopting: Adopting | None = None
    handed_back: HandedBack | None = None

    @property
    def outcome(self) -> Outcome:
        """The one outcome of this run."""
        ended = self.succeeded or self.failed or self.snoozed or self.stopped or self.crashed or self.adopting
        return ended or HandedBack()


def reply_to(job_id: str, outcome: Outcome, memory: int = 0) -> RunReply:
    """The reply that carries an outcome."""
    reply = RunReply(id=job_id, memory=memory)
    if isinstance(outcome, Succeeded):
        reply.succeeded = outcome
    elif isinstance(outcome, Failed):
        reply.failed = outcome
    elif isinstance(outcome, Snoozed):
        reply.snoozed = outcome
    elif isinstance(outcome, Stopped):
        reply.stopped = outcome
    elif isinstance(outcome, Crashed):
        reply.crashed = outcome
    elif isinstance(outcome, Adopting):
        reply.adopting = outcome
    else:
        reply.handed_back = HandedBack()
    return reply


ToChild = Setup | RunRequest | CancelRun | SoftTimeoutRun | WorkerStops | Leave
FromChild = Ready | NotReady | Note | Measured | RunReply

decode_for_child = msgspec.msgpack.Decoder(ToChild).decode
decode_from_child = msgspec.msgpack.Decoder(FromChild).decode


def pack(message: ToChild | FromChild) -> bytes:
    """One message as a frame."""
    body = _encode(message)
    return _length.pack(len(body)) + body


class Unpacker:
    """Cuts a stream of bytes into the bodies of its frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that ``data`` completes, in order."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _length.size:
            end = _length.size + _length.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            body = bytes(buffer[_length.size : end])
            del buffer[:end]
            yield body
