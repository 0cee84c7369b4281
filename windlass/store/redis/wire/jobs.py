"""The job path: jobs, moves and claims as bytes, MessagePack both ways, read and written in one go.

The engine's hot calls spend their time here: nothing in this file may look at a job more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.job import MAX_CRASHES, Finished, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.store.answers import Accept, Answer
from windlass.store.jobs import (
    BeatReply,
    Change,
    Declared,
    ExchangeReply,
    Note,
    Presence,
    SweepReply,
    Want,
    WatchReply,
)
from windlass.store.redis.commands import Word
from windlass.store.redis.wire.flow import is_light, packed_terms, terms
from windlass.store.redis.wire.packing import encode
from windlass.store.shared import CODE

exchange_reply = msgspec.msgpack.Decoder(ExchangeReply).decode
beat_reply = msgspec.msgpack.Decoder(BeatReply).decode
sweep_reply = msgspec.msgpack.Decoder(SweepReply).decode
watch_reply = msgspec.msgpack.Decoder(WatchReply).decode
change_reply = msgspec.msgpack.Decoder(tuple[list[str], list[str], list[str]]).decode
finished = msgspec.msgpack.Decoder(list[Finished]).decode

_PLAIN = (0, 0, 0, 0, MAX_CRASHES, 0, "", "", None)


def insert(jobs: Sequence[NewJob]) -> list[Word]:
    extras: list[Any] = []
    args: list[Word] = [b""]
    for job in jobs:
        body = encode((job.task, job.version, job.queue, job.priority, job.payload, job.meta))
        args += (job.id, body[1:])  # the values without the head of the array around them
        extra = (
            job.delay, job.at, job.expires_in, job.expires_at, job.max_crashes, job.crash_delay, job.keep_done,
            job.keep_failed, job.terms,
        )  # fmt: skip
        if extra == _PLAIN:
            extras.append(0)
        elif extra[:8] == _PLAIN[:8] and is_light(job.terms):
            extras.append(terms(job.terms))
        else:
            extras.append((*extra[:4], CODE[job.expire_to], *extra[4:8], terms(job.terms)))
    args[0] = encode(extras)
    return args


_ANSWERS = {
    "=": Accept.DUPLICATE, "R": Accept.REPLACED, "C": Accept.CONFLICT, "F": Accept.FULL, "X": Accept.REFUSED,
}  # fmt: skip
_ACCEPTED, _DUPLICATE = Answer(Accept.ACCEPTED), Answer(Accept.DUPLICATE)


def answer(said: bytes) -> Answer:
    """The answer to one job: a letter, and behind it who has its key or why it was not taken."""
    if not said:
        return _ACCEPTED
    if said == b"=":
        return _DUPLICATE
    text = said.decode()
    status = _ANSWERS[text[0]]
    if status in (Accept.DUPLICATE, Accept.REPLACED):
        return Answer(status, holder=text[1:])
    return Answer(status, text[1:])


def exchange(worker: str, seq: int, moves: Sequence[Transition], want: Want) -> list[Word]:
    wanted: list[Any] = [want.now]
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
                move.adopt, 1 if move.replaced else 0,
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


def edit(change: Change) -> bytes:
    """A payload behind its job's new terms and their size: -1 where they stay, 0 where there are to be none."""
    if isinstance(change.terms, msgspec.UnsetType):
        return (-1).to_bytes(4, "big", signed=True) + change.payload
    packed = b"" if change.terms is None else packed_terms(change.terms)
    return len(packed).to_bytes(4, "big", signed=True) + packed + change.payload
