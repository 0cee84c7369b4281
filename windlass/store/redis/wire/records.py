"""Records of jobs as the functions answer them, and the rows that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core import lifecycle
from windlass.core.job import Job, LogLine, State
from windlass.core.links import In, Inject, Links, On, Out, Shape
from windlass.store.redis.wire.flow import read_terms
from windlass.store.redis.wire.packing import UNREADABLE, raw
from windlass.store.shared import STATES

PREFIX = 11
RECORD = 7
LAST_INSTANT = 253_402_300_799_999
log_line = msgspec.msgpack.Decoder(tuple[int, int, str, str]).decode
ALONE = Links()


class Place(msgspec.Struct, array_like=True):
    """What changes of a node's place in its graph; the order is that of ``L`` in lua/records.lua."""

    graph: str
    opened: int
    open: int
    broken: int
    spare: int
    shape: int
    culprit: str
    awaits: str
    replaced: int


class Head(msgspec.Struct, array_like=True):
    """What changes of a job; the order is that of lua/records.lua."""

    n: int
    at: int
    task: str
    version: int
    queue: str
    priority: int
    state: int
    run: int
    epoch: int
    seq: int
    attempt: int
    crashes: int
    snoozes: int
    worker: str
    started: int
    rank: float
    finished: int
    due: int
    expires: int
    expire_to: int
    max_crashes: int
    crash_delay: int
    hold: int
    aside_at: int
    cancel: int
    logged: int
    keep_done: str
    keep_failed: str
    reason: str
    fingerprint: str
    result: msgspec.Raw
    error: msgspec.Raw
    terms: msgspec.Raw
    links: Place | bool


read_head = msgspec.msgpack.Decoder(Head).decode
_body = msgspec.msgpack.Decoder(tuple[str, int, str, int, bytes, bytes]).decode
_body_with_terms = msgspec.msgpack.Decoder(tuple[str, int, str, int, bytes, bytes, bytes]).decode
read_came_with = msgspec.msgpack.Decoder(tuple[str, list[Any], list[Any], int, int, bool]).decode


def record(parts: Sequence[bytes]) -> Job | None:
    """A job from the seven parts a function answers it with; None where there is none."""
    id, body, head, *_ = parts
    if not head:
        return damaged(id) if body else None
    try:
        return _sound(parts)
    except UNREADABLE:
        return damaged(id)


def _sound(parts: Sequence[bytes]) -> Job:
    id, body, head, progress, result, error, links = parts
    h = read_head(head)
    instants = (h.at, h.due, h.expires, h.started, h.finished)
    if min(instants) < 0 or max(instants) > LAST_INSTANT:
        raise ValueError("an instant that no calendar has")
    payload, meta = values(body)
    job = Job(
        id=id.decode(), task=h.task, version=h.version, queue=h.queue, priority=h.priority, state=STATES[h.state],
        payload=payload, meta=meta, run=h.run, epoch=h.epoch, attempt=h.attempt, crashes=h.crashes, snoozes=h.snoozes,
        max_crashes=h.max_crashes, cancel_requested=bool(h.cancel), worker=h.worker, reason=h.reason,
        fingerprint=h.fingerprint, enqueued_at=h.at, due_at=h.due, expires_at=h.expires, started_at=h.started,
        finished_at=h.finished, result=result or raw(h.result), error=error or raw(h.error),
        progress=progress or None,
    )  # fmt: skip
    packed = raw(h.terms)
    if packed is not None:
        job.terms = read_terms(packed)
    if isinstance(h.links, Place):
        job.graph, job.awaits, job.replaced = h.links.graph, h.links.awaits, bool(h.links.replaced)
        job.links = place(links) if links else None
    return job


def values(body: bytes) -> tuple[bytes, bytes]:
    """The payload and the meta of a body, behind which its terms may be written."""
    for head, read in ((b"\x96", _body), (b"\x97", _body_with_terms)):
        try:
            found = read(head + body[PREFIX:])
        except UNREADABLE:
            continue
        return found[4], found[5]
    return b"null", b"{}"


def damaged(id: bytes) -> Job:
    """A record that cannot be read, shown as what it becomes as soon as a call that writes comes upon it."""
    return Job(
        id=id.decode(), task="windlass.corrupt", version=1, queue="", priority=5, state=State.FAILED, payload=b"null",
        meta=b"{}", reason=lifecycle.CORRUPT, fingerprint=lifecycle.CORRUPT_MARK, error=lifecycle.corrupt_error(),
    )  # fmt: skip


def records(parts: Sequence[bytes]) -> list[Job | None]:
    return [record(parts[place : place + RECORD]) for place in range(0, len(parts), RECORD)]


def place(packed: bytes) -> Links:
    """A node's links as it came with them; none where they are damaged, which is for the store to act on."""
    try:
        _, ins, outs, spare, shape, aftermath = read_came_with(packed)
        return Links(
            [In(ins[k], On(ins[k + 1]), Inject(ins[k + 2])) for k in range(0, len(ins), 3)],
            [Out(outs[k], On(outs[k + 1]), outs[k + 2]) for k in range(0, len(outs), 3)],
            spare, Shape(shape), aftermath,
        )  # fmt: skip
    except UNREADABLE:
        return ALONE


def log(packed: bytes) -> LogLine:
    return LogLine(*log_line(packed))
