"""Gates: limits that have a name. What one lets through, what is charged to it, and what is counted there.

Which lane waits where, and what happens when a gate opens, is in ``lanes``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from windlass.core.job import State
from windlass.core.limits import (
    NO_LIMITS,
    OPEN,
    SHUT,
    Limits,
    Rate,
    arrive,
    cut_tat,
    fits,
    in_force,
    may_close,
    rate_opens,
    spare,
)
from windlass.core.terms import Terms, breaker_gate, key_gate, key_limits, queue_gate, task_gate
from windlass.store.flow import GateInfo

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub
    from windlass.store.memory.lanes import Lane
    from windlass.store.memory.records import Row

PLENTY = 1 << 40


class Gate:
    """One gate: a queue's, a task's, a breaker's, or that of one key of a queue.

    ``queue``: the queue it is the gate of, or whose key it is the gate of. ``held``: units of the running jobs it
    concerns; always right, since it is counted when the gate is made. ``tat``: microseconds, see ``core.limits``.
    ``waiting``: the lanes that wait here, by queue, in the order of their turns; entries are outlived, not removed.
    ``opens``: when it is to be looked at again.
    """

    __slots__ = (
        "closed_until", "declared", "held", "key", "limits", "name", "note", "opens", "queue", "tat", "tuned",
        "version", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, queue: str = "", key: str = "") -> None:
        self.name, self.queue, self.key = name, queue, key
        self.declared = self.tuned = self.limits = NO_LIMITS
        self.version = self.closed_until = self.held = self.tat = self.opens = 0
        self.note = b""
        self.waiting: dict[str, list[tuple[int, Lane]]] = {}

    def limit(self, declared: Limits, tuned: Limits, now: int) -> None:
        """New limits. What a slower rate was charged must not count beyond the new one's burst."""
        before, self.limits = self.limits, in_force(tuned, declared)
        self.declared, self.tuned = declared, tuned
        if (rate := self.limits.rate) is not None and rate != before.rate:
            self.tat = cut_tat(self.tat, now, rate)

    def lanes(self) -> set[Lane]:
        """The lanes that wait here now."""
        return {lane for entries in self.waiting.values() for _, lane in entries if lane.gate is self}

    def has_lanes(self) -> bool:
        for queue, entries in list(self.waiting.items()):
            while entries and entries[0][1].gate is not self:
                heapq.heappop(entries)
            if not entries:
                del self.waiting[queue]
        return bool(self.waiting)

    def says_nothing(self, now: int) -> bool:
        """Whether it may be forgotten: nothing is limited, closed, noted, counted or waiting."""
        quiet = self.limits == self.tuned == self.declared == NO_LIMITS and not self.note
        over = self.closed_until <= now and self.tat <= now * 1000
        return quiet and over and not (self.key and self.held) and not self.has_lanes()

    def opens_at(self, limit: int | None, rate: Rate | None, units: int, now: int) -> int:
        """When so many units may pass: OPEN, SHUT, or the instant at which time lets them."""
        if self.limits.paused:
            return SHUT
        if self.closed_until > now:
            return self.closed_until
        if not fits(self.held, limit, units):
            return SHUT
        return rate_opens(self.tat, now, rate, units)

    def opens_to(self, units: int, now: int) -> int:
        """``opens_at`` for a gate that has limits of its own: any but a key's."""
        return self.opens_at(self.limits.limit, self.limits.rate, units, now)

    def spare(self, limit: int | None, rate: Rate | None, now: int) -> int:
        """How many units might pass now."""
        if self.opens_at(limit, rate, 1, now) != OPEN:
            return 0
        return spare(PLENTY, self.held, limit, self.tat, now, rate)

    def info(self, now: int, changed: bool = False) -> GateInfo:
        at = self.opens if self.key else max(self.closed_until, rate_opens(self.tat, now, self.limits.rate, 1))
        return GateInfo(
            name=self.name, version=self.version, declared=self.declared, tuned=self.tuned, note=self.note,
            closed_for=max(0, self.closed_until - now), held=self.held if self.key or self.limits.limit else 0,
            waiting=len(self.lanes()), opens_in=max(0, at - now), changed=changed,
        )  # fmt: skip


def new_gate(hub: Hub, name: str) -> Gate:
    """A gate comes to be: what it would have counted so far is counted now."""
    gate = hub.gates[name] = Gate(name, name.removeprefix("queue:") if name.startswith("queue:") else "")
    running = (row for worker in hub.workers.values() for row in worker.running.values())
    gate.held = sum(units_of(row) for row in running if any(one is gate for one, _, _ in of_job(hub, row)))
    return gate


def units_of(row: Row) -> int:
    return row.terms.units if row.terms is not None else 1


def of_queue(hub: Hub, queue: str) -> Gate | None:
    return hub.gates.get(queue_gate(queue)) if hub.gates else None


def is_gated(hub: Hub, task: str, now: int) -> bool:
    """Whether jobs of this task must be in a lane: there is a gate of it with a limit, a pause or a closure."""
    gate = hub.gates.get(task_gate(task)) if hub.gates else None
    return gate is not None and may_close(gate.limits, gate.closed_until, now)


Concerned = Iterator[tuple[Gate, int | None, Rate | None]]


def of_lane(hub: Hub, row: Row) -> Concerned:
    """The gates at which a job's lane can wait, with the limits that hold for it: of its task, breaker and key."""
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
    """All gates that concern a job, as far as they exist."""
    yield from of_lane(hub, row)
    gate = of_queue(hub, row.queue)
    if gate is not None:
        yield gate, gate.limits.limit, gate.limits.rate


def of_key(hub: Hub, queue: str, terms: Terms) -> tuple[int | None, Rate | None]:
    """The limits of a key: what its queue's gate says of all keys, else what the job says."""
    gate = of_queue(hub, queue)
    return key_limits(gate.limits if gate is not None else NO_LIMITS, terms)


def closed(hub: Hub, row: Row, now: int) -> tuple[Gate, int] | None:
    """The first gate that keeps a job's lane waiting, and when it opens."""
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
    """A job starts. Answers the gates whose rate it used, for the next may have to wait for that."""
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
    """A job no longer runs. Answers the gates at which its units came free."""
    concerned = [gate for gate, _, _ in of_job(hub, row)]
    for gate in concerned:
        gate.held -= units_of(row)
    return concerned


def forget(hub: Hub, gate: Gate, now: int) -> None:
    """A gate that says nothing goes. A key's is looked at again when its rate has passed."""
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
