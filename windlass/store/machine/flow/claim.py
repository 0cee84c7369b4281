"""Claiming: the other half of an exchange."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter

import msgspec

from windlass.core import lifecycle
from windlass.core.job import Claim
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Want
from windlass.store.machine.codes import CANCELLED, FAILED, READY, RUNNING
from windlass.store.machine.flow.candidates import (
    FIRST_SOLO,
    FROM_ASIDE,
    FROM_PLAIN,
    FROM_READY,
    GRANTED,
    Candidate,
    candidates,
)
from windlass.store.machine.flow.lanes import put_into, refresh
from windlass.store.machine.flow.turns import Gating, Turns, lane_name, terms_of
from windlass.store.machine.graphs.lookups import Bequest, bequests
from windlass.store.machine.jobs.asides import Group, declaring, groups
from windlass.store.machine.jobs.expiry import expired_row
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.tx import Tx, Values, ids_json
from windlass.store.skills import Skills

SET_ASIDE = "UPDATE jobs SET hold = 1, aside_at = ? WHERE n IN (SELECT value FROM json_each(?))"
TASK_AND_QUEUE = attrgetter("task", "queue")


def granted_before(tx: Tx, worker: int, seq: int) -> list[Claim]:
    """What an exchange was granted and is still running, for a worker that did not hear the answer."""
    found = sorted(candidates(tx.value(GRANTED, (worker, seq))), key=lambda job: job.place)
    graphs = brought(tx, found)
    claims = [job.claim(job.epoch, job.seq, job.started_at) for job in found]
    return [graphs[job.node].give(one) if job.node in graphs else one for job, one in zip(found, claims, strict=True)]


def brought(tx: Tx, jobs: list[Candidate]) -> dict[int, Bequest]:
    """What graphs bring to these jobs, by node."""
    nodes = [job.node for job in jobs if job.node]
    return bequests(tx, nodes) if nodes else {}


class Claiming:
    """One exchange's search for jobs."""

    def __init__(self, tx: Tx, worker: int, skills: Skills, seq: int, want: Want) -> None:
        self.tx, self.worker, self.skills, self.seq = tx, worker, skills, seq
        self.total, self.queues = min(want.total, MAX_BATCH), list(want.queues)
        self.granted: list[Claim] = []
        self.taken: list[int] = []
        self.graphs: dict[int, Bequest] = {}
        self.reserved = 0
        self.turned_away = 0
        self.more = self.passed = self.alone = False
        """``passed``: a lane that was looked at came to wait at a gate. ``alone``: one had to give a job that runs
        alone, and nothing else is granted then."""
        self.could_start = self.total if want.now < 0 else min(self.total, want.now)
        self.now = want.now
        """How many more jobs from lanes could start at once; -1 for all."""
        self.gating = Gating(self)
        self.opened: Counter[str] = Counter()
        """By queue, how many jobs of lanes that opened meanwhile may start."""

    def claim(self, held_back: bool) -> bool:
        """Grant what there is. True when the worker must drain for a job that runs alone.

        ``held_back``: some jobs of its queues are out of the ready order.
        """
        if held_back:
            drain = self._solo()
            if drain is not None:
                return drain
        for i, (queue, cap) in enumerate(self.queues):
            take = min(cap, self.total - len(self.granted))
            if take > 0 and not self.alone:
                before = len(self.granted)
                self._queue(queue, take, held_back)
                self.queues[i] = (queue, cap - (len(self.granted) - before))
        self.gating.write()
        return self.alone and bool(self._solo())

    def _solo(self) -> bool | None:
        """A job that runs alone, if this worker is the one for it: granted when it is empty (False), else drained for
        (True). None when there is no such job."""
        tx = self.tx
        self.write()
        busy = tx.value("SELECT 1 FROM jobs WHERE state = 3 AND worker = ? LIMIT 1", (self.worker,))
        # A worker that drains asks for nothing, and must not lose its reservation by that.
        queues = [queue for queue, cap in self.queues if cap > 0] if self.total > 0 else self.skills.queues
        for queue in queues:
            job = self._first_solo(queue)
            if job is None or not self.skills.takes(queue, job.task, job.version) or self.is_over(job):
                continue
            if not self._may_start(job):
                continue
            if not busy or not self._reserved_elsewhere(job.n):
                self.reserved = job.n
                if not busy and self.total > 0:
                    self.gating.charge(job, terms_of(job))
                    self.grant(job)
                    self.gating.write()
                    self.reserved = 0
                return True if busy else False if self.total > 0 else None
        return None

    def _may_start(self, job: Candidate) -> bool:
        """Whether the gates of a job that runs alone are open; otherwise it goes back into its lane, which waits."""
        terms = terms_of(job)
        if self.gating.is_shut(job.queue, 1 if terms is None else terms.units):
            return False
        if self.gating.closed(job, terms) is None:
            return True
        put_into(self.tx, [(job.n, job.queue, lane_name(job, gated=True))])
        self.opened += refresh(self.tx)
        return False

    def _first_solo(self, queue: str) -> Candidate | None:
        while head := self.tx.value(FIRST_SOLO, (queue,)):
            job = msgspec.json.decode(head, type=Candidate)
            self.graphs.update(brought(self.tx, [job]))
            if not self.is_stopped(job):
                return job
            self.turn_away(queue, [job])
        return None

    def _reserved_elsewhere(self, n: int) -> bool:
        sql = "SELECT 1 FROM workers WHERE reserved = ? AND n <> ? AND dead = 0 AND lease_until > ?"
        return self.tx.value(sql, (n, self.worker, self.tx.now)) is not None

    def _queue(self, queue: str, take: int, held_back: bool) -> None:
        """Up to ``take`` jobs in ready order, with what others set aside and this worker declares."""
        if self.taken:  # the same queue may be wanted twice
            self.write()
        aside = [group for group in groups(self.tx, [queue]) if self.skills.takes(*group)] if held_back else []
        if self.tx.lanes or self.tx.gates or aside:
            Turns(self, queue, aside).take(take)
            return
        while take > 0:
            found = self.read(FROM_READY, (queue, take))
            self.read_graphs(found)
            before = len(self.granted)
            unfit = [job for job in found if not self._offer(job)]
            take -= len(self.granted) - before
            if not unfit:
                return
            self.write()
            self.turn_away(queue, unfit)
            if self.more:
                return

    def read_plain(self, queue: str, most: int, aside: list[Group]) -> list[Candidate]:
        """The first jobs in ready order, and of those that were set aside and that this worker declares."""
        found = self.read(FROM_PLAIN, (queue, most))
        for _, task, version in aside:
            found += self.read(FROM_ASIDE, (queue, most, task, version))
        if aside:
            found.sort(key=lambda job: job.place)
        return found[:most]

    def read(self, sql: str, values: Values) -> list[Candidate]:
        return candidates(self.tx.value(sql, values))

    def read_graphs(self, jobs: list[Candidate]) -> None:
        """What graphs bring to these jobs, and whether they let them start."""
        self.graphs.update(brought(self.tx, jobs))

    def is_over(self, job: Candidate) -> bool:
        return 0 < job.expires_at <= self.tx.now

    def is_stopped(self, job: Candidate) -> bool:
        """Whether its graph lets nothing start any more."""
        return job.node in self.graphs and bool(self.graphs[job.node].stopping)

    def fits(self, job: Candidate) -> bool:
        """Whether nothing but gates could keep this worker from running it."""
        return not (self.is_over(job) or self.is_stopped(job)) and self.skills.takes(job.queue, job.task, job.version)

    def _offer(self, job: Candidate) -> bool:
        if not self.fits(job):
            return False
        self.grant(job)
        return True

    def grant(self, job: Candidate) -> None:
        claim = job.claim(job.epoch + 1, self.seq, self.tx.now)
        self.granted.append(self.graphs[job.node].give(claim) if job.node in self.graphs else claim)
        self.taken.append(job.n)

    def write(self) -> None:
        """The grants so far, into the jobs. The last ones are written along with the worker's row."""
        if self.taken:
            self.tx.run("INSERT INTO granted VALUES (?, ?, ?, ?)", (self.worker, self.seq, self.tx.now, self.take()))

    def write_turns(self, lanes: str, queue: str, plain_turn: int) -> None:
        """The same, with what became of the lanes of a queue that had their turns, and of its plain order."""
        values = (self.worker, self.seq, self.tx.now, self.take(), lanes, queue, plain_turn)
        self.tx.run("INSERT INTO turned VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def take(self) -> str:
        """The grants not yet written, which the caller will write."""
        started = Counter(map(TASK_AND_QUEUE, self.granted[len(self.granted) - len(self.taken) :]))
        self.tx.add_up("started", started)
        for (_, queue), count in started.items():
            self.tx.count(queue, READY, -count)
            self.tx.count(queue, RUNNING, count)
        taken, self.taken = ids_json(self.taken), []
        return taken

    def turn_away(self, queue: str, unfit: list[Candidate]) -> None:
        """What has expired, or belongs to a stopped graph, ends; what this worker does not declare is set aside for one
        that does."""
        tx = self.tx
        stopped = [job for job in unfit if self.is_stopped(job)]
        self._cancel(stopped)
        unfit = [job for job in unfit if not self.is_stopped(job)]
        over = [job for job in unfit if self.is_over(job)]
        for job in over:
            kind = "failed" if job.expire_to == FAILED else "cancelled"
            tx.record(kind, "", [[job.id, job.task, job.queue, {"reason": lifecycle.EXPIRED}]])
        shift(tx, (expired_row(job.n, job.expire_to, job.crashes, job.max_crashes) for job in over))
        strange = [job for job in unfit if not self.is_over(job)]
        if strange:
            tx.run(SET_ASIDE, (tx.now, ids_json(job.n for job in strange)))
        kinds = Counter((job.task, job.version) for job in strange)
        tx.wake_all(((queue, count, declaring(queue, *kind)) for kind, count in kinds.items()), but=self.worker)
        self.turned_away += len(unfit) + len(stopped)
        # Bounded like every call; the worker is woken at once to go on.
        self.more = self.turned_away >= MAX_BATCH

    def _cancel(self, jobs: list[Candidate]) -> None:
        """Their graphs were stopped: they must not start."""
        rows = [(job, self.graphs[job.node].reason) for job in jobs]
        shift(self.tx, ([j.n, CANCELLED, 0, 0, reason, None, None, j.crashes, j.max_crashes] for j, reason in rows))
        news = [[job.id, job.task, job.queue, {"reason": reason}] for job, reason in rows]
        self.tx.record("cancelled", "", news)
