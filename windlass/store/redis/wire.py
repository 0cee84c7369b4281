"""What goes to the functions and comes back from them, as bytes. MessagePack both ways, read and written in one go.

The engine's hot calls spend their time here: nothing in this file may look at a job more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core import lifecycle
from windlass.core.event import Entry, Group
from windlass.core.event import Row as EventRow
from windlass.core.job import MAX_CRASHES, Finished, Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.store.base import (
    BeatReply,
    Declared,
    ExchangeReply,
    Note,
    Presence,
    Query,
    StoreSettings,
    SweepReply,
    Want,
    WatchReply,
)
from windlass.store.redis.commands import Word
from windlass.store.shared import CODE, STATES

encode = msgspec.msgpack.Encoder().encode
exchange_reply = msgspec.msgpack.Decoder(ExchangeReply).decode
beat_reply = msgspec.msgpack.Decoder(BeatReply).decode
sweep_reply = msgspec.msgpack.Decoder(SweepReply).decode
watch_reply = msgspec.msgpack.Decoder(WatchReply).decode
change_reply = msgspec.msgpack.Decoder(tuple[list[str], list[str], list[str]]).decode
news = msgspec.msgpack.Decoder(list[Finished]).decode
presence = msgspec.msgpack.Decoder(Presence).decode
log_line = msgspec.msgpack.Decoder(tuple[int, int, str, str]).decode

_PLAIN = (0, 0, 0, 0, MAX_CRASHES, 0, "", "")
PREFIX = 11


# -- settings


def settings(given: StoreSettings, cluster: bool) -> bytes:
    """What every call says of the app."""
    done, failed = given.keep.buckets("")
    return encode([done, failed, given.unknown_after, given.events_kept, given.logs_kept, cluster])


# -- the job path


def insert(jobs: Sequence[NewJob]) -> list[Word]:
    extras: list[Any] = []
    args: list[Word] = [b""]
    for job in jobs:
        body = encode((job.task, job.version, job.queue, job.priority, job.payload, job.meta))
        args += (job.id, body[1:])  # the values without the head of the array around them
        extra = (
            job.delay, job.at, job.expires_in, job.expires_at, job.max_crashes, job.crash_delay, job.keep_done,
            job.keep_failed,
        )  # fmt: skip
        extras.append(0 if extra == _PLAIN else (*extra[:4], CODE[job.expire_to], *extra[4:]))
    args[0] = encode(extras)
    return args


def exchange(worker: str, seq: int, moves: Sequence[Transition], want: Want) -> list[Word]:
    wanted: list[Any] = []
    for queue, cap in want.queues:
        wanted += (queue, cap)
    plain: list[Any] = []
    others: list[Any] = []
    args: list[Word] = [worker, seq, want.total, encode(wanted), b"", b""]
    ends: list[Word] = []
    for place, move in enumerate(moves, 1):
        if move.event == "succeeded" and is_plain(move):
            plain += (move.id, move.fence.seq, move.keep_done)
            args.append(move.result or b"")
        else:
            keep = move.keep_failed if move.to is State.FAILED else move.keep_done
            others += (
                place, move.id, *move.fence, CODE[move.to], move.event, move.delay, move.attempt, move.crashes,
                move.snoozes, 1 if move.yields_to_cancel else 0, move.reason, move.fingerprint, keep,
            )  # fmt: skip
            ends += (move.result or b"", move.error or b"")
    args[4:6] = encode(plain), encode(others)
    return args + ends


def is_plain(move: Transition) -> bool:
    """A success at the first claim, about which there is nothing to say but its result: what most moves are."""
    run, epoch, _ = move.fence
    unusual = move.attempt or move.crashes or move.snoozes or move.reason or move.error
    return run == epoch == 1 and not unusual and move.to is State.SUCCEEDED


def skills(presence: Presence) -> tuple[list[str], dict[str, list[int]], dict[str, int]]:
    """Queues, what is declared of named tasks, and of the queues with a handler for all others."""

    def said(declared: Declared) -> list[int]:
        return [declared.max_crashes, *declared.versions]

    named = {task: said(of) for task, of in presence.declares.items() if not task.startswith("*")}
    handled = {task[1:]: of.max_crashes for task, of in presence.declares.items() if task.startswith("*")}
    return presence.queues, named, handled


def note(notes: Sequence[Note]) -> bytes:
    return encode(
        [
            [
                note.id, *note.fence, False if note.progress is None else note.progress.decode(),
                [part for line in note.logs for part in line],
            ]
            for note in notes
        ]
    )  # fmt: skip


# -- records


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


_head = msgspec.msgpack.Decoder(Head).decode
_body = msgspec.msgpack.Decoder(tuple[str, int, str, int, bytes, bytes]).decode
RECORD = 6

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


def record(parts: Sequence[bytes]) -> Job | None:
    """A job from the six parts a function answers it with; None where there is none."""
    id, body, head, progress, result, error = parts
    if not head:
        return damaged(id) if body else None
    try:
        h = _head(head)
    except UNREADABLE:  # a name in it is not text
        return damaged(id)
    try:
        *_, payload, meta = _body(b"\x96" + body[PREFIX:])
    except UNREADABLE:
        payload, meta = b"null", b"{}"
    return Job(
        id=id.decode(), task=h.task, version=h.version, queue=h.queue, priority=h.priority, state=STATES[h.state],
        payload=payload, meta=meta, run=h.run, epoch=h.epoch, attempt=h.attempt, crashes=h.crashes, snoozes=h.snoozes,
        max_crashes=h.max_crashes, cancel_requested=bool(h.cancel), worker=h.worker, reason=h.reason,
        fingerprint=h.fingerprint, enqueued_at=h.at, due_at=h.due, expires_at=h.expires, started_at=h.started,
        finished_at=h.finished, result=result or None, error=error or None, progress=progress or None,
    )  # fmt: skip


def damaged(id: bytes) -> Job:
    """A record that cannot be read, shown as what it becomes as soon as a call that writes comes upon it."""
    return Job(
        id=id.decode(), task="windlass.corrupt", version=1, queue="", priority=5, state=State.FAILED, payload=b"null",
        meta=b"{}", reason="corrupt record", fingerprint="corrupt-record", error=lifecycle.corrupt_error(),
    )  # fmt: skip


def records(parts: Sequence[bytes]) -> list[Job | None]:
    return [record(parts[place : place + RECORD]) for place in range(0, len(parts), RECORD)]


def query(asked: Query) -> bytes:
    states = [state in asked.states for state in STATES] if asked.states else False
    newest = not asked.oldest_first
    return encode(
        [asked.queue, states, asked.task, asked.fingerprint, asked.worker, asked.since, asked.until, newest]
    )  # fmt: skip


def log(packed: bytes) -> LogLine:
    return LogLine(*log_line(packed))


# -- events

_Rows = tuple[str, str, str, str, list[str], list[str] | bool | None]
_entry = msgspec.msgpack.Decoder(tuple[int, list[_Rows]]).decode
_json = msgspec.json.Decoder().decode


def entry(name: bytes, packed: bytes) -> Entry:
    """An entry of the event stream. Neighbours of one kind, kept apart by task and queue, are one group again."""
    try:
        at, kept = _entry(packed)
    except UNREADABLE:  # damaged: those who follow the stream must get past it
        at, kept = 0, []
    groups: list[Group] = []
    for kind, worker, task, queue, ids, data in kept:
        rows: list[EventRow] = [[id, task, queue] for id in ids]
        if isinstance(data, list):
            rows = [[*row, _json(said)] for row, said in zip(rows, data, strict=True)]
        if groups and groups[-1][0] == kind and groups[-1][1] == worker:
            groups[-1][2].extend(rows)
        else:
            groups.append((kind, worker, rows))
    return Entry(int(name.partition(b"-")[0]), at, groups)
