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
from windlass.store.memory.records import BAND, IN_LANE, NOT_HELD, PLENTY, SHIFT, SOLO, Gate, Lane, QueueLanes, Row
from windlass.store.shared import REMEMBERED

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub

STEP = 1_000
"""So many lanes are looked at in one step, when a gate opens to all."""


# -- coming in


def rank_of(hub: Hub, row: Row) -> int:
    """A new place in ready order, which no other job has. A strict lane ignores priority and ageing."""
    hub.ranks += 1
    terms = row.terms
    if terms is None or not (terms.seq or terms.ageing or (terms.key and terms.ordered)):
        return (9 - row.priority) * BAND + hub.ranks
    number = terms.seq
    if not number and not (terms.key and terms.ordered):
        number = max(0, hub.clock.last + (DEFAULT_PRIORITY - row.priority) * terms.ageing)
    return (9 - DEFAULT_PRIORITY) * BAND + (number << SHIFT) + hub.ranks


def name_of(hub: Hub, row: Row) -> str:
    """The lane a ready job belongs to; empty for the plain order."""
    return lane_of(row.terms, row.task, gates.is_gated(hub, row.task, hub.clock.last))


def strict_name(row: Row) -> str:
    """The name of the job's lane if that lane is strict. Gates neither make nor unmake strict lanes."""
    name = lane_of(row.terms, row.task, False) if row.terms is not None else ""
    return name if is_strict(name) else ""


def enter(hub: Hub, row: Row) -> None:
    """Put a job that became ready where it belongs: among the solo jobs, into its lane, or into the plain order."""
    name = name_of(hub, row)
    if lifecycle.runs_alone(row.crashes, row.max_crashes) and not must_wait_in_line(hub, row, name):
        keep_alone(hub, row)
    elif name:
        join(hub, row, name)
    else:
        hub.push_ready(row)


def must_wait_in_line(hub: Hub, row: Row, name: str) -> bool:
    """Whether a job that must run alone has to stay in its strict lane, because another job has the lane."""
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
    """Put a job into its lane, by rank. A lane that gets its first job goes behind all others."""
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
    """Find the lane's place anew. Answers whether its turn may come."""
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
    """Give the opening of a gate to the next lane there: this one made no use of it, or waits there no longer."""
    if gate is not None and lane.gate is not gate:
        try_open(hub, gate, 0)


def enlist(hub: Hub, lane: Lane, head: Row) -> None:
    """List a lane among those whose turn may come, by the priority of its head."""
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
    """Whether a number before the head's is missing. The wait begins when the head stands here and no job of the lane
    runs.
    """
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
    """Drop an empty lane, unless a job has it or it remembers which number comes next."""
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
    """Take the lane's head, which then has the lane if it is strict; the lane goes behind all others."""
    if granted:
        lane.opened_by = None
    pull(lane, row)
    lane.turn = hub.next_turn()
    look(hub, lane)


def pull(lane: Lane, row: Row) -> None:
    """Take the head out of the line; in a strict lane it then has the lane."""
    if lane.heap and lane.heap[0][1] is row:
        heapq.heappop(lane.heap)
    row.lane, row.hold = None, NOT_HELD
    lane.size -= 1
    if lane.strict:
        lane.holder = row


def charge(hub: Hub, row: Row) -> None:
    """Charge a job that starts. What its gates still let through is offered to the lanes that wait there, now
    or later.
    """
    for gate in gates.charge(hub, row, hub.clock.last):
        if gate.has_lanes():
            try_open(hub, gate, 0)


def changed(hub: Hub, row: Row, was: State) -> None:
    """A job has changed its state: it leaves the gates where it was charged, or the line it stood in."""
    if was is State.RUNNING:
        for gate in gates.discharge(hub, row):
            if gate.key or gate.limits.limit:
                try_open(hub, gate, gates.units_of(row))
    leave(hub, row)


def leave(hub: Hub, row: Row) -> None:
    """Take a ready job out of its line, although no worker takes it."""
    lane = row.lane
    if lane is not None:
        row.lane, row.hold = None, NOT_HELD
        lane.size -= 1
        look(hub, lane)


def let_go(hub: Hub, row: Row) -> None:
    """A job is over or has left its queue: its strict lane is free, and its number is no longer waited for."""
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
    """Look at lanes that wait at a gate, as many as there are units to be had there.

    ``jobs``: for a queue's own gate, how many more jobs may start.
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
        hub.schedule(gate, now)  # the next step, which comes at once, does the rest
    if gate.key:
        gates.forget(hub, gate, now)


def open_gate(hub: Hub, gate: Gate, count: int) -> bool:
    """Look again at up to ``count`` waiting lanes of each queue: a worker of one queue may know nothing of the others.

    False: more lanes wait than one step looks at.
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
                break  # the gate is closed to this lane, whose turn it is
            if looks <= 0:
                return not gate.has_lanes()
        if not entries:
            gate.waiting.pop(queue, None)
    return True


def waits_at(lane: Lane, gate: Gate) -> bool:
    return lane.gate is gate


def open_due(hub: Hub, now: int, limit: int) -> None:
    """Open what time opens: gates, and lanes that have waited long enough for a number."""
    due: list[Gate | Lane] = []
    while (what := next_opening(hub)) is not None and what.opens <= now and len(due) < limit:
        heapq.heappop(hub.openings)
        what.opens = 0
        due.append(what)
    for what in due:  # an opening that is put off to the next step must not come again in this one
        if isinstance(what, Lane):
            look(hub, what)
        else:
            try_open(hub, what)


def next_opening(hub: Hub) -> Gate | Lane | None:
    """The next gate or lane that time opens. The heap keeps entries that no longer hold; they are dropped here."""
    while hub.openings:
        when, _, what = hub.openings[0]
        if what.opens == when:
            if isinstance(what, Lane) or what.has_lanes() or (not what.key and gates.has_ready(hub, what.queue)):
                return what
            what.opens = 0
        heapq.heappop(hub.openings)
    return None
