"""The rows of the memory engine: jobs, workers, nodes, graphs, lanes, gates and unique keys. Mutable, and without rules
about more than one of them. The rows of items and logs are in ``item_rows``."""

from __future__ import annotations

import heapq
from collections import Counter
from enum import StrEnum

from windlass.core.event import Row as EventRow
from windlass.core.graph import NewGraph
from windlass.core.job import Claim, Finished, Job, LogLine, NewJob, State
from windlass.core.limits import (
    NO_LIMITS,
    OPEN,
    SHUT,
    Limits,
    Rate,
    cut_tat,
    fits,
    in_force,
    rate_opens,
    spare,
)
from windlass.core.links import Edge, Links
from windlass.core.terms import is_strict
from windlass.store import rules
from windlass.store.flow import GateInfo
from windlass.store.jobs import Presence
from windlass.store.skills import Skills

NOT_HELD, ASIDE, SOLO, IN_LANE = "", "aside", "solo", "lane"
"""Where a ready job is: in the plain order, set aside for workers that declare it, among solo jobs, or in a lane."""


class Row:
    """One job, or a join. ``n`` is its place in acceptance order, ``rank`` in ready order. ``links``: its node state in
    a graph.

    ``lane``: the lane it stands in while it is ready, if it has one.
    """

    __slots__ = (
        "aside_since", "attempt", "cancel", "crash_delay", "crashes", "due", "enqueued_at", "epoch", "error",
        "expire_to", "expires", "fingerprint", "finished_at", "hold", "id", "keep_done", "keep_failed", "lane",
        "links", "logs", "max_crashes", "meta", "n", "payload", "priority", "progress", "queue", "rank", "reason",
        "result", "run", "seq", "snoozes", "started_at", "state", "task", "terms", "version", "watchers", "worker",
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
        """Whether its value is made of other nodes' values: it is a join, or a job that was replaced by a graph."""
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
    """One worker: its lease, its last exchange and the jobs it holds."""

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


# -- graphs


ALONE = Links()
"""The links of a job that is in no graph itself and waits for one it has started."""


class Phase(StrEnum):
    """A staged graph is not seen yet; a real one is; the nodes of a dropped one go in bounded steps."""

    STAGED = "staged"
    REAL = "real"
    DROPPED = "dropped"


class NodeState:
    """What is kept of a node in a graph besides its record.

    ``edges`` are the states of its out-edges; ``open`` and ``broken`` count its in-edges. ``delay``, ``at`` and
    ``expires_in`` take effect when it is released. The edge from an awaited graph to its parent is not counted: it
    exists only while ``awaits`` names the graph.
    """

    __slots__ = (
        "at", "awaits", "broken", "culprit", "delay", "edges", "expires_in", "graph", "links",
        "open", "opened", "replaced",
    )  # fmt: skip

    def __init__(self, graph: GraphRow | None, job: NewJob | None = None) -> None:
        self.graph = graph
        self.links = (job.links if job else None) or ALONE
        self.open, self.broken, self.culprit = len(self.links.ins), 0, ""
        self.edges = [Edge.OPEN] * len(self.links.outs)
        self.delay, self.at, self.expires_in = (job.delay, job.at, job.expires_in) if job else (0, 0, 0)
        self.awaits, self.replaced = "", False
        self.opened = graph is None


class GraphRow:
    """One graph. ``n`` is its place in the order of commits, ``members`` its node ids in order, ``end`` its last join.

    ``todos``: how many unfinished todos are its own. ``stamp`` changes whenever a node ends or starts again, so that an
    audit which takes several steps notices that the graph moved meanwhile.
    """

    __slots__ = (
        "audit_at", "counts", "created_at", "culprit", "end", "finished_at", "looked", "looked_stamp", "members", "n",
        "new", "opened", "phase", "reason", "stamp", "stopping", "todos", "touched_at",
    )  # fmt: skip

    def __init__(self, new: NewGraph, now: int) -> None:
        self.new, self.phase = new, Phase.STAGED
        self.members: list[str] = []
        self.end: Row | None = None
        self.counts: Counter[State] = Counter()
        self.stopping = self.reason = self.culprit = ""
        self.n = self.opened = self.todos = self.stamp = 0
        self.created_at = self.finished_at = self.audit_at = self.looked = self.looked_stamp = 0
        self.touched_at = now

    @property
    def under_way(self) -> bool:
        return self.phase is Phase.REAL and not self.finished_at


class Todo:
    """Work on a graph that may take more than one step; ``cursor`` is where the next step goes on."""

    __slots__ = ("cursor", "graph", "op", "row")

    def __init__(self, op: str, graph: GraphRow | None, row: Row | None = None) -> None:
        self.op, self.graph, self.row, self.cursor = op, graph, row, 0


# -- lanes, gates and unique keys


PLENTY = 1 << 40

BAND, SHIFT = 1 << 100, 50
"""The ranks of one priority are a band. In it come plain jobs by number, then ageing jobs by time and number."""


class Lane:
    """One lane. ``turn``: lanes with smaller numbers come sooner. ``entry``: its place in the order of turns, while
    ``listed``.

    ``gate``: the gate it waits at. ``opened_by``: the gate that had it looked at again; if the lane makes no use of
    that opening, the next lane there must. ``holder``: the job that has a strict lane. ``expects``: the next number of
    a numbered lane; ``stands``: the head that waits for it; ``opens``: when that wait is over.
    """

    __slots__ = (
        "ended_at", "entry", "expects", "fading", "gate", "heap", "holder", "listed", "name", "opened_by", "opens",
        "queue", "size", "stands", "strict", "turn",
    )  # fmt: skip

    def __init__(self, queue: str, name: str) -> None:
        self.queue, self.name, self.strict = queue, name, is_strict(name)
        self.heap: list[tuple[int, Row]] = []
        self.turn = self.opens = self.ended_at = self.size = 0
        self.expects = 1
        self.listed = self.fading = False
        self.entry: tuple[int, int] | None = None
        self.gate: Gate | None = None
        self.opened_by: Gate | None = None
        self.holder: Row | None = None
        self.stands: Row | None = None

    def clear(self) -> None:
        self.listed, self.gate = False, None

    def first(self) -> Row | None:
        """The first job in its order. The heap keeps entries of jobs that have left; they are dropped here."""
        while self.heap:
            rank, row = self.heap[0]
            if row.lane is self and row.rank == rank:
                return row
            heapq.heappop(self.heap)
        return None

    def head(self) -> Row | None:
        """The one job the lane would give. In a strict lane that is its holder or, while the holder is not
        ready, none.
        """
        if self.holder is None:
            return self.first()
        return self.holder if self.holder.lane is self else None

    def rows(self) -> list[Row]:
        """All its ready jobs in order."""
        return list(dict.fromkeys(row for rank, row in sorted(self.heap) if row.lane is self and row.rank == rank))


class QueueLanes:
    """The lanes of one queue; ``turns`` has the listed ones in the order of their turns.

    ``plain``: the turn the plain order took last. At first the plain order comes before all lanes.
    """

    def __init__(self) -> None:
        self.lanes: dict[str, Lane] = {}
        self.turns: list[tuple[int, int, Lane]] = []
        self.plain = 0

    def next(self) -> Lane | None:
        """The lane whose turn it is."""
        while self.turns:
            level, turn, lane = self.turns[0]
            if lane.entry == (level, turn):
                if lane.listed:
                    return lane
                lane.entry = None
            heapq.heappop(self.turns)
        return None

    def before(self, rank: int | None) -> Lane | None:
        """The lane whose turn it is, if it comes before the plain order; ``rank`` is that of the plain order's head."""
        lane = self.next()
        if lane is None or lane.entry is None or rank is None:
            return lane
        return lane if lane.entry < (rank // BAND, self.plain) else None


class Gate:
    """One gate: a queue's, a task's, a breaker's, or that of one key of a queue.

    ``queue``: the queue whose gate it is, or whose key it belongs to. ``held``: units of the running jobs it concerns,
    exact since the gate counts them when it is made. ``tat`` is in microseconds, see ``core.limits``. ``waiting``: the
    lanes that wait here, by queue, in the order of their turns; it also has entries of lanes that have left. ``opens``:
    when it is to be looked at again.
    """

    __slots__ = (
        "closed_until", "declared", "held", "key", "limits", "name", "note", "opens", "queue", "tat", "tuned",
        "version", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, queue: str = "", key: str = "") -> None:
        self.name, self.queue, self.key = name, queue, key
        self.declared = self.tuned = self.limits = NO_LIMITS
        self.version = self.closed_until = self.held = self.tat = self.opens = 0
        self.note = b""
        self.waiting: dict[str, list[tuple[int, Lane]]] = {}

    def limit(self, declared: Limits, tuned: Limits, now: int) -> None:
        """Set new limits. What a slower rate was charged must not count beyond the burst of the new rate."""
        before, self.limits = self.limits, in_force(tuned, declared)
        self.declared, self.tuned = declared, tuned
        if (rate := self.limits.rate) is not None and rate != before.rate:
            self.tat = cut_tat(self.tat, now, rate)

    def lanes(self) -> set[Lane]:
        """The lanes that wait here now."""
        return {lane for entries in self.waiting.values() for _, lane in entries if lane.gate is self}

    def has_lanes(self) -> bool:
        for queue, entries in list(self.waiting.items()):
            while entries and entries[0][1].gate is not self:
                heapq.heappop(entries)
            if not entries:
                del self.waiting[queue]
        return bool(self.waiting)

    def says_nothing(self, now: int) -> bool:
        """Whether it may be forgotten: it limits, closes, notes and counts nothing, and no lane waits at it."""
        quiet = self.limits == self.tuned == self.declared == NO_LIMITS and not self.note
        over = self.closed_until <= now and self.tat <= now * 1000
        return quiet and over and not (self.key and self.held) and not self.has_lanes()

    def opens_at(self, limit: int | None, rate: Rate | None, units: int, now: int) -> int:
        """When so many units may pass: OPEN, SHUT, or the instant at which time alone lets them pass."""
        if self.limits.paused:
            return SHUT
        if self.closed_until > now:
            return self.closed_until
        if not fits(self.held, limit, units):
            return SHUT
        return rate_opens(self.tat, now, rate, units)

    def opens_to(self, units: int, now: int) -> int:
        """``opens_at`` for a gate that has limits of its own: any gate but a key's."""
        return self.opens_at(self.limits.limit, self.limits.rate, units, now)

    def spare(self, limit: int | None, rate: Rate | None, now: int) -> int:
        """How many units might pass now."""
        if self.opens_at(limit, rate, 1, now) != OPEN:
            return 0
        return spare(PLENTY, self.held, limit, self.tat, now, rate)

    def info(self, now: int, changed: bool = False) -> GateInfo:
        at = self.opens if self.key else max(self.closed_until, rate_opens(self.tat, now, self.limits.rate, 1))
        return GateInfo(
            name=self.name, version=self.version, declared=self.declared, tuned=self.tuned, note=self.note,
            closed_for=max(0, self.closed_until - now), held=self.held if self.key or self.limits.limit else 0,
            waiting=len(self.lanes()), opens_in=max(0, at - now), changed=changed,
        )  # fmt: skip


class Key:
    """A unique key that is held. ``holder`` may be over while the window lasts; ``successor`` waits for the holder to
    end.
    """

    __slots__ = ("holder", "successor", "until")

    def __init__(self, holder: Row, until: int) -> None:
        self.holder, self.until = holder, until
        self.successor: Row | None = None

    def free(self, now: int) -> bool:
        return self.holder.state.terminal and self.until <= now
