"""The named gates of one transaction: read once, asked and charged here, written back at its end.

What a gate holds is counted from the running jobs, when a limit is first asked for: nothing can leak that way. Keys
have gates of their own, which are not in here (``turns``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from windlass.core.limits import (
    NO_LIMITS,
    OPEN,
    SHUT,
    Limits,
    arrive,
    fits,
    in_force,
    limiting,
    may_close,
    rate_opens,
    spare,
)
from windlass.core.terms import Terms, breaker_gate, queue_gate, task_gate, units_of
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.codes import READY
from windlass.store.machine.flow.sql import BookSql


class Gate(msgspec.Struct, array_like=True):
    """A row of ``gates``, without its note."""

    name: str
    version: int = 0
    closed_until: int = 0
    tat: int = 0
    need: int = 0
    """What the job weighs that found it closed; 0: nobody found it closed since it was open."""
    opening: int = 0
    declared: Limits = NO_LIMITS
    tuned: Limits = NO_LIMITS


_gates = msgspec.json.Decoder(list[Gate]).decode


class Statements(Protocol):
    """The statements of a book."""

    @property
    def book(self) -> BookSql: ...


class Asking(Protocol):
    """What a book needs of its transaction, which has the book: neither module needs the other."""

    @property
    def now(self) -> int: ...
    @property
    def sql(self) -> Statements: ...
    def run(self, sql: str, values: Sequence[Any] = (), /) -> None: ...
    def value(self, sql: str, values: Sequence[Any] = (), /) -> Any: ...
    def all(self, sql: str, values: Sequence[Any] = (), /) -> list[Any]: ...
    def counted(self, queue: str, state: int) -> int: ...


class GateBook:
    """All gates by name."""

    def __init__(self, tx: Asking) -> None:
        self.tx = tx
        self.gates: dict[str, Gate] = {gate.name: gate for gate in _gates(tx.value(tx.sql.book.GATES))}
        self._limits: dict[str, Limits] = {}
        self._held: dict[str, int] | None = None
        self._changed: set[str] = set()
        self._gated: frozenset[str] | None = None

    # -- what holds

    def limits(self, name: str) -> Limits:
        known = self._limits.get(name)
        if known is None:
            gate = self.gates.get(name)
            known = self._limits[name] = NO_LIMITS if gate is None else in_force(gate.tuned, gate.declared)
        return known

    def forget(self, name: str) -> None:
        """It was tuned: what was made of it is not true any more."""
        self._limits.pop(name, None)
        self._gated = None

    def is_closing(self, name: str) -> bool:
        """Whether it may ever be closed, as it is now."""
        gate, limits = self.gates.get(name), self.limits(name)
        return gate is not None and may_close(limits, gate.closed_until, self.tx.now)

    @property
    def gated(self) -> frozenset[str]:
        """Tasks whose jobs have lanes of their own because of their gates."""
        if self._gated is None:
            tasks = [name for name in self.gates if name.startswith("task:") and self.is_closing(name)]
            self._gated = frozenset(name.removeprefix("task:") for name in tasks)
        return self._gated

    @property
    def gated_tasks(self) -> str:
        return msgspec.json.encode(sorted(self.gated)).decode()

    # -- what is held

    @property
    def held(self) -> dict[str, int]:
        if self._held is None:
            self._held = {}
            for queue, task, breaker, units in self.tx.all(self.tx.sql.book.RUNNING):
                for name in (queue_gate(queue), task_gate(task), breaker_gate(breaker)):
                    self._held[name] = self._held.get(name, 0) + units
        return self._held

    def recount(self) -> None:
        """Jobs ceased to run."""
        self._held = None

    # -- asking and charging

    def opens(self, name: str, units: int) -> int:
        """When so many units may pass: OPEN, SHUT or an instant."""
        gate, limits, now = self.gates.get(name), self.limits(name), self.tx.now
        if gate is None:
            return OPEN
        if limits.paused or (limits.limit and not fits(self.held.get(name, 0), limits.limit, units)):
            return SHUT
        opens = rate_opens(gate.tat, now, limits.rate, units)
        return max(gate.closed_until, opens) if gate.closed_until > now else opens

    def charge(self, name: str, units: int) -> None:
        """So many units pass. It was asked before, and is open."""
        gate = self.gates.get(name)
        if gate is None:
            return
        if self._held is not None:
            self._held[name] = self._held.get(name, 0) + units
        rate = limiting(self.limits(name).rate)
        if rate is not None:
            gate.tat, _ = arrive(gate.tat, self.tx.now * 1000, rate, units)
            self._changed.add(name)

    def room(self, name: str) -> int:
        """How many units may pass now, as far as anybody could want."""
        if self.opens(name, 1) != OPEN:
            return 0
        limits, gate = self.limits(name), self.gates.get(name)
        if gate is None:
            return MAX_BATCH
        held = self.held.get(name, 0) if limits.limit else 0
        return spare(MAX_BATCH, held, limits.limit, gate.tat, self.tx.now, limits.rate)

    def closed_for(self, task: str, terms: Terms | None) -> tuple[str, int] | None:
        """The first closed gate of a job, besides those of its queue and its key, and when it opens."""
        units = units_of(terms)
        names = [task_gate(task)] if terms is None or not terms.breaker else [
            task_gate(task), breaker_gate(terms.breaker)
        ]  # fmt: skip
        for name in names:
            when = self.opens(name, units)
            if when != OPEN:
                return name, when
        return None

    def charge_all(self, queue: str, task: str, terms: Terms | None) -> None:
        units = units_of(terms)
        self.charge(queue_gate(queue), units)
        self.charge(task_gate(task), units)
        if terms is not None and terms.breaker:
            self.charge(breaker_gate(terms.breaker), units)

    # -- queues

    def find_closed(self, queue: str, units: int) -> None:
        """Somebody wanted something of a queue and found its gate closed: it is to be told when that opens."""
        gate = self.gates.get(queue_gate(queue))
        if gate is not None and gate.need != units:
            gate.need = units
            self._changed.add(gate.name)

    def may_give(self, queue: str, count: int) -> int:
        """How many of so many ready jobs somebody is to be woken for. Where time opens a queue, one sets its alarm."""
        name = queue_gate(queue)
        if name not in self.gates or count <= 0:
            return count
        when = self.opens(name, 1)
        if when != OPEN:
            self.find_closed(queue, max(1, self.gates[name].need))
            return 0 if when == SHUT else 1
        return min(count, self.room(name))

    def opened_queues(self) -> list[str]:
        """Queues that were found closed and are open now."""
        found = [
            gate for gate in self.gates.values()
            if gate.need and gate.name.startswith("queue:") and self.opens(gate.name, gate.need) == OPEN
        ]  # fmt: skip
        for gate in found:
            gate.need = 0
            self._changed.add(gate.name)
        return [gate.name.removeprefix("queue:") for gate in found]

    # -- time

    def next_opening(self) -> int | None:
        """When time next opens a gate that keeps something; now, if lanes are still to be looked at."""
        now, times = self.tx.now, []
        for name, _, units in self.tx.all(self.tx.sql.book.WAITED_AT):
            if name in self.gates:
                times.append(now if self.gates[name].opening else self.opens(name, units))
        for name, gate in self.gates.items():
            if name.startswith("queue:"):
                when = self.opens(name, max(1, gate.need))
                if gate.opening:
                    times.append(now)
                elif when > now and self.tx.counted(name.removeprefix("queue:"), READY) > 0:
                    times.append(when)
        return min((time for time in times if time >= now), default=None)

    def opens_by_time(self, name: str) -> int:
        """How long until its rate, or the end of a closure, lets one unit through; 0 when they would now."""
        gate, now = self.gates[name], self.tx.now
        return max(0, gate.closed_until - now, rate_opens(gate.tat, now, self.limits(name).rate, 1) - now)

    # -- writing

    def put(self, name: str, **fields: Any) -> None:
        for field, value in fields.items():
            setattr(self.gates[name], field, value)
        self._changed.add(name)

    def flush(self) -> None:
        rows = [self.gates[name] for name in self._changed if name in self.gates]
        self._changed.clear()
        if rows:
            values = [[gate.name, gate.tat, gate.need, gate.opening] for gate in rows]
            self.tx.run(self.tx.sql.book.SAVE, (msgspec.json.encode(values).decode(),))
