"""The calls ``tune``, ``gates`` and ``holds``: what operators and workers say of gates, and what keeps a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.core.event import Row as EventRow
from windlass.core.job import State
from windlass.store.flow import GateInfo, Hold, HoldKind, Tuning
from windlass.store.memory import gates, lanes, unique
from windlass.store.memory.lanes import STEP
from windlass.store.memory.records import ASIDE, SOLO, Gate, Lane, Row

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def tune(hub: Hub, tunings: Sequence[Tuning], now: int) -> list[GateInfo]:
    events: list[EventRow] = []
    answers = [tune_one(hub, tuning, now, events) for tuning in tunings]
    hub.record(now, [("gate_changed", "", events)])
    return answers


def tune_one(hub: Hub, tuning: Tuning, now: int, events: list[EventRow]) -> GateInfo:
    gate = hub.gates.get(tuning.name)
    if tuning.expect not in (-1, gate.version if gate is not None else 0):
        return gate.info(now) if gate is not None else GateInfo(name=tuning.name)
    gate = gate or gates.new_gate(hub, tuning.name)
    before = (gate.declared, gate.tuned, gate.closed_until, gate.note)
    limits = gate.limits
    write(gate, tuning, now)
    if before != (gate.declared, gate.tuned, gate.closed_until, gate.note):
        gate.version = hub.next_version()
        data: dict[str, object] = {}
        if bool(limits.paused) != bool(gate.limits.paused):
            data = {"paused": bool(gate.limits.paused)}
        elif before[2] != gate.closed_until:
            data = {"closed_for": max(0, gate.closed_until - now)}
        events.append([gate.name, "", "", data])
        gate.opens = 0  # the old instant was worked out with the old limits
        lanes.try_open(hub, gate)
        if gate.queue and (limits.key_limit, limits.key_rate) != (gate.limits.key_limit, gate.limits.key_rate):
            open_keys(hub, gate.queue, now)
    gates.forget(hub, gate, now)
    return gate.info(now, changed=True)


def write(gate: Gate, tuning: Tuning, now: int) -> None:
    declared = gate.declared if tuning.declared is msgspec.UNSET else tuning.declared
    tuned = gate.tuned if tuning.tuned is msgspec.UNSET else tuning.tuned
    gate.limit(declared, tuned, now)
    if tuning.closed_for is not msgspec.UNSET:
        gate.closed_until = now + tuning.closed_for if tuning.closed_for > 0 else 0
    if tuning.note is not msgspec.UNSET:
        gate.note = tuning.note


def open_keys(hub: Hub, queue: str, now: int) -> None:
    """The limits of all keys of a queue have changed: look at the lanes that wait there, at most so many in
    one step.
    """
    waiting = [gate for gate in hub.keys.values() if gate.queue == queue and gate.waiting]
    for gate in waiting[:STEP]:
        lanes.try_open(hub, gate)
    for gate in waiting[STEP:]:
        hub.schedule(gate, now)


def info(hub: Hub, names: Sequence[str], now: int) -> list[GateInfo]:
    if not names:
        return [gate.info(now) for gate in hub.gates.values()]
    found = [hub.gates.get(name) or key_gate(hub, name) for name in names]
    return [gate.info(now) if gate else GateInfo(name=name) for name, gate in zip(names, found, strict=True)]


def key_gate(hub: Hub, name: str) -> Gate | None:
    """A key's gate by its name. Queues and keys may have colons in their names."""
    kind, _, rest = name.partition(":")
    at = rest.find(":") if kind == "key" else -1
    while at >= 0:
        if (gate := hub.keys.get((rest[:at], rest[at + 1 :]))) is not None:
            return gate
        at = rest.find(":", at + 1)
    return None


# -- why a job does not run


def hold(hub: Hub, row: Row | None, now: int) -> Hold | None:
    if row is None:
        return None
    if row.state is State.WAITING:
        return unique.why_waiting(hub, row)
    if row.state is not State.READY:
        return None
    if row.lane is not None:
        return in_lane(hub, row.lane, row, now)
    if row.hold in (ASIDE, SOLO):
        return Hold(kind=HoldKind.ASIDE if row.hold == ASIDE else HoldKind.SOLO)
    return None


def in_lane(hub: Hub, lane: Lane, row: Row, now: int) -> Hold:
    """What the lane of a job waits for."""
    rows, head = lane.rows(), lane.head()
    found = Hold(kind=HoldKind.LANE, lane=lane.name, ahead=rows.index(row))
    if lane.holder is not None and lane.holder is not row:
        found.holder = lane.holder.id
    if head is not None and lane.stands is head:
        found.missing, found.opens_in = lane.expects, max(0, lane.opens - now)
    elif head is not None and (shut := gates.closed(hub, head, now)) is not None:
        found.gate = shut[0].name
        found.opens_in = max(0, shut[1] - now) if shut[1] > 0 else -1
    return found
