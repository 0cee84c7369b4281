"""Gates for operators: pause, resume and tune them, and see what holds. The store keeps them; nothing is kept here.

What an operator says goes over what the code says, field by field. Every change is a compare-and-set, so that two
operators who change different things both get what they said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from windlass.connections.connections import Connected
from windlass.core.ids import check_name
from windlass.core.limits import NO_LIMITS, Limits, Rate, limiting
from windlass.core.options import parse_options
from windlass.core.terms import task_gate
from windlass.errors import ConfigError, StoreError
from windlass.store.flow import GateInfo, Tuning

TRIES = 20


class TaskTuning(TypedDict, total=False):
    """What can be tuned of a task. None: no limit."""

    rate: str | Rate | None
    limit: int | None


class QueueTuning(TaskTuning, total=False):
    """What can be tuned of a queue. None: no limit."""

    key_limit: int | None
    key_rate: str | Rate | None
    max_ready: int | None


class LimitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A gate and what holds there; None where nothing is limited.

    ``kind`` is queue, task or breaker, ``name`` its name. ``tuned``: what of it is an operator's word. ``held``: units
    of the jobs that run, counted only where there is a limit. ``waiting``: lanes that wait there. ``opens_in``: ms
    until its rate, or the end of a closure, lets one unit through; ``closed_for``: ms of that closure.
    """

    kind: str
    name: str
    paused: bool = False
    draining: bool = False
    limit: int | None = None
    rate: Rate | None = None
    key_limit: int | None = None
    key_rate: Rate | None = None
    max_ready: int | None = None
    tuned: tuple[str, ...] = ()
    held: int = 0
    waiting: int = 0
    opens_in: int = 0
    closed_for: int = 0


def limit_info(gate: GateInfo) -> LimitInfo:
    kind, _, name = gate.name.partition(":")
    limits = gate.limits
    return LimitInfo(
        kind=kind, name=name, paused=bool(limits.paused), draining=bool(limits.draining), limit=limits.limit or None,
        rate=limiting(limits.rate), key_limit=limits.key_limit or None, key_rate=limiting(limits.key_rate),
        max_ready=limits.max_ready or None, held=gate.held, waiting=gate.waiting, opens_in=gate.opens_in,
        closed_for=gate.closed_for,
        tuned=tuple(name for name in Limits.__struct_fields__ if getattr(gate.tuned, name) is not None),
    )  # fmt: skip


async def read_gate(connected: Connected, gate: str) -> GateInfo:
    """Read a gate. One that the store does not have limits nothing."""
    client = await connected.client()
    found = await client.store.gates([gate])
    return found[0] if found else GateInfo(name=gate)


async def retune(connected: Connected, gate: str, **said: Any) -> GateInfo:
    """Change what an operator says of a gate; None takes a word back."""
    client = await connected.client()
    before = await read_gate(connected, gate)
    for _ in range(TRIES):
        tuned = msgspec.structs.replace(before.tuned, **said)
        if tuned == before.tuned:
            return before
        (now,) = await client.store.tune([Tuning(name=gate, expect=before.version, tuned=tuned)])
        if now.changed:
            return now
        before = now
    raise StoreError(f"gate {gate} was changed by others {TRIES} times in a row; try again")


async def all_limits(connected: Connected) -> list[LimitInfo]:
    """Gates that say something; engines may remember others for a while."""
    client = await connected.client()
    known = [gate for gate in await client.store.gates() if gate.note or gate.closed_for or gate.limits != NO_LIMITS]
    return sorted(map(limit_info, known), key=lambda info: (info.kind, info.name))


def check_tuning(given: dict[str, Any], names: Sequence[str], where: str) -> dict[str, Any]:
    """What was given, parsed; at least one must be."""
    if not given:
        raise ConfigError(f"{where}: say what to tune: {', '.join(names)}")
    return parse_options(given, names, where)


TASK_TUNING = tuple(TaskTuning.__annotations__)
QUEUE_TUNING = tuple(QueueTuning.__annotations__)
UNTUNED: dict[str, Any] = dict.fromkeys(QUEUE_TUNING)
"""No word on any limit. Pauses are no limits, and stay."""


class TaskGate:
    """A task's gate, also of a task that is known only by its name: what ``app.task_gate(name)`` gives."""

    def __init__(self, connected: Connected, name: str) -> None:
        self._connected, self.name = connected, check_name("task", name)
        self._gate = task_gate(self.name)

    async def pause(self) -> None:
        """Start no more jobs of this task, on no worker and in no queue. Those that run go on."""
        await retune(self._connected, self._gate, paused=True)

    async def resume(self) -> None:
        """Take a pause back."""
        await retune(self._connected, self._gate, paused=None)

    async def tune(self, **limits: Unpack[TaskTuning]) -> None:
        """Say other limits than the code does, for all workers and at once; None is no limit."""
        await retune(self._connected, self._gate, **check_tuning({**limits}, TASK_TUNING, f"task {self.name}"))

    async def untune(self) -> None:
        """Let what the code says hold again. A pause stays."""
        await retune(self._connected, self._gate, **UNTUNED)

    async def info(self) -> LimitInfo:
        """What holds now."""
        return limit_info(await read_gate(self._connected, self._gate))

    def __repr__(self) -> str:
        return f"<gate of task {self.name}>"
