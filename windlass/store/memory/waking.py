"""What time makes ready or opens, and which idle workers are woken for jobs that became claimable."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from functools import partial

from windlass.core.job import State
from windlass.core.limits import OPEN
from windlass.store.memory import gates, lanes, states
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import ASIDE, Gate, WorkerRow


def promote(hub: Hub, now: int, limit: int) -> Counter[str]:
    """Make due jobs ready, in the order they were due. Answers how many per queue."""
    promoted: Counter[str] = Counter()
    while hub.due and hub.due[0][0] <= now and limit > 0:
        due, _, row = heapq.heappop(hub.due)
        if row.state is State.SCHEDULED and row.due == due:
            states.make_ready(hub, row, due=due)
            promoted[row.queue] += 1
            limit -= 1
    if hub.openings:
        lanes.open_due(hub, now, limit)
    return promoted


def next_due(hub: Hub, now: int) -> int:
    """Milliseconds until time makes a job ready or opens a gate; -1 for never."""
    while hub.due and not (hub.due[0][2].state is State.SCHEDULED and hub.due[0][2].due == hub.due[0][0]):
        heapq.heappop(hub.due)
    times = [hub.due[0][0]] if hub.due else []
    if hub.openings and (opening := lanes.next_opening(hub)) is not None:
        times.append(opening.opens)
    return max(0, min(times) - now) if times else -1


def wake_fresh(hub: Hub, now: int) -> None:
    """Wake idle workers for the jobs this step made claimable, unless the queue's gate is closed to all of them."""
    fresh, hub.fresh = hub.fresh, defaultdict(int)
    for queue, count in fresh.items():
        gate = gates.of_queue(hub, queue)
        opens = gate.opens_to(1, now) if gate is not None else OPEN
        if gate is not None and opens > 0 and gates.has_ready(hub, queue):
            hub.schedule(gate, opens)
        if opens == OPEN:
            hub.wake(queue, count)
        if opens == OPEN and gate is not None:
            wake_for_asides(hub, queue)


def wake_for_asides(hub: Hub, queue: str) -> None:
    """Wake workers for jobs set aside in a queue whose gate has opened: only those that declare the task can
    take them.
    """
    for (task, version), heap in hub.aside[queue].items():
        if hub.head(heap, ASIDE) is not None:
            hub.wake(queue, 1, partial(WorkerRow.takes, queue=queue, task=task, version=version))


def wake_for_due(hub: Hub, before: int, now: int) -> None:
    """Wake the idle worker that must set its alarm anew, when the next due time has come nearer."""
    due = next_due(hub, now)
    if due < 0 or (0 <= before <= due):
        return
    opening = lanes.next_opening(hub) if hub.openings else None
    if opening is None or (hub.due and hub.due[0][0] <= opening.opens):
        hub.wake(hub.due[0][2].queue, 1)
    elif isinstance(opening, Gate) and not opening.queue:
        for queue in opening.waiting:
            hub.wake(queue, 1)
    else:
        hub.wake(opening.queue, 1)
