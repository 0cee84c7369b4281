"""Circuit breakers by name: ``app.breaker("stripe")``, shared by tasks, by code that uses it, and by all processes.

The state of a breaker is the note at the gate ``breaker:NAME``; ``core/breaker.py`` decides what it becomes. Each
process counts calls and errors here and writes them to the gate by compare-and-set: errors within 20 ms, successes
within a second. A store that cannot be reached opens no breaker.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, TypedDict

import msgspec

from windlass.calls.declared import Declared
from windlass.connections.connections import Connections
from windlass.core import breaker
from windlass.core.breaker import FORCED_CLOSED, FRESH, Counters, Mode, Rules
from windlass.core.duration import Duration, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.core.option_parsers import choice, whole
from windlass.core.terms import breaker_gate
from windlass.errors import BreakerOpen, Cancel, ConfigError, Reject, Retry, Snooze, StoreError
from windlass.limits.locks import check_place
from windlass.store.base import Store
from windlass.store.flow import GateInfo, Tuning

log = logging.getLogger("windlass")

Kinds = type[BaseException] | tuple[type[BaseException], ...]
WhenOpen = Literal["hold", "fail", "drop"]

SEEN_SECONDS = 1.0
"""After so long a process reads the state of a breaker again before it makes a call."""
SOON, LAZILY = 0.02, 1.0
TRIES = 100


class BreakerOptions(TypedDict, total=False):
    """Options of ``app.breaker(name, ...)``.

    It opens at ``errors`` in the ``window``, or at a share ``error_rate`` (0 to 1) of at least ``least`` calls, for
    ``open_for``; then ``probes`` at a time may try. ``trip_on`` are errors, except what is in ``ignore``.
    ``when_open``, of its tasks' jobs: "hold" them, or let them "fail" as an attempt, or "drop" them as cancelled.
    """

    errors: int | None
    window: Duration
    error_rate: float | None
    least: int
    open_for: Duration
    probes: int
    when_open: WhenOpen
    trip_on: Kinds
    ignore: Kinds


class BreakerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker as it is now. ``forced``: by an operator. ``until``: when an open one will be tried again, if ever.

    ``running``: jobs that try it, counted while it is not closed. ``waiting``: lanes of jobs it holds.
    """

    name: str
    state: Mode
    forced: bool = False
    errors: int = 0
    calls: int = 0
    until: datetime | None = None
    running: int = 0
    waiting: int = 0


def info_of(name: str, gate: GateInfo) -> BreakerInfo:
    """A breaker as its gate says it is."""
    found = breaker.read(gate.note, gate.closed_for)
    ends = found.mode is Mode.OPEN and not found.endless
    until = datetime.now(UTC) + timedelta(milliseconds=gate.closed_for) if ends else None
    return BreakerInfo(
        name=name, state=found.mode, forced=found.forced, errors=found.errors, calls=found.calls, until=until,
        running=gate.held, waiting=gate.waiting,
    )  # fmt: skip


class Settings(msgspec.Struct, frozen=True):
    """A breaker's options, checked."""

    rules: Rules = Rules()
    when_open: str = "hold"
    trip_on: tuple[type[BaseException], ...] = (Exception,)
    ignore: tuple[type[BaseException], ...] = ()


def parse_breaker(name: str, given: Mapping[str, Any]) -> Settings:
    """Checked options, or a ConfigError that says what is wrong."""
    where = f"breaker {name}"
    for option in given:
        if option not in BreakerOptions.__annotations__:
            raise ConfigError(f"{where} got an unknown option {option!r}{did_you_mean(option, _OPTIONS)}")
    rules = Rules(
        errors=whole(0, MOST)(given.get("errors", 5) or 0, f"{where}: errors"),
        window=_duration(given.get("window", 60), f"{where}: window"),
        error_rate=_share(given.get("error_rate"), where),
        least=whole(1, MOST)(given.get("least", 10), f"{where}: least"),
        open_for=_duration(given.get("open_for", 30), f"{where}: open_for"),
        probes=whole(1, MOST)(given.get("probes", 1), f"{where}: probes"),
    )
    if not rules.errors and not rules.error_rate:
        raise ConfigError(f"{where}: with neither errors nor error_rate it would never open")
    when_open = choice("hold", "fail", "drop")(given.get("when_open", "hold"), f"{where}: when_open")
    trip_on, ignore = given.get("trip_on", Exception), given.get("ignore", ())
    return Settings(rules, when_open, _kinds(trip_on, f"{where}: trip_on"), _kinds(ignore, f"{where}: ignore"))


_OPTIONS = tuple(BreakerOptions.__annotations__)
MOST = 1_000_000


def _duration(value: object, what: str) -> int:
    ms = to_ms(value, what)
    if not ms:
        raise ConfigError(f"{what} is {value!r}; give a duration above 0")
    return ms


def _share(value: object, where: str) -> float:
    if value is None:
        return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ConfigError(f"{where}: error_rate is {value!r}; give a number above 0 and up to 1, such as 0.5")
    return float(value)


def _kinds(value: object, what: str) -> tuple[type[BaseException], ...]:
    kinds = value if isinstance(value, tuple | list) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise ConfigError(f"{what} is {value!r}; give classes of exceptions")
    return tuple(kinds)


class Breaker:
    """What ``app.breaker(name)`` gives. ``async with`` it around a call, or ``with`` it in plain code."""

    def __init__(self, connections: Connections, name: str) -> None:
        self._connections, self.name = connections, check_name("breaker", name)
        self._gate = breaker_gate(name)
        self.settings = Settings()
        self._lock = threading.Lock()
        self._ok = self._failed = self._inside = 0
        self._due = float("inf")
        self._seen, self._seen_at = FRESH, float("-inf")
        self._sending: set[asyncio.Task[None]] = set()

    def declare(self, options: Mapping[str, Any]) -> None:
        """Set the breaker's options. A second declaration must say the same, or each place would go by its own."""
        settings = parse_breaker(self.name, options)
        if self.settings not in (Settings(), settings):
            raise ConfigError(f"breaker {self.name} is declared twice, and differently")
        self.settings = settings

    # -- asking and telling

    async def state(self) -> BreakerInfo:
        """The breaker as the store has it."""
        return info_of(self.name, await self._read(await self._store()))

    async def open(self, for_: Duration | None = None) -> BreakerInfo:
        """Open it by hand: until told otherwise, or ``for_`` so long, after which it is tried again."""
        closed_for = 0 if for_ is None else _duration(for_, f"breaker {self.name}: for_")
        return await self._force(breaker.force_open(FRESH, endless=for_ is None), closed_for)

    async def close(self) -> BreakerInfo:
        """Close it by hand: it stays closed, whatever fails, until ``auto``."""
        return await self._force(FORCED_CLOSED, 0)

    async def auto(self) -> BreakerInfo:
        """Let it follow the errors again. It begins closed."""
        return await self._force(FRESH, 0)

    async def _force(self, state: Counters, closed_for: int) -> BreakerInfo:
        store = await self._store()
        await store.tune([self._tuning(state, -1, closed_for)])
        self._saw(state)
        return await self.state()

    # -- around calls

    def counts(self, error: BaseException) -> bool:
        """Whether an exception is an error to this breaker. What a task says about its own job is none."""
        if isinstance(error, Retry):
            cause = error.__cause__ or error.__context__
            return cause is not None and self.counts(cause)
        if isinstance(error, (Snooze, Cancel, Reject, BreakerOpen, asyncio.CancelledError)):
            return False
        return isinstance(error, self.settings.trip_on) and not isinstance(error, self.settings.ignore)

    async def look(self) -> None:
        """Read the breaker's state from the store, unless that was done within the last second."""
        if self._is_stale():
            self._seen_at = time.monotonic()  # now, so that those who come meanwhile do not ask as well
            try:
                gate = await self._read(await self._store())
            except StoreError as error:
                log.warning("breaker %s: the store cannot be asked: %s", self.name, error)
            else:
                self._saw(breaker.read(gate.note, gate.closed_for))

    def _is_stale(self) -> bool:
        return time.monotonic() - self._seen_at > SEEN_SECONDS

    def enter(self) -> None:
        """Begin a call; BreakerOpen if it may not be made. Each ``enter`` needs a ``leave``."""
        with self._lock:
            mode = self._seen.mode
            if mode is Mode.OPEN or (mode is Mode.HALF_OPEN and self._inside >= self.settings.rules.probes):
                raise BreakerOpen(f"breaker {self.name} is open")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1

    async def __aenter__(self) -> Self:
        check_place(self._connections)
        await self.look()
        self.enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._left(error)

    def __enter__(self) -> Self:
        check_place(self._connections)
        if self._is_stale():
            self._connections.portal.call(self.look)
        self.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._left(error)

    def _left(self, error: BaseException | None) -> None:
        self.leave()
        if error is None:
            self.report(ok=1)
        elif self.counts(error):
            self.report(failed=1)

    # -- reports

    def report(self, ok: int = 0, failed: int = 0) -> None:
        """Count so many more calls. From any thread; the counts are written to the store a moment later."""
        with self._lock:
            self._ok += ok
            self._failed += failed
            now = time.monotonic()
            delay = SOON if failed or self._seen.mode is not Mode.CLOSED else LAZILY
            overdue = now > self._due + LAZILY  # the loop that was to send it has ended
            if now + delay >= self._due and not overdue:
                return
            self._due = now + delay
        self._start(self._send_in(delay))

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        loop = asyncio._get_running_loop()
        if loop is None:
            self._connections.portal.submit(lambda: sending)
            return
        task = loop.create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_in(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self.flush()

    async def flush(self) -> None:
        """Write what was counted to the store now."""
        with self._lock:
            ok, failed, self._ok, self._failed, self._due = self._ok, self._failed, 0, 0, float("inf")
        if not ok and not failed:
            return
        try:
            await self._tell(await self._store(), ok, failed)
        except StoreError as error:
            log.warning("breaker %s: %d calls and %d errors could not be told: %s", self.name, ok, failed, error)

    async def settle(self) -> None:
        """Write what was counted before this loop ends; what it would have written later is not written twice."""
        loop = asyncio.get_running_loop()
        for task in [task for task in self._sending if task.get_loop() is loop]:
            task.cancel()
        await self.flush()

    async def _tell(self, store: Store, ok: int, failed: int) -> None:
        """Add the counts to the breaker's note by compare-and-set, again for as long as others change it in between."""
        rules, gate = self.settings.rules, await self._read(store)
        for _ in range(TRIES):
            before = breaker.read(gate.note, gate.closed_for)
            state = breaker.after(before, rules, time.time_ns() // 1_000_000, ok, failed)
            self._saw(state)
            if state == before or not (failed or rules.error_rate or before.mode is not Mode.CLOSED):
                return  # nothing anybody needs to know
            tuning = Tuning(name=self._gate, expect=gate.version, note=breaker.write(state))
            if state.mode is not before.mode:
                log.warning("breaker %s is %s", self.name, state.mode)
                tuning = self._tuning(state, gate.version, rules.open_for if state.mode is Mode.OPEN else 0)
            (gate,) = await store.tune([tuning])
            if gate.changed:
                return
            await asyncio.sleep(random.uniform(0, 0.01))
        log.warning("breaker %s: gave up telling after %d tries", self.name, TRIES)

    def _tuning(self, state: Counters, expect: int, closed_for: int) -> Tuning:
        limits = breaker.limits_of(state, self.settings.rules)
        return Tuning(name=self._gate, expect=expect, tuned=limits, closed_for=closed_for, note=breaker.write(state))

    def _saw(self, state: Counters) -> None:
        self._seen, self._seen_at = state, time.monotonic()

    async def _store(self) -> Store:
        return (await self._connections.client()).store

    async def _read(self, store: Store) -> GateInfo:
        found = await store.gates([self._gate])
        return found[0] if found else GateInfo(name=self._gate)

    def __repr__(self) -> str:
        return f"<breaker {self.name}>"


class Breakers:
    """The breakers an app names. One that is new to it is made."""

    def __init__(self, connections: Connections, declared: Declared) -> None:
        self._connections, self._declared = connections, declared
        self.known: dict[str, Breaker] = {}

    def get(self, name: str, options: Mapping[str, Any]) -> Breaker:
        """The breaker of this name, declared so if options are given."""
        known = self.known.get(name) or self.known.setdefault(name, Breaker(self._connections, name))
        if options:
            known.declare(options)
            loose = self._declared.loose_breakers
            (loose.discard if known.settings.when_open == "hold" else loose.add)(name)
            self._declared.forget_resolved()
        return known

    def names(self) -> set[str]:
        """All that code names: breakers that were asked for, and those of tasks."""
        layers = (task.layer for task in self._declared.tasks.values())
        return {*self.known, *(layer["breaker"] for layer in layers if layer.get("breaker"))}

    async def every(self) -> list[BreakerInfo]:
        """Those that code names, and those with anything to say in the store."""
        prefix, store = breaker_gate(""), (await self._connections.client()).store
        gates = {gate.name.removeprefix(prefix): gate for gate in await store.gates() if gate.name.startswith(prefix)}
        names = sorted({*gates, *self.names()})
        return [info_of(name, gates.get(name) or GateInfo(name=breaker_gate(name))) for name in names]

    async def settle(self) -> None:
        """Write what every breaker has counted before this loop ends."""
        for known in self.known.values():
            await known.settle()
