"""Claiming: the other half of an exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from windlass.core.job import Claim
from windlass.core.terms import units_of
from windlass.store.jobs import Want
from windlass.store.machine.flow.candidates import Candidate, candidates
from windlass.store.machine.flow.gating import Gating, lane_name
from windlass.store.machine.flow.grants import Grants, brought
from windlass.store.machine.flow.lanes import follow, put_into, refresh
from windlass.store.machine.flow.rounds import Rounds
from windlass.store.machine.jobs.asides import groups
from windlass.store.machine.tx import Tx, ids_json
from windlass.store.skills import Skills


def granted_before(tx: Tx, worker: int, seq: int) -> list[Claim]:
    """What an exchange was granted and is still running, for a worker that did not hear the answer."""
    found = sorted(candidates(tx.value(tx.sql.candidates.GRANTED, (worker, seq))), key=lambda job: job.place)
    graphs = brought(tx, found)
    claims = [job.claim(job.epoch, job.seq, job.started_at) for job in found]
    return [graphs[job.node].give(one) if job.node in graphs else one for job, one in zip(found, claims, strict=True)]


def wake_for_plain(tx: Tx, ready: Counter[str], but: int) -> None:
    """Others are woken for jobs that became ready, of queues whose ready order still has any; ``but``: who claimed."""
    left = tx.all(tx.sql.claim.LEFT, (ids_json(ready),)) if ready else []
    tx.wake_queues({queue: ready[queue] for (queue,) in left}, but)


class Claiming:
    """One exchange's search for jobs."""

    def __init__(self, tx: Tx, worker: int, skills: Skills, seq: int, want: Want) -> None:
        self.tx, self.worker, self.skills = tx, worker, skills
        self.grants, self.gating = Grants(tx, worker, skills, seq, want), Gating(tx)
        self.queues = list(want.queues)
        self.reserved = 0
        self.opened: Counter[str] = Counter()
        """By queue, how many jobs may start because lanes got on while this claim went through them."""
        total = self.grants.total
        self._could_start = total if want.now < 0 else min(total, want.now)

    @property
    def is_idle(self) -> bool:
        """Whether the worker got less than it wanted, and waits for more."""
        return len(self.grants.granted) < self._could_start and not self.grants.more

    def claim_all(self, alone: bool, held_back: bool) -> bool:
        """Grant what there is. True when the worker must drain for a job that runs alone.

        ``alone``: it runs one. ``held_back``: some jobs of its queues are out of the ready order.
        """
        drain = alone or self.claim(held_back)
        while self.grants.passed and not (drain or self.grants.more):
            # A lane could not use what it was let through for: the next one may.
            self.grants.passed = False
            found = follow(self.tx)
            self.opened += found
            drain = found.total() > 0 and self.claim(False)
        self.opened += self.grants.opened
        return drain

    def claim(self, held_back: bool) -> bool:
        """The same once, with lanes and gates as they are."""
        if held_back:
            drain = self._solo()
            if drain is not None:
                return drain
        self.grants.write()
        if self.grants.left > 0:
            names = dict.fromkeys(queue for queue, cap in self.queues if cap > 0)
            aside = [group for group in groups(self.tx, names) if self.skills.takes(*group)] if held_back else []
            if self.tx.lanes or self.tx.gates or aside:
                Rounds(self.grants, self.gating, aside).take(self.queues)
            else:
                self._plain()
        self.gating.write()
        return self.grants.alone and bool(self._solo())

    # -- plain jobs

    def _plain(self) -> None:
        """Jobs in ready order, where nothing but that decides."""
        read = set[str]()
        for i, (queue, cap) in enumerate(self.queues):
            take = min(cap, self.grants.left)
            if take > 0:
                if queue in read:
                    self.grants.write()
                read.add(queue)
                self.queues[i] = (queue, cap - self._from_ready(queue, take))

    def _from_ready(self, queue: str, take: int) -> int:
        """Up to so many jobs of a queue; how many it gave."""
        grants, before = self.grants, self.grants.left
        while (most := take - before + grants.left) > 0:
            found = grants.read(self.tx.sql.candidates.FROM_READY, (queue, most))
            grants.read_graphs(found)
            unfit = [job for job in found if not grants.offer(job)]
            if not unfit:
                break
            grants.write()
            grants.turn_away(unfit)
            if grants.more:
                break
        return before - grants.left

    # -- jobs that run alone

    def _solo(self) -> bool | None:
        """A job that runs alone, if this worker is the one for it: granted when it is empty (False), else drained for
        (True). None when there is no such job."""
        tx, grants = self.tx, self.grants
        grants.write()
        busy = tx.value(tx.sql.claim.BUSY, (self.worker,))
        # A worker that drains asks for nothing, and must not lose its reservation by that.
        queues = [queue for queue, cap in self.queues if cap > 0] if grants.total > 0 else self.skills.queues
        for job in self._first_solos(queues):
            if not grants.is_declared(job) or grants.is_expired(job) or not self._may_start(job):
                continue
            if not busy or not self._reserved_elsewhere(job.n):
                self.reserved = job.n
                if not busy and grants.total > 0:
                    self.gating.charge(job, self.gating.terms_of(job))
                    grants.grant(job)
                    self.gating.write()
                    self.reserved = 0
                return True if busy else False if grants.total > 0 else None
        return None

    def _first_solos(self, queues: Sequence[str]) -> list[Candidate]:
        """Of each queue the first job that runs alone, in the order of the queues. Stopped graphs' jobs end here."""
        firsts: dict[str, Candidate] = {}
        asked = list(dict.fromkeys(queues))
        while asked:
            found = self.grants.read(self.tx.sql.candidates.FIRST_SOLO, (ids_json(asked),))
            self.grants.read_graphs(found)
            firsts |= {job.queue: job for job in found}
            stopped = [job for job in found if self.grants.is_stopped(job)]
            if stopped:
                self.grants.turn_away(stopped)
            asked = [job.queue for job in stopped]
            for queue in asked:
                del firsts[queue]
        return [firsts[queue] for queue in dict.fromkeys(queues) if queue in firsts]

    def _may_start(self, job: Candidate) -> bool:
        """Whether the gates of a job that runs alone are open; otherwise it goes back into its lane, which waits."""
        terms = self.gating.terms_of(job)
        if self.gating.is_shut(job.queue, units_of(terms)):
            return False
        if self.gating.closed(job, terms) is None:
            return True
        put_into(self.tx, [(job.n, job.queue, lane_name(job, gated=True))])
        self.grants.opened += refresh(self.tx)
        return False

    def _reserved_elsewhere(self, n: int) -> bool:
        return self.tx.one(self.tx.sql.claim.RESERVED, (n, self.worker, self.tx.now)) is not None
