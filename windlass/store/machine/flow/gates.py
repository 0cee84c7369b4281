"""Tuning gates, and telling what they and the lanes keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.limits import NO_LIMITS, Limits, cut_tat
from windlass.core.terms import is_strict
from windlass.errors import StoreError
from windlass.store.flow import GateInfo, Hold, HoldKind, Tuning
from windlass.store.machine.codes import ASIDE, READY, SOLO, WAITING
from windlass.store.machine.flow.book import Gate
from windlass.store.machine.flow.lanes import LaneState, settle_down
from windlass.store.machine.tx import Tx, encode, ids_json

KINDS = ("queue:", "task:", "breaker:")


def tune(tx: Tx, tunings: Sequence[Tuning]) -> list[GateInfo]:
    for tuning in tunings:
        if not tuning.name.startswith(KINDS):
            raise StoreError(f"{tuning.name!r} cannot be tuned; give queue:NAME, task:NAME or breaker:NAME")
    answers = []
    for tuning in tunings:
        changed = _tune(tx, tuning)
        answer = _info(tx, tuning.name)
        answer.changed = changed
        answers.append(answer)
    return answers


def _tune(tx: Tx, tuning: Tuning) -> bool:
    """Whether it was done. What changes nothing is done, too."""
    book, name = tx.book, tuning.name
    gate = book.gates.get(name) or Gate(name)
    if tuning.expect not in (-1, gate.version):
        return False
    note = (tx.value(tx.sql.gates.NOTE, (name,)) or b"") if gate.version else b""
    new_note = note if isinstance(tuning.note, msgspec.UnsetType) else tuning.note
    declared = gate.declared if isinstance(tuning.declared, msgspec.UnsetType) else tuning.declared
    tuned = gate.tuned if isinstance(tuning.tuned, msgspec.UnsetType) else tuning.tuned
    until = gate.closed_until if gate.closed_until > tx.now else 0
    if not isinstance(tuning.closed_for, msgspec.UnsetType):
        until = tx.now + tuning.closed_for if tuning.closed_for > 0 else 0
    if (gate.declared, gate.tuned, note, max(gate.closed_until, tx.now)) == (
        declared, tuned, new_note, max(until, tx.now)
    ):  # fmt: skip
        return True
    was_paused = book.limits(name).paused
    book.flush()
    version = tx.take_ranks(1)
    opening = int(bool(tx.lanes))
    tx.run(
        tx.sql.gates.PUT, (name, version, until, opening, encode(declared).decode(), encode(tuned).decode(), new_note)
    )
    tx.gates = 1
    rate_before = book.limits(name).rate
    book.gates[name] = Gate(name, version, until, gate.tat, 0, opening, declared, tuned)
    book.forget(name)
    rate = book.limits(name).rate
    if rate is not None and rate != rate_before:  # one that was raised is to be felt
        book.put(name, tat=cut_tat(gate.tat, tx.now, rate))
    tx.record("gate_changed", "", [[name, "", "", _what(tuning, was_paused, book.limits(name))]])
    _wake(tx, name)
    return True


def _what(tuning: Tuning, was_paused: bool | None, limits: Limits) -> dict[str, Any]:
    """What a change is about, for those who follow events."""
    if bool(limits.paused) != bool(was_paused):
        return {"paused": bool(limits.paused)}
    if not isinstance(tuning.closed_for, msgspec.UnsetType):
        return {"closed_for": tuning.closed_for}
    return {}


def _wake(tx: Tx, name: str) -> None:
    """Lanes that waited are looked at again, and so is a queue; where time opens it, somebody sets an alarm anew."""
    settle_down(tx)
    if name.startswith("queue:"):
        queue = name.removeprefix("queue:")
        tx.wake(queue, tx.counted(queue, READY))


def gates(tx: Tx, names: Sequence[str]) -> list[GateInfo]:
    return [_info(tx, name) for name in names or sorted(tx.book.gates)]


def _info(tx: Tx, name: str) -> GateInfo:
    info = GateInfo(name=name, waiting=tx.value(tx.sql.gates.WAITING_AT, (name,)))
    if name.startswith("key:"):
        info.held = _held_by_key(tx, name)
    gate = tx.book.gates.get(name)
    if gate is None:
        return info
    info.version, info.declared, info.tuned = gate.version, gate.declared, gate.tuned
    info.closed_for = max(0, gate.closed_until - tx.now)
    info.note = tx.value(tx.sql.gates.NOTE, (name,)) or b""
    limits = info.limits
    info.held = tx.book.held.get(name, 0) if limits.limit else 0
    info.opens_in = tx.book.opens_by_time(name)
    return info


def _held_by_key(tx: Tx, name: str) -> int:
    """A key's gate names its queue, which may have a colon in it, and its key, which may have one too."""
    parts = name.split(":")[1:]
    ways = [(":".join(parts[:i]), ":".join(parts[i:])) for i in range(1, len(parts))]
    return max((tx.value(tx.sql.gates.HELD_BY_KEY, way) for way in ways), default=0)


def sweep(tx: Tx) -> None:
    """Forget what has nothing to say any more."""
    tx.run(tx.sql.gates.FORGET_KEYS, (tx.now * 1000,))
    if tx.uniques:
        tx.run(tx.sql.uniques.FORGET, (tx.now,))
    for name, gate in list(tx.book.gates.items()) if tx.gates else ():
        says_nothing = gate.declared == gate.tuned == NO_LIMITS and gate.closed_until <= tx.now
        if says_nothing and gate.tat <= tx.now * 1000 and not gate.need:
            _forget(tx, name)


def _forget(tx: Tx, name: str) -> None:
    if tx.all(tx.sql.gates.FORGET, (name,)):
        del tx.book.gates[name]
        tx.book.forget(name)


# -- why a job is not in the ready order


def holds(tx: Tx, ids: Sequence[str]) -> list[Hold | None]:
    found = {row[0]: _hold(tx, row[1:]) for row in tx.all(tx.sql.gates.HOLDS, (ids_json(ids),))}
    return [found.get(id) for id in ids]


def _hold(tx: Tx, row: Sequence[Any]) -> Hold | None:
    state, hold, queue, lane, number, place, n, kind, gate, opens, expected, units, holder, holder_id, key_of = row
    if state == WAITING:
        return Hold(kind=HoldKind.SUCCESSOR, holder=key_of) if key_of else None
    if hold in (0, ASIDE, SOLO):
        return None if not hold else Hold(kind=HoldKind.ASIDE if hold == ASIDE else HoldKind.SOLO)
    found = Hold(kind=HoldKind.LANE, lane=lane, ahead=tx.value(tx.sql.gates.AHEAD, (queue, lane, number, place)))
    if kind == LaneState.WAITS:
        found.gate = gate
        when = opens if gate.startswith("key:") else tx.book.opens(gate, units)
        found.opens_in = max(0, when - tx.now) if when > 0 else -1
    elif kind == LaneState.GAP:
        found.missing, found.opens_in = expected, max(0, opens - tx.now)
    if is_strict(lane) and holder and holder != n:
        found.holder = holder_id
    return found
