"""Queues with lanes or gates in one claim: they are read together, give jobs in the order they are wanted in, and what
became of their lanes is written together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.terms import is_strict
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.codes import LANE
from windlass.store.machine.flow.candidates import Candidate
from windlass.store.machine.flow.gating import Gating
from windlass.store.machine.flow.grants import Grants
from windlass.store.machine.flow.lanes import put_into, refresh
from windlass.store.machine.flow.turns import Contender, Left, Turns
from windlass.store.machine.jobs.asides import Group
from windlass.store.machine.tx import encode, ids_json

Wanted = list[tuple[str, int]]
"""Queues in order, each with how many jobs of it are wanted."""

FIRST = 2
"""So many queues are looked at before the others."""

_contenders = msgspec.json.Decoder(list[Contender]).decode


class Found(NamedTuple):
    """What a queue has, before its jobs are read. ``plain`` and ``laned``: so many jobs, as far as they were counted.

    ``most``: so many it is to give. ``turn``: what the plain order had last. ``edge``: more lanes are behind this.
    """

    turns: Turns
    most: int
    turn: int
    plain: int
    laned: int
    lanes: list[Contender]
    edge: tuple[int, int] | None

    def may_give(self) -> int:
        strict = sum(lane.strict for lane in self.lanes)
        return min(self.most, self.plain + strict + (self.laned if strict < len(self.lanes) else 0))

    def depth(self) -> int:
        """So many jobs of each lane that is not strict are enough to give what is wanted, if all give alike."""
        if self.edge:
            return 1
        strict = sum(lane.strict for lane in self.lanes)
        share = -(-max(self.most - strict, 0) // max(1, len(self.lanes) - strict + bool(self.plain)))
        return min(self.most, self.turns.deep * share) + 1


class Rounds:
    """The rounds of one claim: each reads of some queues, takes of them, and writes."""

    def __init__(self, grants: Grants, gating: Gating, aside: Iterable[Group]) -> None:
        self.grants, self.gating, self.tx = grants, gating, grants.tx
        self._aside = defaultdict[str, list[Group]](list)
        """By queue, what others set aside and this worker declares."""
        for group in aside:
            self._aside[group.queue].append(group)
        self._turns: dict[str, Turns] = {}
        self._found: dict[str, Found] = {}
        """Queues whose lanes were read, and their jobs not yet."""
        self._single = True
        """Only one queue is wanted."""
        self._reach = 1
        """So many times what is wanted is read at once, if several queues seem to have it."""

    def take(self, wanted: Wanted) -> None:
        """Grant of each queue, in order, as much as is wanted and there is; take that off ``wanted``."""
        grants, place = self.grants, 0
        self._single = len({queue for queue, cap in wanted if cap > 0}) == 1
        while place < len(wanted) and not (grants.more or grants.alone):
            queue, cap = wanted[place]
            turns, most = self._of(queue), min(cap, grants.left)
            if most <= 0 or turns.is_over or not turns.has_room():
                place += 1
                continue
            if not (turns.is_read or self._read_on(wanted[place:])):
                return
            before = grants.left
            left = turns.give(most)
            given = before - grants.left
            wanted[place] = (queue, cap - given)
            if left is Left.UNREAD:
                turns.is_read = False
                # Many lanes came to wait: more of them are read at once.
                turns.deep *= 2
                turns.wide = most - given if given else min(2 * (turns.wide or most), MAX_BATCH)
            else:
                turns.is_over = left is Left.NOTHING
                place += 1
        self._write()

    def _of(self, queue: str) -> Turns:
        if queue not in self._turns:
            self._turns[queue] = Turns(self.grants, self.gating, queue)
        return self._turns[queue]

    # -- reading

    def _read_on(self, wanted: Wanted) -> bool:
        """Read the first of these queues, and those behind it as far as it does not seem to have enough.

        False: the claim has done as much as one may.
        """
        if wanted[0][0] not in self._found:
            self._write()
            if self.grants.more:
                return False
        most: dict[str, int] = {}
        for queue, cap in wanted:
            turns = self._of(queue)
            if cap > 0 and not (turns.is_read or turns.is_over) and (not most or self.gating.is_open(queue)):
                most[queue] = min(most.get(queue, 0) + cap, self.grants.left)
        chosen: list[Found] = []
        enough, self._reach = self._reach * self.grants.left, 4 * self._reach
        queues = list(most)
        for i, queue in enumerate(queues):
            if queue not in self._found:
                # Often the first queues have enough; all others are looked at in one go.
                some = queues[i:] if i else queues[:FIRST]
                self._read_lanes([one for one in some if one not in self._found], most)
            chosen.append(self._found.pop(queue)._replace(most=most[queue]))
            enough -= chosen[-1].may_give()
            if enough <= 0:
                break
        self._start(chosen)
        return True

    def _read_lanes(self, queues: list[str], most: dict[str, int]) -> None:
        """The open lanes of these queues that come first, and how many jobs there may be."""
        gated = self.tx.book.gated if self.tx.gates else frozenset[str]()
        wide = max(self._of(queue).wide or most[queue] for queue in queues)
        # Where there is only one queue nothing is to be planned.
        values = (ids_json(queues), wide if self.grants.now else 0, 1 if self._single else self.grants.left)
        while True:
            rows = self.tx.all(self.tx.sql.turns.LANES, values)
            strays = [queues[i] for i, _, task, *_ in rows if task in gated]
            if not strays:
                break
            # Jobs that came into the plain order before their tasks were gated go into the lanes of these.
            jobs = self.tx.all(self.tx.sql.turns.PLAIN, (ids_json(strays), MAX_BATCH))
            put_into(self.tx, [(n, queue, f"t{task}") for n, queue, task in jobs if task in gated])
            self.grants.opened += refresh(self.tx)
        for i, turn, _, plain, laned, text in rows:
            lanes, queue = _contenders(text), queues[i]
            for lane in lanes:
                lane.strict = is_strict(lane.name)
            edge = (lanes[-1].band, lanes[-1].turn) if len(lanes) == wide else None
            self._found[queue] = Found(self._of(queue), most[queue], turn, plain, laned, lanes, edge)

    def _start(self, chosen: Sequence[Found]) -> None:
        """Read the first jobs of these queues' lanes and plain orders, and begin with them."""
        alike = defaultdict[int, list[Found]](list)
        for found in chosen:
            if found.lanes:
                alike[found.depth().bit_length() // 2].append(found)
        depths = {max(found.depth() for found in some): some for some in alike.values()}
        # Plain jobs are often more than those of any lane.
        times = 1 if self._single else 4
        plain = max(min(found.most, times * found.depth()) if found.lanes else found.most for found in chosen)
        others = [found.turns.queue for found in chosen if found.plain]
        jobs = list[Candidate]()
        for depth in depths or (0,):
            jobs += self._read_first(depths.get(depth, ()), depth, others, plain)
            others = []
        self.gating.read_keys(job for job in jobs if job.hold == LANE)
        orders = self._plain(chosen, [job for job in jobs if job.hold != LANE], plain)
        self.grants.read_graphs([*jobs, *(job for one in orders.values() for job in one.jobs if job.hold)])
        for found in chosen:
            one = orders.get(found.turns.queue)
            found.turns.start([*found.lanes, one] if one is not None else found.lanes, found.edge)

    def _read_first(self, some: Sequence[Found], depth: int, queues: list[str], plain: int) -> list[Candidate]:
        """So many jobs of each lane, which come into the lanes, and so many plain ones of other queues."""
        lanes = [(found.turns.queue, lane) for found in some for lane in found.lanes]
        strict = [(queue, lane.name, lane.holder) for queue, lane in lanes if lane.strict]
        others = [(queue, lane.name) for queue, lane in lanes if not lane.strict]
        if len(queues) == 1 and not lanes:
            jobs = self.grants.read(self.tx.sql.candidates.FROM_PLAIN, (*queues, plain))
        elif lanes or queues:
            values = (encode(strict).decode(), encode(others).decode(), depth, ids_json(queues), plain)
            jobs = self.grants.read(self.tx.sql.candidates.FROM_QUEUES, values)
        else:
            return []
        heads = defaultdict[tuple[str, str], list[Candidate]](list)
        for job in jobs:
            if job.hold == LANE:
                heads[job.queue, job.lane or f"t{job.task}"].append(job)
        for found in some:
            for lane in found.lanes:
                first = heads.get((found.turns.queue, lane.name), [])
                first.sort(key=lambda job: (job.number, job.place))
                lane.put(first, 1 if lane.strict else depth)
        return jobs

    def _plain(self, chosen: Sequence[Found], jobs: list[Candidate], depth: int) -> dict[str, Contender]:
        """By queue, its plain order: with these jobs, and with those set aside that this worker declares."""
        aside = [group for found in chosen for group in self._aside.get(found.turns.queue, ())]
        if aside:
            jobs = jobs + self.grants.read(self.tx.sql.candidates.FROM_ASIDE, (encode(aside).decode(), depth))
        of_queues = defaultdict[str, list[Candidate]](list)
        for job in sorted(jobs, key=lambda job: job.place):
            of_queues[job.queue].append(job)
        orders = {}
        for found in chosen:
            first = of_queues[found.turns.queue][:depth]
            if first:
                one = orders[found.turns.queue] = Contender("", first[0].place >> 56, found.turn)
                one.put(first, depth)
        return orders

    # -- writing

    def _write(self) -> None:
        """Write what was granted since, what became of lanes, and what goes elsewhere."""
        tx, grants, all_turns = self.tx, self.grants, list(self._turns.values())
        unfit = [job for turns in all_turns for job in turns.unfit]
        if unfit:
            grants.write()
            grants.turn_away(unfit)
            grants.passed = True
        solo = [n for turns in all_turns for n in turns.solo]
        if solo:
            tx.run(tx.sql.lanes.SET_SOLO, (ids_json(solo),))
        rows = [row for turns in all_turns for row in turns.rows.values()]
        plain = {turns.queue: turns.plain_turn for turns in all_turns if turns.plain_turn}
        if grants.unwritten or rows or plain:
            grants.write_turns(rows, plain)
        back = [job for turns in all_turns for job in turns.back]
        if back:
            put_into(tx, back)
        grants.opened += refresh(tx)
        grants.more = grants.more or grants.turned_away >= MAX_BATCH
        for turns in all_turns:
            turns.clear()
