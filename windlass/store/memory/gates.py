"""Gates: named limits. What a gate lets through, which units are charged to it, and when it is forgotten.

``lanes`` rules which lane waits at which gate and what happens when a gate opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass.core.job import State
from windlass.core.limits import (
    NO_LIMITS,
    OPEN,
    Rate,
    arrive,
    may_close,
)
from windlass.core.terms import Terms, breaker_gate, key_gate, key_limits, queue_gate, task_gate
from windlass.store.memory.records import PLENTY, Gate

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub
    from windlass.store.memory.records import Row


def new_gate(hub: Hub, name: str) -> Gate:
    """Make a gate. The units of jobs that run already are counted now."""
    gate = hub.gates[name] = Gate(name, name.removeprefix("queue:") if name.startswith("queue:") else "")
    running = (row for worker in hub.workers.values() for row in worker.running.values())
    gate.held = sum(units_of(row) for row in running if any(one is gate for one, _, _ in of_job(hub, row)))
    return gate


def units_of(row: Row) -> int:
    return row.terms.units if row.terms is not None else 1


def of_queue(hub: Hub, queue: str) -> Gate | None:
    return hub.gates.get(queue_gate(queue)) if hub.gates else None


def is_gated(hub: Hub, task: str, now: int) -> bool:
    """Whether jobs of this task must be in a lane, because a gate of the task has a limit, a pause or a closure."""
    gate = hub.gates.get(task_gate(task)) if hub.gates else None
    return gate is not None and may_close(gate.limits, gate.closed_until, now)


Concerned = Iterator[tuple[Gate, int | None, Rate | None]]


def of_lane(hub: Hub, row: Row) -> Concerned:
    """The gates at which a job's lane can wait (of its task, its breaker and its key), each with the limits that hold
    there.
    """
    gate = hub.gates.get(task_gate(row.task))
    if gate is not None:
        yield gate, gate.limits.limit, gate.limits.rate
    terms = row.terms
    if terms is None:
        return
    gate = hub.gates.get(breaker_gate(terms.breaker)) if terms.breaker else None
    if gate is not None:
        yield gate, gate.limits.limit, gate.limits.rate
    gate = hub.keys.get((row.queue, terms.key)) if terms.key else None
    if gate is not None:
        yield gate, *of_key(hub, row.queue, terms)


def of_job(hub: Hub, row: Row) -> Concerned:
    """All gates that concern a job and exist."""
    yield from of_lane(hub, row)
    gate = of_queue(hub, row.queue)
    if gate is not None:
        yield gate, gate.limits.limit, gate.limits.rate


def of_key(hub: Hub, queue: str, terms: Terms) -> tuple[int | None, Rate | None]:
    """The limits of a key: what its queue's gate says of all keys or, failing that, what the job says."""
    gate = of_queue(hub, queue)
    return key_limits(gate.limits if gate is not None else NO_LIMITS, terms)


def closed(hub: Hub, row: Row, now: int) -> tuple[Gate, int] | None:
    """The first gate that keeps a job's lane waiting, and when that gate opens."""
    units = units_of(row)
    for gate, limit, rate in of_lane(hub, row):
        at = gate.opens_at(limit, rate, units, now)
        if at != OPEN:
            return gate, at
    return None


def room(hub: Hub, row: Row, now: int) -> int:
    """How many jobs like this one its lane might give now."""
    terms = row.terms
    concerned = list(of_lane(hub, row))
    if terms is not None and terms.key and (row.queue, terms.key) not in hub.keys:
        concerned.append((Gate(""), *of_key(hub, row.queue, terms)))
    units = min((gate.spare(limit, rate, now) for gate, limit, rate in concerned), default=PLENTY)
    return max(1, units // units_of(row))


def charge(hub: Hub, row: Row, now: int) -> list[Gate]:
    """Charge a job that starts to its gates. Answers the gates whose rate was used: the next job may have to wait
    there.
    """
    terms, units = row.terms, units_of(row)
    if terms is not None and terms.key and (row.queue, terms.key) not in hub.keys:
        hub.keys[row.queue, terms.key] = Gate(key_gate(row.queue, terms.key), row.queue, terms.key)
    used = []
    for gate, _, rate in of_job(hub, row):
        gate.held += units
        if rate is not None and rate.every:
            gate.tat, _ = arrive(gate.tat, now * 1000, rate, units)
            used.append(gate)
    return used


def discharge(hub: Hub, row: Row) -> list[Gate]:
    """Give back the units of a job that no longer runs. Answers the gates where units came free."""
    concerned = [gate for gate, _, _ in of_job(hub, row)]
    for gate in concerned:
        gate.held -= units_of(row)
    return concerned


def forget(hub: Hub, gate: Gate, now: int) -> None:
    """Forget a gate that says nothing. A key's gate is looked at again when its rate has passed."""
    if gate is not (hub.keys.get((gate.queue, gate.key)) if gate.key else hub.gates.get(gate.name)):
        return
    if gate.says_nothing(now):
        gate.version = 0
        if gate.key:
            del hub.keys[gate.queue, gate.key]
        else:
            del hub.gates[gate.name]
    elif gate.key and not gate.held and gate.tat > now * 1000:
        hub.fade(-(-gate.tat // 1000), lambda then: forget(hub, gate, then))


def has_ready(hub: Hub, queue: str) -> bool:
    return queue in hub.counts and hub.counts[queue][State.READY] > 0
