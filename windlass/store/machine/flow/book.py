"""The named gates of one transaction: read once, asked and charged here, written back at its end.

What a gate holds is counted from the running jobs, when a limit is first asked for: nothing can leak that way. Keys
have gates of their own, which are not in here (``turns``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.limits import NO_LIMITS, Limits, Rate, arrive, fits, over
from windlass.core.terms import Terms, breaker_gate, queue_gate, task_gate
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.codes import READY

if TYPE_CHECKING:
    from windlass.store.machine.tx import Tx

GATES = (
    "SELECT json_group_array(json_array(name, version, closed_until, tat, need, opening, json(declared), json(tuned))) "
    "FROM gates"
)
RUNNING = (
    "SELECT queue, task, coalesce(terms ->> 7, ''), sum(coalesce(terms ->> 6, 1)) FROM jobs INDEXED BY jobs_running "
    "WHERE state = 3 GROUP BY 1, 2, 3"
)
SAVE = (
    "UPDATE gates SET tat = e.value ->> 1, need = e.value ->> 2, opening = e.value ->> 3 FROM json_each(?) AS e "
    "WHERE name = e.value ->> 0"
)
# Gates with the queues whose lanes wait there, found by jumping from one to the next, and what the first lane's head
# weighs.
WAITED_AT = """
WITH RECURSIVE found (gate, queue) AS (
    SELECT name, (SELECT min(queue) FROM lanes WHERE state = 1 AND gate = gates.name) FROM gates
    UNION ALL
    SELECT gate, (SELECT min(queue) FROM lanes WHERE state = 1 AND gate = found.gate AND queue > found.queue)
    FROM found WHERE queue IS NOT NULL
)
SELECT gate, queue, (
    SELECT units FROM lanes WHERE state = 1 AND gate = found.gate AND queue = found.queue ORDER BY turn LIMIT 1
) FROM found WHERE queue IS NOT NULL
"""

OPEN, NOT_BY_TIME = -1, 0
"""When a gate opens: it is open, something else than time must happen, or an instant."""


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


def rate_of(rate: Rate | None) -> Rate | None:
    return rate if rate is not None and rate.every else None


def opening(now: int, tat: int, rate: Rate | None, units: int) -> int:
    """When a rate lets so many units pass: OPEN, or an instant in whole milliseconds."""
    if rate is None:
        return OPEN
    _, opens = arrive(tat, now * 1000, rate, units)
    return -(-opens // 1000) if opens else OPEN


class Book:
    """All gates by name."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.gates: dict[str, Gate] = {gate.name: gate for gate in _gates(tx.value(GATES))}
        self._limits: dict[str, Limits] = {}
        self._held: dict[str, int] | None = None
        self._changed: set[str] = set()
        self._gated: frozenset[str] | None = None

    # -- what holds

    def limits(self, name: str) -> Limits:
        known = self._limits.get(name)
        if known is None:
            gate = self.gates.get(name)
            known = self._limits[name] = NO_LIMITS if gate is None else over(gate.tuned, gate.declared)
        return known

    def forget(self, name: str) -> None:
        """It was tuned: what was made of it is not true any more."""
        self._limits.pop(name, None)
        self._gated = None

    def is_closing(self, name: str) -> bool:
        """Whether it may ever be closed, as it is now."""
        gate, limits = self.gates.get(name), self.limits(name)
        return gate is not None and bool(
            limits.limit or rate_of(limits.rate) or limits.paused or gate.closed_until > self.tx.now
        )

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
            for queue, task, breaker, units in self.tx.all(RUNNING):
                for name in (queue_gate(queue), task_gate(task), breaker_gate(breaker)):
                    self._held[name] = self._held.get(name, 0) + units
        return self._held

    def recount(self) -> None:
        """Jobs ceased to run."""
        self._held = None

    # -- asking and charging

    def opens(self, name: str, units: int) -> int:
        """When so many units may pass: OPEN, NOT_BY_TIME or an instant."""
        gate, limits, now = self.gates.get(name), self.limits(name), self.tx.now
        if gate is None:
            return OPEN
        if limits.paused or (limits.limit and not fits(self.held.get(name, 0), limits.limit, units)):
            return NOT_BY_TIME
        return max(gate.closed_until if gate.closed_until > now else OPEN,
                   opening(now, gate.tat, rate_of(limits.rate), units))  # fmt: skip

    def charge(self, name: str, units: int) -> None:
        """So many units pass. It was asked before, and is open."""
        gate = self.gates.get(name)
        if gate is None:
            return
        if self._held is not None:
            self._held[name] = self._held.get(name, 0) + units
        rate = rate_of(self.limits(name).rate)
        if rate is not None:
            gate.tat, _ = arrive(gate.tat, self.tx.now * 1000, rate, units)
            self._changed.add(name)

    def room(self, name: str) -> int:
        """How many units may pass now, as far as anybody could want."""
        if self.opens(name, 1) != OPEN:
            return 0
        room, limits, gate = MAX_BATCH, self.limits(name), self.gates.get(name)
        if limits.limit:
            room = min(room, max(1, limits.limit - self.held.get(name, 0)))
        rate = rate_of(limits.rate)
        if rate is not None and gate is not None:
            ahead = max(gate.tat - self.tx.now * 1000, 0)
            room = min(room, max(1, rate.burst - -(-ahead // rate.every)))
        return room

    def closed_for(self, task: str, terms: Terms | None) -> tuple[str, int] | None:
        """The first closed gate of a job, besides those of its queue and its key, and when it opens."""
        units = 1 if terms is None else terms.units
        names = [task_gate(task)] if terms is None or not terms.breaker else [
            task_gate(task), breaker_gate(terms.breaker)
        ]  # fmt: skip
        for name in names:
            when = self.opens(name, units)
            if when != OPEN:
                return name, when
        return None

    def charge_all(self, queue: str, task: str, terms: Terms | None) -> None:
        units = 1 if terms is None else terms.units
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
            return 0 if when == NOT_BY_TIME else 1
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
        for name, _, units in self.tx.all(WAITED_AT):
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
        return max(0, gate.closed_until - now, opening(now, gate.tat, rate_of(self.limits(name).rate), 1) - now)

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
            self.tx.run(SAVE, (msgspec.json.encode(values).decode(),))
