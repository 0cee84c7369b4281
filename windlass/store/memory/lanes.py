"""Lanes: the ready jobs of one queue that share a key, a number series or a limited task, and whose turn it is.

A lane with ready jobs is in one of four places: *listed*, where its turn will come; at a gate that is closed to its
head; held, in a strict lane, by a job that is under way; or behind a missing number. ``look`` finds the place, and is
called by whatever may change it. So nothing is ever scanned, and no lane is forgotten at a gate that has opened.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from windlass.core import lifecycle
from windlass.core.job import DEFAULT_PRIORITY, State
from windlass.core.terms import is_strict, lane_of
from windlass.store.memory import gates
from windlass.store.memory.gates import PLENTY, Gate
from windlass.store.memory.records import IN_LANE, NOT_HELD, SOLO, Row
from windlass.store.shared import REMEMBERED

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

STEP = 1_000
"""So many lanes are looked at in one step, when a gate opens to all."""

BAND, SHIFT = 1 << 100, 50
"""Ranks of one priority are a band. In it come plain jobs by number, then those that age by time and number."""


class Lane:
    """One lane. ``turn``: the smaller, the sooner. ``entry``: where it is in the order of turns, while ``listed``.

    ``gate``: where it waits. ``opened_by``: the gate that let it be looked at again; if the lane makes no use of that,
    the next one must. ``holder``: the job that has a strict lane. ``expects``: the next number of a numbered lane,
    ``stands``: the head behind a missing one, and ``opens``: how long it is waited for.
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
        """The first in its order. Entries are not removed when a job leaves, only outlived."""
        while self.heap:
            rank, row = self.heap[0]
            if row.lane is self and row.rank == rank:
                return row
            heapq.heappop(self.heap)
        return None

    def head(self) -> Row | None:
        """The one job it would give. Who has a strict lane comes first, and while he is not ready there is none."""
        if self.holder is None:
            return self.first()
        return self.holder if self.holder.lane is self else None

    def rows(self) -> list[Row]:
        """All its ready jobs in order."""
        return list(dict.fromkeys(row for rank, row in sorted(self.heap) if row.lane is self and row.rank == rank))


class QueueLanes:
    """The lanes of one queue, those listed in the order of their turns.

    ``plain``: the turn the plain order took last among them; before all others at first.
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
        """The lane whose turn it is, if it comes before the plain order, whose head has this rank."""
        lane = self.next()
        if lane is None or lane.entry is None or rank is None:
            return lane
        return lane if lane.entry < (rank // BAND, self.plain) else None


# -- coming in


def rank_of(hub: Hub, row: Row) -> int:
    """A new place in ready order; no two are the same. Of a strict lane neither priority nor ageing counts."""
    hub.ranks += 1
    terms = row.terms
    if terms is None or not (terms.seq or terms.ageing or (terms.key and terms.ordered)):
        return (9 - row.priority) * BAND + hub.ranks
    number = terms.seq
    if not number and not (terms.key and terms.ordered):
        number = max(0, hub.clock.last + (DEFAULT_PRIORITY - row.priority) * terms.ageing)
    return (9 - DEFAULT_PRIORITY) * BAND + (number << SHIFT) + hub.ranks


def name_of(hub: Hub, row: Row) -> str:
    """The lane a ready job belongs to, empty for the plain order."""
    return lane_of(row.terms, row.task, gates.is_gated(hub, row.task, hub.clock.last))


def strict_name(row: Row) -> str:
    """A job's lane if that is a strict one; no gate makes or unmakes those."""
    name = lane_of(row.terms, row.task, False) if row.terms is not None else ""
    return name if is_strict(name) else ""


def enter(hub: Hub, row: Row) -> None:
    """A job became ready: it must run alone, has a lane, or joins the plain order."""
    name = name_of(hub, row)
    if lifecycle.runs_alone(row.crashes, row.max_crashes) and not must_wait_in_line(hub, row, name):
        keep_alone(hub, row)
    elif name:
        join(hub, row, name)
    else:
        hub.push_ready(row)


def must_wait_in_line(hub: Hub, row: Row, name: str) -> bool:
    """A job of a strict lane leaves the line, to run alone, only when it has the lane."""
    order = hub.orders.get(row.queue)
    lane = order.lanes.get(name) if order is not None else None
    return is_strict(name) and (lane is None or lane.holder is not row)


def keep_alone(hub: Hub, row: Row) -> None:
    row.hold = SOLO
    heapq.heappush(hub.solo[row.queue], (row.rank, row))
    hub.fresh[row.queue] += 1


def find(hub: Hub, queue: str, name: str) -> Lane:
    order = hub.orders.get(queue)
    if order is None:
        order = hub.orders[queue] = QueueLanes()
    lane = order.lanes.get(name)
    if lane is None:
        lane = order.lanes[name] = Lane(queue, name)
    return lane


def join(hub: Hub, row: Row, name: str) -> None:
    """Into its lane, by rank. A lane that gets its first job goes behind all others."""
    lane = find(hub, row.queue, name)
    if lane.first() is None:
        lane.turn = hub.next_turn()
        if lane.holder is None and lane.ended_at and lane.ended_at + REMEMBERED <= hub.clock.last:
            lane.expects = 1
    row.hold, row.lane = IN_LANE, lane
    lane.size += 1
    heapq.heappush(lane.heap, (row.rank, row))
    was_listed = lane.listed
    if lane.head() is row:
        look(hub, lane)
    if was_listed and lane.listed and lane.size <= may_give(hub, lane):
        hub.fresh[row.queue] += 1


def may_give(hub: Hub, lane: Lane) -> int:
    """How many jobs a lane may give at once."""
    head = lane.head()
    if head is None or lane.strict:
        return 1
    return min(lane.size, gates.room(hub, head, hub.clock.last))


# -- finding its place


def look(hub: Hub, lane: Lane) -> bool:
    """Find a lane's place anew; whether its turn may come."""
    now, was_listed, was_at = hub.clock.last, lane.listed, lane.gate
    lane.clear()
    while (head := lane.head()) is not None and not waits_for_number(hub, lane, head, now):
        shut = gates.closed(hub, head, now)
        if shut is not None:
            wait_at(hub, lane, *shut, again=was_at is shut[0])
            break
        if not lifecycle.runs_alone(head.crashes, head.max_crashes):
            enlist(hub, lane, head)
            break
        pull(lane, head)
        keep_alone(hub, head)
    pass_on(hub, lane, was_at)
    if lane.listed:
        if not was_listed:
            hub.fresh[lane.queue] += may_give(hub, lane)
        return True
    by, lane.opened_by = lane.opened_by, None
    if head is None:
        lane.stands, lane.opens = None, 0
        forget(hub, lane)
    pass_on(hub, lane, by)
    return False


def pass_on(hub: Hub, lane: Lane, gate: Gate | None) -> None:
    """A lane made no use of a gate that was opened to it, or waits there no longer: it is the next one's turn."""
    if gate is not None and lane.gate is not gate:
        try_open(hub, gate, 0)


def enlist(hub: Hub, lane: Lane, head: Row) -> None:
    """Among the lanes whose turn may come, by the priority of its head."""
    lane.listed = True
    entry = (head.rank // BAND, lane.turn)
    if lane.entry != entry:
        lane.entry = entry
        heapq.heappush(hub.orders[lane.queue].turns, (*entry, lane))


def wait_at(hub: Hub, lane: Lane, gate: Gate, opens: int, again: bool) -> None:
    lane.gate = gate
    if not again:
        heapq.heappush(gate.waiting.setdefault(lane.queue, []), (lane.turn, lane))
    if opens > 0:
        hub.schedule(gate, opens)


def waits_for_number(hub: Hub, lane: Lane, head: Row, now: int) -> bool:
    """Whether a number before the head's is missing; it is waited for since the head stands here and nobody runs."""
    seq = head.terms.seq if head.terms is not None else 0
    if seq > lane.expects and lane.holder is not head:
        assert head.terms is not None
        if lane.stands is not head:
            lane.stands, lane.opens = head, 0
            hub.schedule(lane, now + max(head.terms.gap, 0))
        if lane.opens > now:
            return True
        lane.expects = seq
    lane.stands, lane.opens = None, 0
    return False


def forget(hub: Hub, lane: Lane) -> None:
    """An empty lane goes, unless someone has it or it knows a number."""
    if lane.holder is not None or lane.first() is not None:
        return
    until = lane.ended_at + REMEMBERED
    if lane.expects > 1 and until > hub.clock.last:
        if not lane.fading:
            lane.fading = True
            hub.fade(until, lambda now: fade(hub, lane))
        return
    order = hub.orders.get(lane.queue)
    if order is not None and order.lanes.get(lane.name) is lane:
        del order.lanes[lane.name]
        if not order.lanes:
            del hub.orders[lane.queue]


def fade(hub: Hub, lane: Lane) -> None:
    lane.fading = False
    forget(hub, lane)


# -- going out


def take(hub: Hub, lane: Lane, row: Row, granted: bool) -> None:
    """A lane gives its head, which then has it if it is strict, and goes behind all others."""
    if granted:
        lane.opened_by = None
    pull(lane, row)
    lane.turn = hub.next_turn()
    look(hub, lane)


def pull(lane: Lane, row: Row) -> None:
    """The head goes out of the line, and has the lane if that is strict."""
    if lane.heap and lane.heap[0][1] is row:
        heapq.heappop(lane.heap)
    row.lane, row.hold = None, NOT_HELD
    lane.size -= 1
    if lane.strict:
        lane.holder = row


def charge(hub: Hub, row: Row) -> None:
    """A job starts. What its gates let through after it is for those who wait there, now or later."""
    for gate in gates.charge(hub, row, hub.clock.last):
        if gate.has_lanes():
            try_open(hub, gate, 0)


def changed(hub: Hub, row: Row, was: State) -> None:
    """A job came into another state: it leaves the gates it was charged at, or the line it stood in."""
    if was is State.RUNNING:
        for gate in gates.discharge(hub, row):
            if gate.key or gate.limits.limit:
                try_open(hub, gate, gates.units_of(row))
    leave(hub, row)


def leave(hub: Hub, row: Row) -> None:
    """A ready job leaves its line without being taken."""
    lane = row.lane
    if lane is not None:
        row.lane, row.hold = None, NOT_HELD
        lane.size -= 1
        look(hub, lane)


def let_go(hub: Hub, row: Row) -> None:
    """A job is over, or gone from its queue: its strict lane is free, and its number is no longer waited for."""
    leave(hub, row)
    name = strict_name(row)
    order = hub.orders.get(row.queue)
    lane = order.lanes.get(name) if order is not None else None
    seq = row.terms.seq if row.terms is not None else 0
    if not name or (lane is None and not seq):
        return
    lane = lane or find(hub, row.queue, name)
    if lane.holder is row:
        lane.holder = None
    if seq:
        lane.expects = max(lane.expects, seq + 1)
    lane.ended_at = hub.clock.last
    look(hub, lane)


# -- gates that open


def try_open(hub: Hub, gate: Gate, jobs: int = PLENTY) -> None:
    """A gate may let something through again: as many of those who wait are looked at as there are units to be had.

    ``jobs``: so many more of a queue may start now that this is its gate.
    """
    now = hub.clock.last
    units = PLENTY if gate.key else gate.spare(gate.limits.limit, gate.limits.rate, now)
    if not units:
        opens = gate.opens_to(1, now)
        if opens > 0:
            hub.schedule(gate, opens)
        return
    if gate.queue and not gate.key and gates.has_ready(hub, gate.queue):
        hub.fresh[gate.queue] += min(units, jobs, hub.counts[gate.queue][State.READY])
    if gate.waiting and not open_gate(hub, gate, units):
        hub.schedule(gate, now)  # the rest in the next step, at once
    if gate.key:
        gates.forget(hub, gate, now)


def open_gate(hub: Hub, gate: Gate, count: int) -> bool:
    """Look again at so many lanes of each queue, for who works on one queue may know nothing of the others.

    False: there are more of them than one step looks at.
    """
    looks = STEP
    for queue in list(gate.waiting):
        left, entries = count, gate.waiting[queue]
        while left > 0 and entries:
            _, lane = heapq.heappop(entries)
            if lane.gate is not gate:
                continue
            lane.gate, looks = None, looks - 1
            if look(hub, lane):
                lane.opened_by, left = gate, left - 1
            elif waits_at(lane, gate):
                break  # closed to this one, whose turn it is
            if looks <= 0:
                return not gate.has_lanes()
        if not entries:
            gate.waiting.pop(queue, None)
    return True


def waits_at(lane: Lane, gate: Gate) -> bool:
    return lane.gate is gate


def open_due(hub: Hub, now: int, limit: int) -> None:
    """What time opens: gates, and lanes that waited long enough for a number."""
    due: list[Gate | Lane] = []
    while (what := next_opening(hub)) is not None and what.opens <= now and len(due) < limit:
        heapq.heappop(hub.openings)
        what.opens = 0
        due.append(what)
    for what in due:  # what one leaves for the next step is due at once, and not in this one
        if isinstance(what, Lane):
            look(hub, what)
        else:
            try_open(hub, what)


def next_opening(hub: Hub) -> Gate | Lane | None:
    """What time opens next; entries are outlived, not removed."""
    while hub.openings:
        when, _, what = hub.openings[0]
        if what.opens == when:
            if isinstance(what, Lane) or what.has_lanes() or (not what.key and gates.has_ready(hub, what.queue)):
                return what
            what.opens = 0
        heapq.heappop(hub.openings)
    return None
