"""Whether work is flowing: one word for a queue, from the facts known of it. Pure.

A queue without work is well, whatever its workers do. A queue where work waits and nothing moves is not; the word names
what is in the way.
"""

from __future__ import annotations

import msgspec

IDLE, FLOWING, SATURATED, STUCK = "idle", "flowing", "saturated", "stuck"
PAUSED, DRAINING, NO_WORKER = "paused", "draining", "no_worker"

PATIENCE = 60_000
"""Work may wait so long (ms) with nothing getting done before that is called stuck, while workers have room."""

LONG_PATIENCE = 600_000
"""The same while all slots are taken: jobs that run for minutes are no standstill."""

GRACE = 30_000
"""So long a queue may be without a worker before that is unhealthy: a deployment takes a moment."""


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue now. ``oldest_ready``: ms the oldest job has waited, -1 for none. ``slots`` and ``busy``: of its live
    workers, summed over all queues they serve. ``quiet``: ms since a job of it last ended, None where this is not
    counted. ``held``: a limit or rate of the queue is in the way.
    """

    ready: int = 0
    running: int = 0
    oldest_ready: int = -1
    paused: bool = False
    draining: bool = False
    workers: int = 0
    slots: int = 0
    busy: int = 0
    quiet: int | None = None
    held: bool = False


def flow_of(facts: QueueFacts) -> str:
    """The word for a queue."""
    if facts.paused:
        return PAUSED
    if not facts.ready and not facts.running:
        return DRAINING if facts.draining else IDLE
    if not facts.workers:
        return NO_WORKER
    if facts.ready and is_stuck(facts):
        return STUCK
    if facts.draining:
        return DRAINING
    full = facts.held or facts.busy >= facts.slots
    return SATURATED if full and facts.ready and facts.oldest_ready >= PATIENCE else FLOWING


def is_stuck(facts: QueueFacts) -> bool:
    """Whether work waits and no job ends. If all slots are taken, or a limit is reached, the queue has longer
    patience.
    """
    full = facts.held or facts.busy >= facts.slots
    patience = LONG_PATIENCE if full else PATIENCE
    if facts.oldest_ready < patience:
        return False
    # Without counts the only sign is work that waits beside free slots.
    return not full if facts.quiet is None else facts.quiet >= patience


def is_well(flow: str, oldest_ready: int) -> bool:
    """Whether a queue with this word is healthy. A pause is wanted, so it is healthy."""
    if flow == NO_WORKER:
        return oldest_ready < GRACE
    return flow != STUCK


def in_words(flow: str, ready: int, oldest: str) -> str:
    """What the word means, for an operator who is woken at night; empty where all is well."""
    jobs = f"{ready:,} job{'' if ready == 1 else 's'}"
    if flow == NO_WORKER:
        return f"{jobs} ready and no live worker" if ready else "jobs are running and no worker is alive"
    if flow == STUCK:
        return f"{jobs} ready, the oldest for {oldest}, and none is being done"
    if flow == PAUSED and ready:
        return f"paused with {jobs} ready"
    return ""
