"""Settling and claiming: the two halves of an exchange."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from windlass.core import lifecycle
from windlass.core.event import Group
from windlass.core.job import Claim, Fence, State
from windlass.core.lifecycle import Transition
from windlass.core.limits import NO_LIMITS, OPEN, bounds_claims
from windlass.store.jobs import Want
from windlass.store.memory import endings, gates, lanes, lookups, states, waking
from windlass.store.memory.graphs import adopt, can_adopt
from windlass.store.memory.hub import Heap, Hub
from windlass.store.memory.records import ASIDE, NOT_HELD, SOLO, Gate, Lane, Row, WorkerRow
from windlass.store.memory.spreading import graph_of, refuses
from windlass.store.reads import QueueInfo


def holder(worker: WorkerRow | None, id: str, fence: Fence) -> Row | None:
    """The job, if this worker still runs it under this fence; else nothing."""
    if worker is None or worker.dead:
        return None
    row = worker.running.get(id)
    if row is None or row.run != fence.run or row.epoch != fence.epoch or row.seq != fence.seq:
        return None
    return row


def settle(hub: Hub, worker: WorkerRow, moves: Sequence[Transition], now: int) -> tuple[list[str], list[Group]]:
    """Apply the transitions whose fence still holds. Answers the refused ids and the events."""
    refused: list[str] = []
    groups: dict[str, Group] = {}
    for move in moves:
        row = holder(worker, move.id, move.fence)
        if row is None or (move.adopt and not can_adopt(hub, row, move)):
            refused.append(move.id)
            continue
        del worker.running[row.id]
        event = apply(hub, row, move, now, groups)
        data = (
            {"delay": move.delay} if event in ("retried", "snoozed") else {"reason": row.reason} if row.reason else None
        )
        if event not in groups:
            groups[event] = (event, worker.presence.id, [])
        groups[event][2].append([row.id, row.task, row.queue, data] if data else [row.id, row.task, row.queue])
    return refused, list(groups.values())


def apply(hub: Hub, row: Row, move: Transition, now: int, groups: dict[str, Group]) -> str:
    """Apply one transition to its job. Answers the kind of event it was."""
    row.attempt, row.crashes, row.snoozes = move.attempt, move.crashes, move.snoozes
    if move.error is not None:
        row.error, row.fingerprint = move.error, move.fingerprint
    if move.yields_to_cancel and row.cancel:
        endings.finish(hub, row, State.CANCELLED, now, row.reason)
        return "cancelled"
    if move.to is State.SCHEDULED:
        states.make_scheduled(hub, row, now + move.delay)
    elif move.to is State.READY:
        states.make_ready(hub, row, keep_place=move.event == "released")
    elif move.to is State.WAITING:
        started = adopt(hub, row, move, now)
        groups.setdefault(started[0], (started[0], "", []))[2].extend(started[2])
    else:
        row.result = move.result
        endings.finish(
            hub, row, move.to, now, move.reason, move.keep_failed if move.to is State.FAILED else move.keep_done
        )
    return move.event


class ClaimRoom:
    """How many jobs a worker may still be granted in this exchange. ``now``: how many of those may be jobs that must
    start at once.
    """

    def __init__(self, want: Want) -> None:
        self.total = want.total
        self.now = want.total if want.now < 0 else want.now
        self.granted: list[Claim] = []
        self.drain = False

    @property
    def is_over(self) -> bool:
        return self.drain or len(self.granted) >= self.total


def claim(hub: Hub, worker: WorkerRow, seq: int, want: Want, now: int, ended: list[Row]) -> ClaimRoom:
    """Grant up to as many jobs as are wanted. Answers ``drain`` when the worker must run empty first, for a job that
    runs alone.

    ``ended`` takes the jobs that came to an end here instead: they were past their time, or in a graph that was
    stopped.
    """
    room = ClaimRoom(want)
    if len(worker.running) == 1:  # a job that runs alone has no neighbours
        (only,) = worker.running.values()
        room.drain = lifecycle.runs_alone(only.crashes, only.max_crashes)
        if room.drain:
            return room
    # A draining worker asks for no jobs, and must not lose its reservation by that.
    queues = [queue for queue, cap in want.queues if cap > 0] if want.total > 0 else worker.presence.queues
    solo = first_solo(hub, worker, queues, now, ended)
    if solo is not None:
        room.drain = bool(worker.running)
        if want.total > 0 and not room.drain:
            heapq.heappop(hub.solo[solo.queue])
            worker.reserved = ""
            room.granted.append(grant(hub, worker, solo, seq, now))
            room.total = 0
    for queue, cap in want.queues:
        if not room.is_over:
            claim_queue(Search(hub, worker, queue, seq, now, ended), room, cap)
    return room


def first_solo(hub: Hub, worker: WorkerRow, queues: list[str], now: int, ended: list[Row]) -> Row | None:
    """The solo job this worker should take: one that no other worker has reserved or, if the worker is empty, any."""
    worker.reserved = ""
    for queue in queues:
        row = solo_head(hub, queue, now, ended) if queue in hub.solo else None
        if row is None or not worker.takes(queue, row.task, row.version):
            continue
        if row.expires and row.expires <= now:
            continue
        others = (other for other in hub.workers.values() if other is not worker and not other.dead)
        if not worker.running or not any(other.reserved == row.id and other.lease_until > now for other in others):
            worker.reserved = row.id
            return row
    return None


def solo_head(hub: Hub, queue: str, now: int, ended: list[Row]) -> Row | None:
    """The first job of a queue that must run alone and could start now. A job whose lane is blocked is moved to its
    lane.
    """
    while (row := hub.head(hub.solo[queue], SOLO)) is not None:
        if refuses(row):
            endings.finish(hub, row, State.CANCELLED, now, graph_of(row).reason)
            ended.append(row)
        elif (row.terms is not None or hub.gates) and gates.closed(hub, row, now) is not None:
            heapq.heappop(hub.solo[queue])
            lanes.join(hub, row, lanes.name_of(hub, row))
        else:
            gate = gates.of_queue(hub, queue)
            return row if gate is None or gate.opens_to(gates.units_of(row), now) == OPEN else None
    return None


class Search:
    """One worker's look into one queue: the heaps the worker may take from, and what taking needs."""

    def __init__(self, hub: Hub, worker: WorkerRow, queue: str, seq: int, now: int, ended: list[Row]) -> None:
        self.hub, self.worker, self.queue, self.seq, self.now, self.ended = hub, worker, queue, seq, now, ended
        self.heaps = [(hub.ready[queue], NOT_HELD)]
        self.heaps += [(heap, ASIDE) for known, heap in hub.aside[queue].items() if worker.takes(queue, *known)]

    def first(self) -> Heap | None:
        """The heap whose head is first in ready order: the plain one, or one of jobs that were set aside for this
        worker's tasks.
        """
        best: Heap | None = None
        for heap, hold in self.heaps:
            if self.hub.head(heap, hold) is not None and (best is None or heap[0][0] < best[0][0]):
                best = heap
        return best

    def ends(self, row: Row) -> bool:
        """Whether the job was ended here instead of being granted."""
        if row.expires and row.expires <= self.now:
            endings.expire(self.hub, row, self.now)
        elif row.links is not None and refuses(row):
            endings.finish(self.hub, row, State.CANCELLED, self.now, graph_of(row).reason)
        else:
            return False
        self.ended.append(row)
        return True


def claim_queue(search: Search, room: ClaimRoom, cap: int) -> None:
    """Up to ``cap`` jobs of one queue: in ready order, or in the order of turns where the queue has lanes or gates."""
    hub, queue, worker = search.hub, search.queue, search.worker
    cap = min(cap, room.total - len(room.granted))
    flows = bool(hub.gates or hub.orders)
    while cap > 0 and (heap := search.first()) is not None:
        row = heap[0][1]
        flows = flows or row.terms is not None
        if flows:
            break
        heapq.heappop(heap)
        if search.ends(row):
            continue
        if not worker.takes(queue, row.task, row.version):
            hub.set_aside(row, search.now)
        else:
            room.granted.append(grant(hub, worker, row, search.seq, search.now))
            cap -= 1
    if flows:
        claim_turns(search, room, cap)


def claim_turns(search: Search, room: ClaimRoom, cap: int) -> None:
    """Take one job in turn from each lane and from the plain order, while gates are open and the worker could
    start it.
    """
    hub, queue, now = search.hub, search.queue, search.now
    gate = gates.of_queue(hub, queue)
    limited = gate is not None and bounds_claims(gate.limits)
    while cap > 0 and not room.is_over and not (limited and room.now <= 0):
        turn = whose_turn(search, room.now > 0)
        if turn is None:
            break
        row = turn.row
        if search.ends(row):
            continue
        if not search.worker.takes(queue, row.task, row.version):
            turn.take(hub)
            hub.set_aside(row, now)
        else:
            room.now -= limited or turn.lane is not None or bool(lanes.name_of(hub, row))
            room.granted.append(grant(hub, search.worker, row, search.seq, now, turn))
            cap -= 1
    if gate is not None and gates.has_ready(hub, queue):
        is_open(hub, gate, 1, now)  # if closed, note when it opens


class Turn:
    """The source of the next job of a queue: a lane, or one of the heaps that make up the plain order; with its first
    job.
    """

    def __init__(self, row: Row, lane: Lane | None = None, heap: Heap | None = None) -> None:
        self.row, self.lane, self.heap = row, lane, heap

    def take(self, hub: Hub, granted: bool = False) -> None:
        if self.lane is not None:
            lanes.take(hub, self.lane, self.row, granted)
        elif self.heap is not None:
            heapq.heappop(self.heap)
            if (order := hub.orders.get(self.row.queue)) is not None:
                order.plain = hub.next_turn()


def whose_turn(search: Search, laned: bool) -> Turn | None:
    """The first lane, unless the plain order comes before it; nothing if the queue's gate is closed to the job.

    A job found in the wrong line is moved to the right one.
    """
    hub, gate = search.hub, gates.of_queue(search.hub, search.queue)
    while True:
        heap = search.first()
        order = hub.orders.get(search.queue) if laned else None
        lane = order.before(heap[0][0] if heap is not None else None) if order is not None else None
        row = lane.head() if lane is not None else heap[0][1] if heap is not None else None
        if row is None or (gate is not None and not is_open(hub, gate, gates.units_of(row), search.now)):
            return None
        if lane is not None:
            if lanes.look(hub, lane):
                return Turn(row, lane=lane)
            continue
        assert heap is not None
        name = lanes.name_of(hub, row)
        if not name or (laned and row.hold == ASIDE and gates.closed(hub, row, search.now) is None):
            return Turn(row, heap=heap)
        heapq.heappop(heap)
        lanes.join(hub, row, name)


def is_open(hub: Hub, gate: Gate, units: int, now: int) -> bool:
    """Whether a queue's gate lets so many units through now. If not, the queue is skipped until the gate opens."""
    opens = gate.opens_to(units, now)
    if opens > 0:
        hub.schedule(gate, opens)
    return opens == OPEN


def grant(hub: Hub, worker: WorkerRow, row: Row, seq: int, now: int, turn: Turn | None = None) -> Claim:
    if row.terms is not None or hub.gates:
        lanes.charge(hub, row)
    if turn is not None:
        turn.take(hub, granted=True)
    states.set_state(hub, row, State.RUNNING)
    row.epoch += 1
    row.hold, row.worker, row.seq, row.started_at = NOT_HELD, worker.presence.id, seq, now
    worker.running[row.id] = row
    return row.claim() if row.links is None else lookups.claim(hub, row)


def cancels(worker: WorkerRow) -> list[str]:
    return [row.id for row in worker.running.values() if row.cancel]


def wake_others(hub: Hub, worker: WorkerRow, now: int) -> None:
    """Wake idle workers for jobs that this exchange made claimable and that its own worker did not take.

    If the worker took such jobs instead of those it had been woken for, in another queue, an idle worker is woken for
    the latter.
    """
    worker.idle = False
    taken = 0
    for queue in list(hub.fresh):
        if not has_left(hub, queue):
            taken += hub.fresh.pop(queue)
    if taken:
        left = next((queue for queue in worker.presence.queues if has_left(hub, queue)), None)
        if left is not None:
            hub.fresh[left] += taken
    waking.wake_fresh(hub, now)


def has_left(hub: Hub, queue: str) -> bool:
    """Whether the queue may still have a job for some worker."""
    order = hub.orders.get(queue)
    heads = [hub.head(hub.ready[queue], NOT_HELD), hub.head(hub.solo[queue], SOLO)]
    heads += [hub.head(heap, ASIDE) for heap in hub.aside[queue].values()]
    return any(heads) or (order is not None and order.next() is not None)


def has_work(hub: Hub, worker: WorkerRow, queue: str, now: int) -> bool:
    """Whether this worker would be granted a job of the queue now."""
    gate = gates.of_queue(hub, queue)
    if gate is not None and (not gates.has_ready(hub, queue) or not is_open(hub, gate, 1, now)):
        return False
    if queue in hub.solo and solo_head(hub, queue, now, []) is not None:
        return True
    search = Search(hub, worker, queue, 0, now, [])
    if not (hub.gates or hub.orders or hub.keys):
        return search.first() is not None
    return whose_turn(search, True) is not None


def queue_info(hub: Hub, name: str, now: int) -> QueueInfo:
    counts = {str(state): count for state, count in hub.counts[name].items() if count}
    heads = [hub.head(hub.ready[name], NOT_HELD), hub.head(hub.solo[name], SOLO)]
    heads += [hub.head(heap, ASIDE) for heap in hub.aside[name].values()]
    order, gate = hub.orders.get(name), gates.of_queue(hub, name)
    firsts = [lane.first() for lane in order.lanes.values()] if order is not None else []
    oldest = min((row.enqueued_at for row in heads + firsts if row is not None), default=-1)
    return QueueInfo(
        name=name, counts=counts, oldest_ready=now - oldest if oldest >= 0 else -1,
        lanes=sum(row is not None for row in firsts), limits=gate.limits if gate is not None else NO_LIMITS,
    )  # fmt: skip
