"""Queues, workers, limits and breakers as they are now."""

from __future__ import annotations

import math
from typing import Any

from windlass.console import job_rows, show
from windlass.console.desk import Desk
from windlass.console.replies import QueueRow, WorkerRow
from windlass.console.store_state import StoreState, running_jobs, store_state
from windlass.core.hints import did_you_mean
from windlass.core.job import Job
from windlass.core.limits import NO_LIMITS
from windlass.core.terms import queue_gate
from windlass.errors import NotFound
from windlass.handles.gates import LimitInfo, all_limits, limit_info
from windlass.limits.breakers import BreakerInfo
from windlass.operate import orders
from windlass.operate.standing import slots_of
from windlass.store.flow import GateInfo
from windlass.store.reads import QueueInfo, WorkerInfo


def queue_names(desk: Desk, now: StoreState) -> list[str]:
    """Every queue that has or had jobs, is declared, is served, or has a gate that says something."""
    names = {queue.name for queue in now.queues} | desk.app.declared.queue_layers.keys()
    names |= {name for worker in now.workers if worker.alive for name in worker.presence.queues}
    prefix = queue_gate("")
    names |= {
        name.removeprefix(prefix)
        for name, gate in now.gates.items()
        if name.startswith(prefix) and gate.limits != NO_LIMITS
    }
    return sorted(name for name in names if desk.access.sees(name))


async def doubt(desk: Desk, name: str) -> str:
    """A note for a user who names an unknown queue; empty for a known one. The name may be right: a queue can be paused
    before its first job.
    """
    declared = {task.queue for task in desk.app.tasks.values()} | desk.app.handlers.keys()
    known = [*queue_names(desk, await store_state(desk)), *filter(desk.access.sees, declared)]
    if name in known:
        return ""
    hint = did_you_mean(name, known)
    return f"nobody knows queue {name!r}{hint}: it has had no job, and nothing declares or serves it"


def queue_row(now: StoreState, queue: QueueInfo, **pace: Any) -> QueueRow:
    serving = now.serving(queue.name)
    gate = now.gates.get(queue_gate(queue.name)) or GateInfo(name=queue_gate(queue.name))
    return QueueRow(
        name=queue.name, counts=queue.counts, oldest_ready=queue.oldest_ready, lanes=queue.lanes, workers=len(serving),
        slots=sum(worker.presence.concurrency for worker in serving), paused=bool(gate.limits.paused),
        draining=bool(gate.limits.draining), limits=limit_info(gate), **pace,
    )  # fmt: skip


# -- workers

MOST_WORKERS = 1_000


async def worker_rows(desk: Desk) -> list[WorkerRow]:
    """The workers of queues the user may see, live ones first."""
    desk.need("read")
    now = await store_state(desk)
    seen = [worker for worker in now.workers if any(map(desk.access.sees, worker.presence.queues))]
    jobs = await running_jobs(desk) if seen else []
    given = await desk.shared.ask("orders", lambda: _orders(desk))
    by_worker: dict[str, list[Job]] = {}
    for job in jobs:
        if desk.access.sees(job.queue):
            by_worker.setdefault(job.worker, []).append(job)
    ids = [worker.presence.id for worker in seen]
    made = [
        worker_row(desk, worker, by_worker.get(id, []), given.get(id)) for id, worker in zip(ids, seen, strict=True)
    ]
    return sorted(made, key=lambda row: (not row.alive, row.host, row.pid, row.id))[:MOST_WORKERS]


async def _orders(desk: Desk) -> dict[str, orders.Given]:
    return await orders.read_all(await desk.store())


def worker_row(
    desk: Desk, worker: WorkerInfo, jobs: list[Job], given: orders.Given | None = None
) -> WorkerRow:  # fmt: skip
    who, slots = worker.presence, slots_of(worker)
    mode = str(who.load.get("mode", "running"))[:40]
    may = worker.alive and desk.access.may("workers") and all(map(desk.access.sees, who.queues))
    return WorkerRow(
        id=who.id, host=who.host, pid=who.pid, queues=[name for name in who.queues if desk.access.sees(name)],
        tasks=len(who.declares), alive=worker.alive, beat_age=worker.beat_age, started_at=who.started_at,
        slots=who.concurrency, running=worker.running, busy=slots.busy, ahead=slots.ahead,
        done=int(number(who.load, "done") or 0), memory=int(number(who.load, "memory") or 0),
        cpu=number(who.load, "cpu"), lag=number(who.load, "lag"),
        version=str(who.load.get("version", ""))[:40],
        mode=mode, jobs=[job_rows.job_row(desk.access, job) for job in jobs], ordered=str(given.order) if given else "",
        order_reason=show.one_line(given.reason) if given else "",
        actions=_orders_for(mode, given) if may else (),
    )  # fmt: skip


def _orders_for(mode: str, given: orders.Given | None) -> tuple[str, ...]:
    """The orders a live worker can be given next, by the last order it got, even if it has not heard that one yet."""
    wish = str(given.order) if given else {"quiet": "quiet", "stopping": "stop"}.get(mode, "")
    if wish == orders.Order.STOP:
        return ()
    first = orders.Order.RESUME if wish == orders.Order.QUIET else orders.Order.QUIET
    return str(first), str(orders.Order.STOP)


def number(load: dict[str, Any], name: str) -> float | None:
    """A number that a worker reports of itself; the report may hold anything."""
    value = load.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


async def one_worker(desk: Desk, id: str) -> WorkerRow:
    found = [row for row in await worker_rows(desk) if row.id == id]
    if not found:
        hint = did_you_mean(id, [row.id for row in await worker_rows(desk)])
        raise NotFound(f"there is no worker {id!r}{hint}: it has left, or was never here")
    return found[0]


# -- limits


async def limit_rows(desk: Desk) -> list[LimitInfo]:
    desk.need("read")
    return [info for info in await all_limits(desk.app) if sees_gate(desk, info.kind, info.name)]


async def breaker_rows(desk: Desk) -> list[BreakerInfo]:
    desk.need("read")
    return [info for info in await desk.app.breakers.every() if sees_gate(desk, "breaker", info.name)]


def sees_gate(desk: Desk, kind: str, name: str) -> bool:
    """Whether a gate concerns queues the user may see. For a task not declared here, its queue is not known."""
    if not desk.scoped:
        return True
    if kind == "queue":
        return desk.access.sees(name)
    tasks = desk.app.tasks.values()
    mine = [task for task in tasks if (task.name if kind == "task" else task.layer.get("breaker")) == name]
    return bool(mine) and all(desk.access.sees(task.queue) for task in mine)
