"""How jobs come in: whether a job is new, may come in now, and which state it begins in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.core import lifecycle
from windlass.core.event import Group
from windlass.core.event import Row as EventRow
from windlass.core.job import NewJob, State
from windlass.core.limits import NO_LIMITS
from windlass.store import rules
from windlass.store.answers import Accept, Answer
from windlass.store.memory import endings, gates, oldest, states, unique
from windlass.store.memory.records import Gate, Key, Phase, Row, event_row

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

ACCEPTED = Answer(Accept.ACCEPTED)
DUPLICATE = Answer(Accept.DUPLICATE)


class InsertBatch:
    """The jobs of one call, each with an answer of its own. ``bounded``: a full queue refuses more jobs."""

    def __init__(self, hub: Hub, now: int, bounded: bool = True) -> None:
        self.hub, self.now, self.bounded = hub, now, bounded
        self.fresh: list[Row] = []
        self.events: dict[str, list[EventRow]] = {"duplicate": [], "replaced": [], "failed": []}

    def groups(self) -> list[Group]:
        enqueued: Group = ("enqueued", "", [event_row(row) for row in self.fresh])
        return [enqueued, *((kind, "", rows) for kind, rows in self.events.items())]

    def insert(self, job: NewJob) -> Answer:
        hub = self.hub
        known = hub.jobs.get(job.id)
        if known is None and hub.nodes and (known := hub.nodes.get(job.id)) is not None:
            phase = known.links.graph.phase if known.links is not None and known.links.graph is not None else None
            if phase is Phase.STAGED:
                return rules.staged(job)
            if phase is Phase.DROPPED:
                del hub.nodes[job.id]
                known = None
        if known is not None:
            if (known.task, known.payload) != (job.task, job.payload):
                return rules.conflict(job, known.task, known.state)
            self.events["duplicate"].append(event_row(known))
            return DUPLICATE
        if job.terms is not None or hub.gates:
            return self._on_terms(job)
        self._accept(job)
        return ACCEPTED

    def _accept(self, job: NewJob, after: Key | None = None) -> Row:
        hub, now = self.hub, self.now
        hub.accepted += 1
        row = hub.jobs[job.id] = Row(job, hub.accepted, now)
        hub.counts[row.queue][row.state] += 1
        if after is not None:
            unique.succeed(hub, after, row)
        elif row.due > now:
            states.make_scheduled(hub, row, row.due)
        else:
            states.make_ready(hub, row)
        self.fresh.append(row)
        return row

    def _on_terms(self, job: NewJob) -> Answer:
        """Accept or refuse a job by its terms, in this order: draining, unique key, full queue."""
        hub, terms = self.hub, job.terms
        gate = gates.of_queue(hub, job.queue)
        if gate is not None and gate.limits.draining:
            return rules.draining(job)
        key = unique.held(hub, terms.unique, self.now) if terms is not None and terms.unique else None
        if key is not None and terms is not None:
            answer, replaced = unique.meet(hub, key, job, terms, self.now)
            if replaced is not None:
                self.events["replaced"].append(event_row(replaced))
            elif answer is not None and answer.status is Accept.DUPLICATE:
                self.events["duplicate"].append([job.id, job.task, job.queue, {"holder": answer.holder}])
            if answer is None:
                self._accept(job, after=key)
            return answer or ACCEPTED
        if self.bounded and (full := self._full(job, gate)) is not None:
            return full
        row = self._accept(job)
        if terms is not None and terms.unique:
            unique.hold(hub, row, terms)
        return ACCEPTED

    def _full(self, job: NewJob, gate: Gate | None) -> Answer | None:
        """The answer of a full queue that refuses the job. With ``drop_oldest`` the oldest job is ended to make room
        instead.
        """
        most = rules.full_at(job, gate.limits if gate is not None else NO_LIMITS)
        ready = self.hub.counts[job.queue][State.READY]
        if not most or ready < most or max(job.at, self.now + job.delay) > self.now:
            return None
        if job.terms is None or not job.terms.drop_oldest:
            return rules.full(job, most)
        row = oldest.oldest(self.hub, job.queue)
        if row is not None:
            row.error, row.fingerprint = lifecycle.dropped_error(job.queue, most), "queue-full"
            endings.finish(self.hub, row, State.FAILED, self.now, lifecycle.DROPPED)
            self.events["failed"].append([*event_row(row), {"reason": row.reason}])
        return None
