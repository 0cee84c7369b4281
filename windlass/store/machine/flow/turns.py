"""Whose turn it is: claiming from a queue whose jobs are in lanes, or that has a gate.

Lanes are read in batches, with the first jobs of each; whose turn it is, is decided here on a heap, and what became of
the lanes is written back in one step. A lane that must wait is no longer looked at.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.lifecycle import runs_alone
from windlass.core.limits import arrive, fits
from windlass.core.terms import Terms, is_strict, queue_gate
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.codes import MIDDLE
from windlass.store.machine.flow.book import NOT_BY_TIME, OPEN, opening, rate_of
from windlass.store.machine.flow.candidates import CANDIDATE, Candidate
from windlass.store.machine.flow.lanes import HELD, SET_SOLO, WAITS, is_limited, put_into, refresh
from windlass.store.machine.flow.lanes import OPEN as IS_OPEN
from windlass.store.machine.jobs.asides import Group
from windlass.store.machine.tx import encode, ids_json

if TYPE_CHECKING:
    from windlass.store.machine.flow.claim import Claiming

LANES = (
    "SELECT (SELECT turn FROM turns WHERE queue = ?1), "
    "(SELECT task FROM jobs WHERE state = 2 AND queue = ?1 AND hold = 0 ORDER BY place LIMIT 1), "
    "json_group_array(json_array(name, band, turn, holder, expected)) FROM (SELECT * FROM lanes "
    "WHERE queue = ?1 AND state = 0 ORDER BY band, turn LIMIT ?2)"
)
HEADS = (
    f"SELECT json_group_array({CANDIDATE.format('j.')}) FROM jsonb_each(?1) AS e "
    "CROSS JOIN jobs AS j ON j.n IN (SELECT n FROM jobs "
    "WHERE state = 2 AND hold = 3 AND queue = ?2 AND coalesce(lane, 't' || task) = e.value ->> 0 "
    "AND (e.value ->> 1 = 0 OR n = e.value ->> 1) ORDER BY number, place LIMIT ?3)"
)
KEYS = (
    "SELECT json_group_array(json_array(value, (SELECT coalesce(sum(coalesce(terms ->> 6, 1)), 0) FROM jobs "
    "WHERE state = 3 AND queue = ?2 AND lane IS NOT NULL AND lane IN ('k' || value, 'o' || value, 's' || value)), "
    "coalesce((SELECT tat FROM keys WHERE queue = ?2 AND key = value), 0))) FROM json_each(?1)"
)
PLAIN = "SELECT n, task FROM jobs WHERE state = 2 AND queue = ? AND hold = 0 ORDER BY place LIMIT ?"
SAVE_KEYS = "INSERT OR REPLACE INTO keys SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)"

_terms = msgspec.json.Decoder(Terms).decode


class Lane(msgspec.Struct, array_like=True):
    """An open lane, or the plain order (without a name), with the first of its jobs."""

    name: str
    band: int
    turn: int
    holder: int = 0
    expected: int = 1
    jobs: deque[Any] = msgspec.field(default_factory=deque)
    whole: bool = False
    """All of its ready jobs were read."""

    def band_of(self, job: Candidate) -> int:
        return MIDDLE if is_strict(self.name) else job.place >> 56


_lanes = msgspec.json.Decoder(list[Lane]).decode


class KeyGate:
    """What a key holds, and its rate."""

    __slots__ = ("changed", "held", "tat")

    def __init__(self, held: int, tat: int) -> None:
        self.held, self.tat, self.changed = held, tat, False


def terms_of(job: Candidate) -> Terms | None:
    return None if job.terms is None else _terms(job.terms)


def lane_name(job: Candidate, gated: bool) -> str:
    return job.lane or (f"t{job.task}" if gated else "")


class Gating:
    """The gates of one exchange: what keeps a job, and what its grant is charged to."""

    def __init__(self, claiming: Claiming) -> None:
        self.tx = claiming.tx
        self.keys: dict[tuple[str, str], KeyGate] = {}

    def is_shut(self, queue: str, units: int = 1) -> bool:
        """Whether the queue's own gate is closed; who finds it so is remembered."""
        if not self.tx.gates or self.tx.book.opens(queue_gate(queue), units) == OPEN:
            return False
        self.tx.book.find_closed(queue, units)
        return True

    def is_gated(self, task: str) -> bool:
        return bool(self.tx.gates) and task in self.tx.book.gated

    def closed(self, job: Candidate, terms: Terms | None) -> tuple[str, int] | None:
        """The first closed gate of a job besides its queue's, and when it opens."""
        found = self.tx.book.closed_for(job.task, terms) if self.tx.gates else None
        if found is not None or terms is None or not terms.key:
            return found
        limit, rate = self._of_key(job.queue, terms)
        if not limit and rate is None:
            return None
        key = self._key(job.queue, terms.key)
        if not fits(key.held, limit, terms.units):
            return f"key:{job.queue}:{terms.key}", NOT_BY_TIME
        when = opening(self.tx.now, key.tat, rate, terms.units)
        return None if when == OPEN else (f"key:{job.queue}:{terms.key}", when)

    def charge(self, job: Candidate, terms: Terms | None) -> None:
        if self.tx.gates:
            self.tx.book.charge_all(job.queue, job.task, terms)
        if terms is not None and terms.key:
            limit, rate = self._of_key(job.queue, terms)
            if limit or rate is not None:
                key = self._key(job.queue, terms.key)
                key.held += terms.units
                if rate is not None:
                    key.tat, _ = arrive(key.tat, self.tx.now * 1000, rate, terms.units)
                    key.changed = True

    def _of_key(self, queue: str, terms: Terms) -> tuple[int, Any]:
        """The limit and the rate of a key: the queue's gate says so, or the job's terms do."""
        limit, rate = terms.key_limit, terms.key_rate
        if self.tx.gates:
            said = self.tx.book.limits(queue_gate(queue))
            limit = limit if said.key_limit is None else said.key_limit
            rate = rate if said.key_rate is None else said.key_rate
        return limit, rate_of(rate)

    def _key(self, queue: str, key: str) -> KeyGate:
        if (queue, key) not in self.keys:
            self.read_keys(queue, [key])
        return self.keys[queue, key]

    def read_keys(self, queue: str, keys: list[str]) -> None:
        missing = [key for key in dict.fromkeys(keys) if (queue, key) not in self.keys]
        if missing:
            found = msgspec.json.decode(self.tx.value(KEYS, (ids_json(missing), queue)))
            self.keys.update(((queue, key), KeyGate(held, tat)) for key, held, tat in found)

    def needs_key(self, queue: str, terms: Terms | None) -> bool:
        if terms is None or not terms.key:
            return False
        limit, rate = self._of_key(queue, terms)
        return bool(limit) or rate is not None

    def write(self) -> None:
        rows = [[*name, key.tat] for name, key in self.keys.items() if key.changed]
        if rows:
            self.tx.run(SAVE_KEYS, (encode(rows).decode(),))


class Turns:
    """One queue in one exchange."""

    def __init__(self, claiming: Claiming, queue: str, aside: list[Group]) -> None:
        self.claiming, self.tx, self.queue, self.aside = claiming, claiming.tx, queue, aside
        self.gating = claiming.gating
        self.limited = is_limited(self.tx, queue)
        self._heap: list[tuple[int, int, int, Lane]] = []
        self._edge: tuple[int, int] | None = None
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[Any]] = {}
        self._unfit: list[Candidate] = []
        self._back: list[tuple[int, str, str]] = []
        self._solo: list[int] = []
        self._plain_turn = 0

    def take(self, most: int) -> None:
        """Grant up to so many jobs, each from the lane whose turn it is."""
        going, wide = True, most
        while going and most > 0 and not self.claiming.more and not self.claiming.alone:
            before = len(self.claiming.granted)
            if self.gating.is_shut(self.queue) or (self.limited and self.claiming.now == 0):
                return
            self._read(most, wide)
            going = self._round(most)
            granted = len(self.claiming.granted) - before
            most -= granted
            wide = most if granted else min(2 * wide, MAX_BATCH)  # many lanes come to wait: read more of them at once
            self._write()

    # -- reading

    def _lanes(self, wide: int) -> tuple[int, list[Lane]]:
        """The turn the plain order last had, and the open lanes that come first."""
        gated = self.tx.book.gated if self.tx.gates else ()
        while True:
            turn, first, lanes = self.tx.one(LANES, (self.queue, wide if self.claiming.now != 0 else 0))
            if first not in gated:
                return turn or 0, _lanes(lanes)
            # Jobs that came into the plain order before their tasks were gated go into the lanes of these.
            rows = self.tx.all(PLAIN, (self.queue, MAX_BATCH))
            put_into(self.tx, [(n, self.queue, f"t{task}") for n, task in rows if task in gated])
            self.claiming.opened += refresh(self.tx)

    def _read(self, most: int, wide: int) -> None:
        """The lanes that come first, at most ``wide`` of them, with what they need to give ``most`` jobs."""
        turn, lanes = self._lanes(wide)
        self._edge = (lanes[-1].band, lanes[-1].turn) if len(lanes) == wide else None
        depth = 1 if self._edge else -(-most // (len(lanes) + 1)) + 1
        heads = self._heads(lanes, depth) if lanes else {}
        for lane in lanes:
            lane.jobs = deque(sorted(heads.get(lane.name, ()), key=lambda job: (job.number, job.place)))
            lane.whole = len(lane.jobs) < depth
        plain = Lane("", 0, turn)
        depth = min(most, depth) if lanes else most
        found = self.claiming.read_plain(self.queue, depth, self.aside)
        plain.jobs, plain.whole = deque(found), len(found) < depth
        self.claiming.read_graphs([job for lane in (*lanes, plain) for job in lane.jobs])
        if found:
            plain.band = found[0].place >> 56
            lanes.append(plain)
        self._heap = [(lane.band, lane.turn, i, lane) for i, lane in enumerate(lanes)]
        heapify(self._heap)

    def _heads(self, lanes: list[Lane], depth: int) -> dict[str, list[Candidate]]:
        names = encode([(lane.name, lane.holder) for lane in lanes]).decode()
        heads: dict[str, list[Candidate]] = {}
        keys = []
        for job in self.claiming.read(HEADS, (names, self.queue, depth)):
            heads.setdefault(job.lane or f"t{job.task}", []).append(job)
            terms = terms_of(job)
            if terms is not None and self.gating.needs_key(self.queue, terms):
                keys.append(terms.key)
        self.gating.read_keys(self.queue, keys)
        return heads

    # -- deciding

    def _round(self, most: int) -> bool:
        """Grant from what was read. True: there may be more to read."""
        heap, enough = self._heap, len(self.claiming.granted) + most
        unread = self._edge is not None
        while heap and len(self.claiming.granted) < enough:
            lane = self._next()
            if lane is None:
                return True
            if not lane.jobs:
                heappop(heap)
                unread = unread or not lane.whole
                self._keep(lane)
            elif not self._look(lane, lane.jobs[0]):
                return False
            elif self.claiming.now == 0:
                if self.limited:
                    return False
                self._only_plain()
        return unread or bool(self._back or self._unfit)

    def _next(self) -> Lane | None:
        """The lane whose turn it is; None if what is to come has to be read first."""
        while True:
            band, turn, i, lane = self._heap[0]
            beyond = self._edge is not None and (band, turn) > self._edge
            # What goes back into a lane may be its head.
            if beyond or self.claiming.alone or (self._back and lane.name) or not (lane.jobs or lane.whole):
                return None
            if not lane.jobs or lane.band_of(lane.jobs[0]) == band:
                return lane
            heapreplace(self._heap, (lane.band_of(lane.jobs[0]), turn, i, lane))

    def _only_plain(self) -> None:
        """No more from lanes: more could not start at once."""
        self._heap[:] = [entry for entry in self._heap if not entry[3].name]
        self._edge = None

    def _look(self, lane: Lane, job: Candidate) -> bool:
        """The lane whose turn it is gives its head, or nothing. False: nothing more of this queue."""
        claiming, terms = self.claiming, terms_of(job)
        units = 1 if terms is None else terms.units
        fit = claiming.fits(job)
        closed = self.gating.closed(job, terms) if fit else None
        # A lane that must wait anyway does not keep the others, however much its head weighs.
        if fit and closed is None and self.gating.is_shut(self.queue, units):
            return False
        lane.jobs.popleft()
        if not fit:
            self._unfit.append(job)
            strange = not claiming.is_over(job) and not claiming.is_stopped(job)
            self._pass(lane, job.n if strange else 0)
        elif not lane.name and job.hold == 0 and self.gating.is_gated(job.task):
            self._back.append((job.n, self.queue, f"t{job.task}"))
        elif closed is not None:
            self._wait(lane, job, closed, units)
        elif lane.name and runs_alone(job.crashes, job.max_crashes):
            self._solo.append(job.n)
            self._pass(lane, job.n)
            claiming.alone = True
        else:
            self._grant(lane, job, terms)
        return True

    def _wait(self, lane: Lane, job: Candidate, closed: tuple[str, int], units: int) -> None:
        """The head is kept by a gate. What was set aside goes back into its lane, which then does so too."""
        self.claiming.turned_away += 1
        if not lane.name:
            self._back.append((job.n, self.queue, lane_name(job, gated=True)))
            self._pass(lane, 0)
            return
        self.claiming.passed = True
        heappop(self._heap)
        gate, when = closed
        opens = when if gate.startswith("key:") and when != NOT_BY_TIME else 0
        self._rows[lane.name] = self._row(lane, WAITS, gate, units, opens, lane.holder)

    def _pass(self, lane: Lane, holder: int) -> None:
        """The head went without being granted; a strict lane may be its own all the same."""
        if not is_strict(lane.name):
            self._keep(lane)
            return
        heappop(self._heap)
        if holder:
            self._rows[lane.name] = self._row(lane, HELD, None, 1, 0, holder)

    def _grant(self, lane: Lane, job: Candidate, terms: Terms | None) -> None:
        claiming = self.claiming
        self.gating.charge(job, terms)
        claiming.grant(job)
        if claiming.now > 0 and (lane.name or self.limited or job.lane):
            claiming.now -= 1
        heappop(self._heap)
        lane.turn = self.tx.take_ranks(1)
        if is_strict(lane.name):
            self._rows[lane.name] = self._row(lane, HELD, None, 1, 0, job.n)
            return
        self._keep(lane)
        if not lane.name:
            self._plain_turn = lane.turn
        band = lane.band_of(lane.jobs[0]) if lane.jobs else lane.band_of(job)
        heappush(self._heap, (band, lane.turn, -1, lane))

    def _keep(self, lane: Lane) -> None:
        if lane.name:
            self._rows[lane.name] = self._row(lane, IS_OPEN, None, 1, 0, lane.holder)

    def _row(self, lane: Lane, state: int, gate: str | None, units: int, opens: int, holder: int) -> list[Any]:
        return [self.queue, lane.name, state, lane.turn, gate, units, opens, holder, lane.expected, 0, 0, 0]

    # -- writing

    def _write(self) -> None:
        tx, claiming = self.tx, self.claiming
        if self._unfit:
            claiming.write()
            claiming.turn_away(self.queue, self._unfit)
            claiming.passed = True
        if self._solo:
            tx.run(SET_SOLO, (ids_json(self._solo),))
        if claiming.taken or self._rows or self._plain_turn:
            claiming.write_turns(encode(list(self._rows.values())).decode(), self.queue, self._plain_turn)
        if self._back:
            put_into(tx, self._back)
        claiming.opened += refresh(tx)
        claiming.more = claiming.more or claiming.turned_away >= MAX_BATCH
        self._clear()
