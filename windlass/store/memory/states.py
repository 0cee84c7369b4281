"""The states a job goes through before it ends: each puts the job where jobs of that state are found."""

from __future__ import annotations

import heapq

from windlass.core import lifecycle
from windlass.core.job import State
from windlass.store.memory import lanes, oldest
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import BAND, Row


def set_state(hub: Hub, row: Row, state: State) -> None:
    """Change a job's state, the counts of its queue and, where there are any, its lane and gates."""
    counts = hub.counts[row.queue]
    counts[row.state] -= 1
    counts[state] += 1
    was, row.state = row.state, state
    if hub.gates or hub.keys or hub.orders:
        lanes.changed(hub, row, was)


def make_ready(hub: Hub, row: Row, keep_place: bool = False, due: int = 0) -> None:
    """Put a job at the end of the ready order or, with ``keep_place`` and in a strict lane, back in its old place.

    ``due``: the instant the job had waited for, 0 for none. It is kept when the job returns to its old place.
    """
    hub.watch_expiry(row)
    set_state(hub, row, State.READY)
    row.worker, row.due = "", row.due if keep_place else due
    if row.terms is None and not (hub.gates or hub.orders or hub.oldest):
        if not (keep_place and row.rank):
            hub.ranks += 1
            row.rank = (9 - row.priority) * BAND + hub.ranks
        if lifecycle.runs_alone(row.crashes, row.max_crashes):
            lanes.keep_alone(hub, row)
        else:
            hub.push_ready(row)
        return
    if not (row.rank and (keep_place or lanes.strict_name(row))):
        row.rank = lanes.rank_of(hub, row)
    lanes.enter(hub, row)
    if row.queue in hub.oldest:
        oldest.remember(hub, row)


def make_scheduled(hub: Hub, row: Row, due: int) -> None:
    """Have the job become ready at the instant ``due``."""
    hub.watch_expiry(row)
    set_state(hub, row, State.SCHEDULED)
    row.worker, row.due = "", due
    heapq.heappush(hub.due, (due, row.n, row))


def make_waiting(hub: Hub, row: Row) -> None:
    """Let the job wait for its graph or for the holder of its unique key."""
    hub.watch_expiry(row)
    set_state(hub, row, State.WAITING)
    row.worker, row.due = "", 0
