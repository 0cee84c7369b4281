"""The rows of the memory engine: plain mutable objects, no rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core.event import Row as EventRow
from windlass.core.job import Claim, Finished, Job, LogLine, NewJob, State
from windlass.store import rules
from windlass.store.jobs import Presence
from windlass.store.memory.nodes import NodeState
from windlass.store.skills import Skills

if TYPE_CHECKING:
    from windlass.store.memory.lanes import Lane

NOT_HELD, ASIDE, SOLO, IN_LANE = "", "aside", "solo", "lane"
"""Why a ready job is out of the plain order: not at all, nobody here declares it, it must run alone, it has a lane."""


class Row:
    """One job, or a join. ``n`` is its place in acceptance order, ``rank`` in ready order, ``links`` in its graph.

    ``lane``: where it stands while it is ready and has one.
    """

    __slots__ = (
        "aside_since",
        "attempt",
        "cancel",
        "crash_delay",
        "crashes",
        "due",
        "enqueued_at",
        "epoch",
        "error",
        "expire_to",
        "expires",
        "fingerprint",
        "finished_at",
        "hold",
        "id",
        "keep_done",
        "keep_failed",
        "lane",
        "links",
        "logs",
        "max_crashes",
        "meta",
        "n",
        "payload",
        "priority",
        "progress",
        "queue",
        "rank",
        "reason",
        "result",
        "run",
        "seq",
        "snoozes",
        "started_at",
        "state",
        "task",
        "terms",
        "version",
        "watchers",
        "worker",
    )  # fmt: skip

    def __init__(self, job: NewJob, n: int, now: int) -> None:
        self.id, self.task, self.version, self.queue = job.id, job.task, job.version, job.queue
        self.payload, self.meta, self.priority = job.payload, job.meta, job.priority
        self.max_crashes, self.crash_delay = job.max_crashes, job.crash_delay
        self.keep_done, self.keep_failed = job.keep_done, job.keep_failed
        self.expires = job.expires_at or (now + job.expires_in if job.expires_in else 0)
        self.expire_to = job.expire_to
        self.due = max(job.at, now + job.delay if job.delay else 0)
        self.n, self.enqueued_at, self.state = n, now, State.WAITING
        self.rank = self.epoch = self.attempt = self.crashes = self.snoozes = self.seq = 0
        self.started_at = self.finished_at = self.aside_since = 0
        self.run, self.cancel = 1, False
        self.worker = self.reason = self.fingerprint = ""
        self.hold = NOT_HELD
        self.result: bytes | None = None
        self.error: bytes | None = None
        self.progress: bytes | None = None
        self.logs: list[LogLine] | None = None
        self.watchers: set[str] | None = None
        self.links: NodeState | None = None
        self.terms = job.terms
        self.lane: Lane | None = None

    @property
    def gathers(self) -> bool:
        """Whether its value is that of other nodes: a join, or a job that was replaced by a graph."""
        return self.links is not None and (not self.task or self.links.replaced)

    def claim(self) -> Claim:
        return Claim(
            self.id, self.task, self.version, self.queue, self.priority, self.payload, self.meta, self.run, self.epoch,
            self.seq, self.attempt, self.crashes, self.snoozes, self.enqueued_at, self.error, due_at=self.due,
            claimed_at=self.started_at,
        )  # fmt: skip

    def finished(self) -> Finished:
        return rules.finished(self.id, self.state, self.result, self.error, self.reason, self.gathers)

    def job(self) -> Job:
        job = Job(
            id=self.id, task=self.task, version=self.version, queue=self.queue, priority=self.priority,
            state=self.state, payload=self.payload, meta=self.meta, run=self.run, epoch=self.epoch,
            attempt=self.attempt, crashes=self.crashes, snoozes=self.snoozes, max_crashes=self.max_crashes,
            cancel_requested=self.cancel,
            worker=self.worker, reason=self.reason, fingerprint=self.fingerprint, enqueued_at=self.enqueued_at,
            due_at=self.due, expires_at=self.expires, started_at=self.started_at, finished_at=self.finished_at,
            result=self.result, error=self.error, progress=self.progress, terms=self.terms,
        )  # fmt: skip
        if (place := self.links) is not None:
            job.awaits, job.replaced = place.awaits, place.replaced
            if place.graph is not None:
                job.graph, job.links = place.graph.new.id, place.links
        return job


def event_row(row: Row) -> EventRow:
    return [row.id, row.task, row.queue]


class WorkerRow:
    """One worker: its lease, its last exchange and what it holds."""

    __slots__ = (
        "beat_at", "dead", "idle", "last_seq", "lease_until", "presence", "refused", "reserved", "running", "skills",
    )  # fmt: skip

    def __init__(self) -> None:
        self.presence = Presence(id="", queues=[], declares={})
        self.skills = Skills([], {})
        self.running: dict[str, Row] = {}
        self.last_seq = self.lease_until = self.beat_at = 0
        self.refused: list[str] = []
        self.reserved = ""
        self.idle = self.dead = False

    def renew(self, presence: Presence, now: int) -> None:
        if (presence.queues, presence.declares) != (self.presence.queues, self.presence.declares):
            self.skills = Skills(presence.queues, presence.declares)
        self.presence, self.beat_at, self.lease_until = presence, now, now + presence.lease

    def takes(self, queue: str, task: str, version: int) -> bool:
        return self.skills.takes(queue, task, version)

    def max_crashes(self, row: Row) -> int:
        return self.skills.max_crashes(row.queue, row.task, row.max_crashes)
