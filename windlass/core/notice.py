"""Notices: what is told about dead letters, stuck queues and missed schedules, to whom, and how often. Reads no clock.

One ``app.notify(...)`` makes a *rule*. The *book* of an app is one value that says what every rule has been told; the
worker that writes its next version has decided what is told. So a rule's rate holds over all workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from windlass.core.codec import decode_any
from windlass.core.duration import from_ms, show_ms
from windlass.core.event import Event
from windlass.core.job import ErrorInfo, Job, State

Kind = Literal["dead", "stuck", "schedule"]
KINDS: tuple[Kind, ...] = ("dead", "stuck", "schedule")

ARGS_MAX = 65_536
"""A dead letter's arguments go along up to so many bytes."""
MESSAGE_MAX = 4_000
ID_MAX = 256
CAUSED = "windlass.notice/"
"""How the correlation ids begin of jobs that notices make, and of all that those enqueue: nothing is told of them."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed for good. ``error`` is the exception's type, ``reason`` why there was no further attempt.

    ``args`` by name; None if they exceed 64 KB or the record is gone: ``app.job(letter.id).info()`` has what there is.
    ``run`` grows with every replay, from 1; 0 if the record is gone, or was replayed since and describes a newer run.
    ``schedule``: the schedule that made the job.
    """

    id: str
    task: str
    queue: str
    args: Any = None
    error: str = ""
    message: str = ""
    fingerprint: str = ""
    reason: str = ""
    attempts: int = 0
    crashes: int = 0
    at: datetime | None = None
    run: int = 1
    workflow: str = ""
    schedule: str = ""


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something an operator should know. ``id`` is the same however often the notice is delivered.

    ``held_back``: how many notices the rate has withheld since the last one sent.
    """

    kind: Kind
    app: str
    title: str
    text: str
    at: datetime | None = None
    id: str = ""
    queue: str = ""
    task: str = ""
    job: str = ""
    error: str = ""
    message: str = ""
    fingerprint: str = ""
    schedule: str = ""
    held_back: int = 0


class NoticeRule(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``app.notify(...)`` wants; durations in ms. ``key`` names the rule in the book and in its jobs."""

    key: str
    on: tuple[Kind, ...] = KINDS
    queue: str = "*"
    every: int = 300_000
    burst: int = 1
    stuck_after: int = 300_000

    def wants(self, notice: Notice) -> bool:
        """Whether the notice is of a kind and queue the rule asks for. A schedule without jobs belongs to no queue and
        to every rule.
        """
        return notice.kind in self.on and (not notice.queue or matches(self.queue, notice.queue))


class Told(msgspec.Struct, omit_defaults=True):
    """What a rule was told. ``until``: when its rate allows a full burst again. ``held``: notices withheld since the
    last one sent.
    """

    sent: int = 0
    until: int = 0
    held: int = 0
    last: Notice | None = None


class NoticeBook(msgspec.Struct, omit_defaults=True):
    """What was told so far. ``cursor`` and ``at``: how far the events were read; ``failed``: how many failures there
    ever were by then.

    ``stuck``, ``gone``: the queues and schedules whose standstill was told. ``outbox``: notices that are decided and
    not yet known to be accepted as jobs.
    """

    cursor: int = 0
    at: int = 0
    failed: int = 0
    rules: dict[str, Told] = {}
    stuck: list[str] = []
    gone: list[str] = []
    outbox: list[tuple[str, Notice]] = []


def matches(pattern: str, name: str) -> bool:
    return pattern == "*" or fnmatchcase(name, pattern)


# -- how often


def opens_at(told: Told, rule: NoticeRule) -> int:
    """The instant from which the rule may be sent another notice."""
    return told.until - (rule.burst - 1) * rule.every


def offer(book: NoticeBook, rule: NoticeRule, notice: Notice, now: int) -> None:
    """Tell a rule of a notice: at once if its rate allows, else with the next notice that it does allow."""
    told = book.rules.setdefault(rule.key, Told())
    if now < opens_at(told, rule):
        told.held += 1
        told.last = notice
    else:
        _send(book, rule, told, notice, told.held, now)


def remind(book: NoticeBook, rule: NoticeRule, now: int) -> None:
    """Send what was withheld once the rate allows it, without waiting for another notice."""
    told = book.rules.get(rule.key)
    if told is not None and told.last is not None and now >= opens_at(told, rule):
        _send(book, rule, told, told.last, told.held - 1, now)


def next_reminder(book: NoticeBook, rules: Iterable[NoticeRule]) -> int:
    """The instant of the next reminder, 0 for none."""
    held = [(told, rule) for rule in rules if (told := book.rules.get(rule.key)) is not None and told.held]
    return min((opens_at(told, rule) for told, rule in held), default=0)


def _send(book: NoticeBook, rule: NoticeRule, told: Told, notice: Notice, held: int, now: int) -> None:
    told.sent += 1
    told.until = max(told.until, now) + rule.every
    told.held, told.last = 0, None
    id = fit_id(f"notice-{rule.key}-{told.sent}")
    book.outbox = [*book.outbox, (rule.key, msgspec.structs.replace(notice, id=id, held_back=held))]


# -- what is said


def is_on_record(event: Event, record: Job) -> bool:
    """Whether the record still shows the failure of this event: the job has not been replayed since."""
    return record.state is State.FAILED and record.finished_at <= event.at


def letter_of_event(event: Event, schedule: str) -> DeadLetter:
    """A dead letter made of the event alone, as no record shows that failure any more."""
    reason = event.data.get("reason", "") if isinstance(event.data, dict) else ""
    return DeadLetter(
        id=event.job, task=event.task, queue=event.queue, message=reason, reason=reason, at=from_ms(event.at), run=0,
        schedule=schedule,
    )  # fmt: skip


def letter_of_record(record: Job, schedule: str) -> DeadLetter:
    error = msgspec.json.decode(record.error, type=ErrorInfo) if record.error else ErrorInfo("", record.reason)
    return DeadLetter(
        id=record.id, task=record.task, queue=record.queue, error=error.type, message=error.message[:MESSAGE_MAX],
        args=decode_any(record.payload) if len(record.payload) <= ARGS_MAX else None, at=from_ms(record.finished_at),
        fingerprint=record.fingerprint or error.fingerprint, reason=record.reason, attempts=record.attempt,
        crashes=record.crashes, run=record.run, workflow=record.graph, schedule=schedule,
    )  # fmt: skip


def letter_id(letter: DeadLetter, handler: str, cursor: str) -> str:
    """The id of the job that tells a handler of a dead letter. The same failure gives the same id, however it
    is found.
    """
    death = str(letter.run) if letter.run else f"at-{cursor}"
    return fit_id(f"dead-{letter.id}-{death}-{_digest(handler, 3)}")


def fit_id(id: str) -> str:
    return id if len(id) <= ID_MAX else f"{id[:180]}-{_digest(id, 16)}"


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()


def dead_notice(app: str, letter: DeadLetter, scheduled: bool) -> Notice:
    """The notice of a dead letter. ``scheduled``: it is told as the failure of its schedule."""
    what = letter.error.rpartition(".")[2] + ": " + letter.message if letter.error else letter.message
    first = next(iter(what.splitlines()), "")[:200]
    who = f"schedule {letter.schedule}: {letter.task} failed" if scheduled else f"{letter.task} is a dead letter"
    lines = [
        what, "", f"job       {letter.id}", f"task      {letter.task}", f"queue     {letter.queue}",
        f"attempts  {letter.attempts}", f"crashes   {letter.crashes}" if letter.crashes else "",
        f"reason    {letter.reason}" if letter.reason else "",
    ]  # fmt: skip
    return Notice(
        kind="schedule" if scheduled else "dead", app=app, title=f"{app}: {who}: {first}", at=letter.at,
        text="\n".join(line for place, line in enumerate(lines) if line or place == 1), queue=letter.queue,
        task=letter.task, job=letter.id, error=letter.error, message=letter.message, fingerprint=letter.fingerprint,
        schedule=letter.schedule,
    )  # fmt: skip


LATE = 60_000
"""A run that starts by so many ms later than its slot is worth a word: nobody was there to start it."""


def late_notices(app: str, events: Iterable[Event]) -> list[Notice]:
    """A notice for each schedule with slots that came while no worker was there; it covers all those slots."""
    late: dict[str, list[Event]] = {}
    for event in events:
        if event.kind == "schedule_fired" and event.at - event.data["slot"] > LATE:
            late.setdefault(event.job, []).append(event)
    return [_late_notice(app, name, fired) for name, fired in late.items()]


def _late_notice(app: str, name: str, fired: list[Event]) -> Notice:
    first, last = fired[0].data["slot"], fired[-1]
    jobs = sum(len(event.data["jobs"]) for event in fired)
    made = f"{jobs} {'job was' if jobs == 1 else 'jobs were'} made up for it" if jobs else "It was left out"
    return Notice(
        kind="schedule", app=app, title=f"{app}: schedule {name} was missed: {show_ms(last.at - first)} late",
        text=f"The slot of {from_ms(first):%Y-%m-%d %H:%M:%S} UTC came when no worker was there.\n{made}.",
        at=from_ms(last.at), queue=last.queue, task=last.task, schedule=name,
    )  # fmt: skip
