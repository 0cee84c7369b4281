"""The store's numbers for Prometheus: counters of everything that ever happened, and the state now.

They cover the whole app, whichever process is asked, and are exact: engines count in the write that changes a job. A
scrape is a handful of reads, some shared with the dashboard. Labels are names of queues, tasks, gates and schedules. A
bounded number of names get series of their own; the rest are counted together, and a metric says so.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import msgspec
from prometheus_client import Metric

from windlass import __version__
from windlass.app import Windlass
from windlass.console.desk import Desk
from windlass.console.queues import queue_names
from windlass.console.store_state import StoreState, store_info, store_state
from windlass.core.access import Access
from windlass.core.breaker import Mode
from windlass.core.chart import OTHER
from windlass.core.limits import NO_LIMITS
from windlass.core.terms import breaker_gate
from windlass.errors import StoreError
from windlass.handles.gates import LimitInfo, limit_info
from windlass.limits.breakers import info_of
from windlass.observe.families import as_text
from windlass.observe.names import DEAD, ENDS, FAILURES, JOBS, SETTLED
from windlass.observe.prometheus_metrics import number, numbers
from windlass.observe.workers import worker_metrics
from windlass.operate.standing import slots_of
from windlass.operate.timetable import Schedule, read_all
from windlass.store.flow import GateInfo
from windlass.store.reads import QueueInfo, Total

__all__ = ["store_metrics", "worker_metrics"]

PAIRS, QUEUES, GATES, SCHEDULES = 500, 200, 500, 500
"""So many pairs of queue and task, queues, gates and schedules are told apart."""

PATIENCE = 5.0
"""So long a scrape waits for the store, in seconds. Prometheus itself gives up after 10."""

_Pair = tuple[str, str]
_told: WeakKeyDictionary[Windlass, dict[_Pair, None]] = WeakKeyDictionary()


async def store_metrics(app: Windlass) -> bytes:
    """The app's numbers in Prometheus's text format. A store that cannot be reached is a number too."""
    try:
        async with asyncio.timeout(PATIENCE):
            found = await _read(app)
    except (StoreError, TimeoutError):
        return as_text([number("windlass_store_up", 0), numbers("windlass_build_info", {(__version__, ""): 1})])
    return as_text(found)


async def _read(app: Windlass) -> list[Metric]:
    desk = Desk(app, Access(user="metrics"), "code")
    store = await desk.store()
    now, totals = await store_state(desk), await store.totals()
    schedules = await read_all(store)
    gates = _gates(now)
    info = await store_info(desk)
    names = queue_names(desk, now)
    folded = {"queues": len(names) - QUEUES, "gates": len(gates) - GATES, "schedules": len(schedules) - SCHEDULES}
    counted, folded["tasks"] = _fold(app, totals)
    return [
        *_counters(counted),
        *_queues(now, names),
        *_workers(now),
        *_limits(gates[:GATES]),
        _breakers(app, now),
        *_schedules(schedules[:SCHEDULES]),
        number("windlass_store_up", 1),
        numbers("windlass_folded_series", {(what,): max(0, count) for what, count in sorted(folded.items())}),
        numbers("windlass_build_info", {(__version__, info.engine): 1}),
    ]


# -- counters

_Counted = dict[_Pair, dict[str, int]]


def _fold(app: Windlass, totals: Iterable[Total]) -> tuple[_Counted, int]:
    """Counts by pair of queue and task, and how many pairs are counted together.

    Declared tasks have series before anything happens: a counter that begins above 0 has no increase that an alert
    could see. A pair that once had a series of its own keeps it, or the common counter would go back.
    """
    counted: _Counted = defaultdict(dict)
    for task in app.tasks.values():
        counted[task.queue, task.name] = {}
    for total in totals:
        counted[total.queue, total.task][total.kind] = total.count
    told = _told.setdefault(app, {})
    for pair in sorted(counted, key=lambda pair: -sum(counted[pair].values())):
        if len(told) < PAIRS:
            told.setdefault(pair)
    others = [pair for pair in counted if pair not in told]
    for pair in others:
        into = counted[OTHER, OTHER]
        for kind, count in counted.pop(pair).items():
            into[kind] = into.get(kind, 0) + count
    return counted, len(others)


def _counters(counted: _Counted) -> Iterator[Metric]:
    for kind, (name, _) in JOBS.items():
        yield numbers(name, {pair: kinds.get(kind, 0) for pair, kinds in counted.items()})
    ends = {(*pair, end): float(kinds.get(end, 0)) for pair, kinds in counted.items() for end in ENDS}
    yield numbers(SETTLED, ends)
    dead = {pair: kinds.get("failed", 0) for pair, kinds in counted.items()}
    yield numbers(FAILURES, {pair: kinds.get("retried", 0) + dead[pair] for pair, kinds in counted.items()})
    yield numbers(DEAD, dead)


# -- how things are


def _queues(now: StoreState, names: list[str]) -> Iterator[Metric]:
    infos = {info.name: info for info in now.queues}
    known = [infos.get(name) or QueueInfo(name=name) for name in names]
    told = [*known[:QUEUES], *([_together(known[QUEUES:])] if known[QUEUES:] else [])]
    serving = {queue.name: now.serving(queue.name) for queue in told}
    by_state = {(queue.name, state): float(count) for queue in told for state, count in _states(queue).items()}
    yield numbers("windlass_queue_jobs", by_state)
    oldest = {(queue.name,): max(0, queue.oldest_ready) / 1000 for queue in told}
    yield numbers("windlass_queue_oldest_ready_seconds", oldest)
    yield numbers("windlass_queue_lanes", {(queue.name,): queue.lanes for queue in told})
    # No worker serves a queue called OTHER, and an alert must not take that for a lack of workers.
    served = {name: workers for name, workers in serving.items() if name != OTHER}
    yield numbers("windlass_queue_workers", {(name,): len(workers) for name, workers in served.items()})
    slots = {(name,): sum(worker.presence.concurrency for worker in workers) for name, workers in served.items()}
    yield numbers("windlass_queue_slots", slots)
    paused = {(queue.name,): float(bool(now.limits(queue.name).paused)) for queue in told}
    yield numbers("windlass_queue_paused", paused)


def _states(queue: QueueInfo) -> dict[str, int]:
    """All states a dashboard draws, also those without jobs."""
    return {**dict.fromkeys(("ready", "running", "scheduled", "waiting", "failed"), 0), **queue.counts}


def _together(queues: list[QueueInfo]) -> QueueInfo:
    whole = QueueInfo(name=OTHER, counts={})
    for queue in queues:
        for state, count in queue.counts.items():
            whole.counts[state] = whole.counts.get(state, 0) + count
        whole = msgspec.structs.replace(
            whole, oldest_ready=max(whole.oldest_ready, queue.oldest_ready), lanes=whole.lanes + queue.lanes
        )
    return whole


def _workers(now: StoreState) -> Iterator[Metric]:
    alive = [worker for worker in now.workers if worker.alive]
    yield numbers("windlass_workers", {("alive",): len(alive), ("lost",): len(now.workers) - len(alive)})
    yield number("windlass_slots", sum(worker.presence.concurrency for worker in alive))
    yield number("windlass_slots_used", sum(slots_of(worker).busy for worker in alive))


def _gates(now: StoreState) -> list[LimitInfo]:
    """The gates of queues, tasks and breakers that say something. Gates of keys are left out, as there are as many as
    keys.
    """
    known = [
        gate for gate in now.gates.values() if gate.note or gate.closed_for or gate.waiting or gate.limits != NO_LIMITS
    ]
    found = [info for info in map(limit_info, known) if info.kind in ("queue", "task", "breaker")]
    return sorted(found, key=lambda info: (info.kind, info.name))


def _limits(gates: list[LimitInfo]) -> Iterator[Metric]:
    limited = {(gate.kind, gate.name): gate for gate in gates}
    yield numbers("windlass_gate_limit", {key: gate.limit for key, gate in limited.items() if gate.limit is not None})
    held = {key: gate.held for key, gate in limited.items() if gate.limit is not None}
    yield numbers("windlass_gate_held", held)
    yield numbers("windlass_gate_waiting_lanes", {key: gate.waiting for key, gate in limited.items()})
    opens = {key: max(gate.opens_in, gate.closed_for, 0) / 1000 for key, gate in limited.items()}
    yield numbers("windlass_gate_opens_seconds", opens)


def _breakers(app: Windlass, now: StoreState) -> Metric:
    """The breakers the app names, and those with a gate in the store."""
    prefix = breaker_gate("")
    names = app.breakers.names()
    names |= {name.removeprefix(prefix) for name in now.gates if name.startswith(prefix)}
    gates = {name: now.gates.get(prefix + name) or GateInfo(name=prefix + name) for name in sorted(names)[:GATES]}
    found = [info_of(name, gate) for name, gate in gates.items()]
    states = {(info.name, str(mode)): float(info.state is mode) for info in found for mode in Mode}
    return numbers("windlass_breaker_state", states)


def _schedules(rows: list[Schedule]) -> Iterator[Metric]:
    yield numbers("windlass_schedule_fired_total", {(row.name,): row.fired for row in rows})
    yield numbers("windlass_schedule_paused", {(row.name,): float(bool(row.paused)) for row in rows})
    last = {(row.name,): row.last_slot / 1000 for row in rows if row.last_slot}
    yield numbers("windlass_schedule_last_slot_timestamp_seconds", last)
    coming = {(row.name,): row.next_slot / 1000 for row in rows if row.next_slot}
    yield numbers("windlass_schedule_next_slot_timestamp_seconds", coming)
