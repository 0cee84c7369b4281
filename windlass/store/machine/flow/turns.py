"""Whose turn it is in one queue: its open lanes and its plain order give a job each, in turn.

What was read of them lies on a heap. A lane that must wait is no longer looked at. Nothing is read or written here.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace

import msgspec

from windlass.core.lifecycle import runs_alone
from windlass.core.limits import SHUT
from windlass.core.terms import Terms, units_of
from windlass.store.machine.codes import MIDDLE
from windlass.store.machine.flow.candidates import Candidate
from windlass.store.machine.flow.gating import Gating, lane_name
from windlass.store.machine.flow.grants import Grants
from windlass.store.machine.flow.lanes import LaneState, is_limited


class Contender(msgspec.Struct, array_like=True):
    """Whose turn it may be: an open lane, or the plain order (without a name), with the first of its jobs.

    ``band`` and ``turn``: the smaller, the sooner. ``strict``: it gives one job and no more. ``whole``: all of its
    ready jobs were read.
    """

    name: str
    band: int
    turn: int
    holder: int = 0
    expected: int = 1
    jobs: deque[Candidate] = msgspec.field(default_factory=deque)
    strict: bool = False
    whole: bool = False

    def band_of(self, job: Candidate) -> int:
        return MIDDLE if self.strict else job.place >> 56

    def put(self, jobs: list[Candidate], depth: int) -> None:
        """Its first jobs in order, of which so many were asked for."""
        self.jobs, self.whole = deque(jobs), len(jobs) < depth


class Left(Enum):
    """What is left of a queue that was to give some jobs."""

    ENOUGH = 0
    """It gave them all."""
    UNREAD = 1
    """There may be more, which has to be read first."""
    NOTHING = 2
    """It gives no more in this claim."""


class Turns:
    """One queue in one claim, with what is to be written about it."""

    def __init__(self, grants: Grants, gating: Gating, queue: str) -> None:
        self.grants, self.gating, self.queue = grants, gating, queue
        self.limited = is_limited(grants.tx, queue)
        self.wide = 0
        """So many lanes are to be read next; 0: as many as there may be jobs."""
        self.deep = 1
        """So many times the jobs of each lane are to be read that would do if all lanes gave alike."""
        self.is_read = self.is_over = False
        """``is_read``: it may give of what was read. ``is_over``: it gives no more in this claim."""
        self._heap: list[tuple[int, int, int, Contender]] = []
        self._edge: tuple[int, int] | None = None
        self.clear()

    def clear(self) -> None:
        """What was to be written is."""
        self.rows: dict[str, list[object]] = {}
        """Lanes that had their turns, as LaneSql.WRITE takes them."""
        self.unfit: list[Candidate] = []
        self.back: list[tuple[int, str, str]] = []
        """Jobs of the plain order that go into lanes, with their queues and lanes."""
        self.solo: list[int] = []
        """First jobs of lanes that must run alone."""
        self.plain_turn = 0
        """The turn that the plain order had last; 0: it had none."""

    def has_room(self) -> bool:
        """Whether the queue's gate lets anything through, and the worker could start it."""
        return not self.gating.is_shut(self.queue) and not (self.limited and self.grants.now == 0)

    def start(self, contenders: list[Contender], edge: tuple[int, int] | None) -> None:
        """Begin with what was read. ``edge``: more lanes come behind this band and turn."""
        self._edge, self.is_read = edge, True
        self._heap = [(one.band, one.turn, i, one) for i, one in enumerate(contenders)]
        heapify(self._heap)

    def give(self, most: int) -> Left:
        """Grant up to so many jobs of what was read, each from whoever's turn it is."""
        heap, before = self._heap, len(self.grants.granted)
        if self.grants.now == 0 and not self._only_plain():
            return Left.NOTHING
        unread = self._edge is not None
        while heap and len(self.grants.granted) < before + most:
            one = self._next()
            if one is None:
                return Left.UNREAD
            if not one.jobs:
                heappop(heap)
                unread = unread or not one.whole
                self._keep(one)
            elif not self._look(one, one.jobs[0]) or (self.grants.now == 0 and not self._only_plain()):
                return Left.NOTHING
        if len(self.grants.granted) >= before + most:
            return Left.ENOUGH
        return Left.UNREAD if unread or self.back or self.unfit else Left.NOTHING

    def _next(self) -> Contender | None:
        """Whose turn it is; None if what is to come has to be read first."""
        while True:
            band, turn, i, one = self._heap[0]
            beyond = self._edge is not None and (band, turn) > self._edge
            # What goes back into a lane may be its head.
            if beyond or self.grants.alone or (self.back and one.name) or not (one.jobs or one.whole):
                return None
            if not one.jobs or one.band_of(one.jobs[0]) == band:
                return one
            heapreplace(self._heap, (one.band_of(one.jobs[0]), turn, i, one))

    def _only_plain(self) -> bool:
        """No more from lanes, for more could not start at once. False: nothing of this queue could."""
        self._heap[:] = [entry for entry in self._heap if not entry[3].name]
        self._edge = None
        return not self.limited

    def _look(self, one: Contender, job: Candidate) -> bool:
        """Who has the turn gives the first job, or nothing. False: nothing more of this queue."""
        grants, terms = self.grants, self.gating.terms_of(job)
        fit = grants.fits(job)
        closed = self.gating.closed(job, terms) if fit else None
        # A lane that must wait anyway does not keep the others, however much its head weighs.
        if fit and closed is None and self.gating.is_shut(self.queue, units_of(terms)):
            return False
        one.jobs.popleft()
        if not fit:
            self.unfit.append(job)
            strange = not grants.is_expired(job) and not grants.is_stopped(job)
            self._pass(one, job.n if strange else 0)
        elif not one.name and job.hold == 0 and self.gating.is_gated(job.task):
            self.back.append((job.n, self.queue, f"t{job.task}"))
        elif closed is not None:
            self._wait(one, job, closed, units_of(terms))
        elif one.name and runs_alone(job.crashes, job.max_crashes):
            self.solo.append(job.n)
            self._pass(one, job.n)
            grants.alone = True
        else:
            self._grant(one, job, terms)
        return True

    def _wait(self, one: Contender, job: Candidate, closed: tuple[str, int], units: int) -> None:
        """A gate keeps the first job. What was set aside goes back into its lane, which then waits for it."""
        self.grants.turned_away += 1
        if not one.name:
            self.back.append((job.n, self.queue, lane_name(job, gated=True)))
            self._pass(one, 0)
            return
        self.grants.passed = True
        heappop(self._heap)
        gate, when = closed
        opens = when if gate.startswith("key:") and when != SHUT else 0
        self._write(one, LaneState.WAITS, one.holder, gate, units, opens)

    def _pass(self, one: Contender, holder: int) -> None:
        """The first job went without being granted; a strict lane may be its own all the same."""
        if not one.strict:
            self._keep(one)
            return
        heappop(self._heap)
        if holder:
            self._write(one, LaneState.HELD, holder)

    def _grant(self, one: Contender, job: Candidate, terms: Terms | None) -> None:
        grants = self.grants
        self.gating.charge(job, terms)
        grants.grant(job)
        if grants.now > 0 and (one.name or self.limited or job.lane):
            grants.now -= 1
        heappop(self._heap)
        one.turn = grants.tx.take_ranks(1)
        if one.strict:
            self._write(one, LaneState.HELD, job.n)
            return
        self._keep(one)
        if not one.name:
            self.plain_turn = one.turn
        band = one.band_of(one.jobs[0]) if one.jobs else one.band_of(job)
        heappush(self._heap, (band, one.turn, -1, one))

    def _keep(self, one: Contender) -> None:
        if one.name:
            self._write(one, LaneState.OPEN, one.holder)

    def _write(
        self, one: Contender, state: int, holder: int, gate: str | None = None, units: int = 1, opens: int = 0
    ) -> None:
        self.rows[one.name] = [
            self.queue, one.name, state, one.turn, gate, units, opens, holder, one.expected, 0, 0, 0,
        ]  # fmt: skip
