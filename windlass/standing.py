"""How a queue or a worker stands, from what the store says of it. Reads nothing itself; ``core.health`` judges."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.health import Facts
from windlass.core.job import State
from windlass.core.limits import fits
from windlass.store.base import GateInfo, QueueInfo, WorkerInfo


def slots_of(worker: WorkerInfo) -> tuple[int, int]:
    """How many of a worker's slots are busy, and how many jobs it has taken besides: ahead, or for its batches."""
    slots, taken = worker.presence.concurrency, worker.running
    if taken <= slots:
        return taken, 0
    told = worker.presence.load.get("running")
    busy = min(slots, told) if isinstance(told, int) and told > 0 else slots
    return busy, taken - busy


def facts_of(queue: QueueInfo, workers: Sequence[WorkerInfo], gate: GateInfo | None, quiet: int | None) -> Facts:
    """``workers``: all there are. ``gate``: the queue's own. ``quiet``: ms since something was done, if known."""
    serving = [worker for worker in workers if worker.alive and queue.name in worker.presence.queues]
    gate = gate or GateInfo(name="")
    limits = gate.limits
    return Facts(
        ready=queue.counts.get(State.READY, 0), running=queue.counts.get(State.RUNNING, 0), quiet=quiet,
        oldest_ready=queue.oldest_ready, paused=bool(limits.paused) or gate.closed_for > 0,
        draining=bool(limits.draining), workers=len(serving),
        slots=sum(worker.presence.concurrency for worker in serving), busy=sum(worker.running for worker in serving),
        held=gate.opens_in > 0 or not fits(gate.held, limits.limit, 1),
    )  # fmt: skip
