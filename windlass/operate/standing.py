"""How a queue or a worker stands, from what the store says of it. Reads nothing itself; ``core.health`` judges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.core.health import QueueFacts
from windlass.core.job import State
from windlass.core.limits import fits
from windlass.store.flow import GateInfo
from windlass.store.reads import QueueInfo, WorkerInfo


class Slots(NamedTuple):
    """What a worker holds: jobs in its slots, and jobs taken ahead, which start as soon as a slot is free."""

    busy: int
    ahead: int


def slots_of(worker: WorkerInfo) -> Slots:
    """Nothing is taken ahead while a slot is free: what there is more of then are members of a batch, which has one."""
    claims, slots = worker.running, worker.presence.concurrency
    active, held = (worker.presence.load.get(name) for name in ("running", "held"))
    if isinstance(active, int) and isinstance(held, int) and 0 <= active < min(held, slots):
        return Slots(min(claims, active), 0)
    return Slots(min(claims, slots), max(claims - slots, 0))


def facts_of(queue: QueueInfo, workers: Sequence[WorkerInfo], gate: GateInfo | None, quiet: int | None) -> QueueFacts:
    """``workers``: all there are. ``gate``: the queue's own. ``quiet``: ms since something was done, if known."""
    serving = [worker for worker in workers if worker.alive and queue.name in worker.presence.queues]
    gate = gate or GateInfo(name="")
    limits = gate.limits
    return QueueFacts(
        ready=queue.counts.get(State.READY, 0), running=queue.counts.get(State.RUNNING, 0), quiet=quiet,
        oldest_ready=queue.oldest_ready, paused=bool(limits.paused) or gate.closed_for > 0,
        draining=bool(limits.draining), workers=len(serving),
        slots=sum(worker.presence.concurrency for worker in serving),
        busy=sum(slots_of(worker).busy for worker in serving),
        held=gate.opens_in > 0 or not fits(gate.held, limits.limit, 1),
    )  # fmt: skip
