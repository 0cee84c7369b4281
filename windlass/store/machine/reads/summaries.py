"""What is said of many at once: queues, workers, dead letters by fingerprint. Of jobs only a few are read."""

from __future__ import annotations

import msgspec

from windlass.core.limits import NO_LIMITS
from windlass.core.terms import queue_gate
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Presence
from windlass.store.machine.tx import Tx, decode
from windlass.store.reads import Fault, QueueInfo, WorkerInfo
from windlass.store.shared import STATES


def queues(tx: Tx) -> list[QueueInfo]:
    infos: dict[str, QueueInfo] = {}
    for queue, state, many in msgspec.convert(tx.all(tx.sql.summaries.COUNTS), list[tuple[str, int, int]]):
        info = infos.get(queue)
        if info is None:
            limits = tx.book.limits(queue_gate(queue)) if tx.gates else NO_LIMITS
            info = infos[queue] = QueueInfo(name=queue, counts={}, limits=limits)
        if many:
            info.counts[str(STATES[state])] = many
    for queue, at in tx.all(tx.sql.summaries.OLDEST):
        if at is None:  # a job that is counted here was lost
            continue
        infos[queue].oldest_ready = tx.now - at
    for queue, lanes in tx.all(tx.sql.summaries.LANES) if tx.lanes else ():
        if queue in infos:
            infos[queue].lanes = lanes
    return list(infos.values())


def faults(tx: Tx, limit: int) -> list[Fault]:
    """The dead letters by fingerprint, the most frequent first."""
    return msgspec.convert(tx.all(tx.sql.summaries.FAULTS, (min(limit, MAX_BATCH),)), list[Fault])


def workers(tx: Tx) -> list[WorkerInfo]:
    return [
        WorkerInfo(
            presence=decode(body, type=Presence), beat_age=tx.now - beat_at, running=running, idle=bool(idle),
            alive=not dead and _lease_end(tx, lease, until) > tx.now,
        )
        for body, beat_at, dead, lease, until, idle, running in tx.all(tx.sql.summaries.WORKERS)
    ]  # fmt: skip


def _lease_end(tx: Tx, lease: int, until: int) -> int:
    """When a lease is over, with the extension that the next write would give it."""
    return until + tx.tick.gap if until > tx.last and tx.tick.gap > lease / 2 else until
