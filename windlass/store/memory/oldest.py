"""The oldest ready job of a queue, for full queues that drop it to take in another."""

from __future__ import annotations

import heapq

from windlass.core.job import State
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import Row


def oldest(hub: Hub, queue: str) -> Row | None:
    """The oldest ready job of the lowest priority. A queue keeps an order for this from the first call on."""
    if queue not in hub.oldest:
        ready = (row for row in hub.jobs.values() if row.queue == queue and row.state is State.READY)
        hub.oldest[queue] = [(row.priority, row.n, row.rank, row) for row in ready]
        heapq.heapify(hub.oldest[queue])
    heap = hub.oldest[queue]
    while heap:
        priority, _, rank, row = heap[0]
        if row.state is State.READY and (row.queue, row.priority, row.rank) == (queue, priority, rank):
            return row
        heapq.heappop(heap)
    return None


def remember(hub: Hub, row: Row) -> None:
    """Add a job to that order. The order is dropped when most of its entries are of jobs that have left: the queue is
    not full any more.
    """
    heap = hub.oldest[row.queue]
    heapq.heappush(heap, (row.priority, row.n, row.rank, row))
    if len(heap) > 1_000 + 2 * hub.counts[row.queue][State.READY]:
        del hub.oldest[row.queue]
