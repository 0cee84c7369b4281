"""Circuit breakers: when one opens, when it is tried again, and what its gate says then. Pure: time is an argument.

A breaker's truth is a gate in the store. ``closed_for`` keeps the gate shut; the limit set in the same write makes the
gate half-open by itself when that time is over, so no process has to do it. The gate's note holds the counters.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from windlass.core.limits import NO_LIMITS, Limits

SLOTS = 10
"""The window is counted in so many parts; what is older than the window goes a part at a time."""


class Mode(StrEnum):
    """CLOSED: all jobs pass. OPEN: none do. HALF_OPEN: a few at a time do, to see whether the task works again."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens: at ``errors`` in a ``window`` (0: not by count), or at a ``share`` of at least ``least``
    calls.

    It stays open for ``open_for`` ms. Then ``probes`` jobs at a time may try, and as many successes in a row close it.
    """

    errors: int = 5
    window: int = 60_000
    error_rate: float = 0.0
    least: int = 10
    open_for: int = 30_000
    probes: int = 1


class Counters(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """The state of a breaker. ``forced``: an operator set it, and errors change nothing. ``endless``: it stays open
    until an operator closes it.

    ``good``: successes since it became half-open. ``parts``: number, calls and errors of each part of the window.
    """

    mode: Mode = Mode.CLOSED
    forced: bool = False
    endless: bool = False
    good: int = 0
    parts: tuple[tuple[int, int, int], ...] = ()

    @property
    def calls(self) -> int:
        return sum(calls for _, calls, _ in self.parts)

    @property
    def errors(self) -> int:
        return sum(errors for _, _, errors in self.parts)


FRESH = Counters()
_decode = msgspec.json.Decoder(Counters).decode
_encode = msgspec.json.Encoder().encode


def after(state: Counters, rules: Rules, now: int, ok: int, failed: int) -> Counters:
    """The state after so many more calls. ``now``: ms of a clock on which all reporting workers agree to within one
    part.
    """
    if state.mode is Mode.OPEN:
        return state  # these calls began before it opened
    if state.mode is Mode.HALF_OPEN:
        return _probed(state, rules, ok, failed)
    state = msgspec.structs.replace(state, parts=counted(state.parts, rules.window, now, ok, failed))
    if failed and not state.forced and is_too_much(state, rules):
        return msgspec.structs.replace(state, mode=Mode.OPEN)
    return state


def _probed(state: Counters, rules: Rules, ok: int, failed: int) -> Counters:
    if failed:
        return msgspec.structs.replace(state, mode=Mode.OPEN, good=0)
    if state.good + ok >= rules.probes:
        return FRESH
    return msgspec.structs.replace(state, good=state.good + ok)


def is_too_much(state: Counters, rules: Rules) -> bool:
    if rules.errors and state.errors >= rules.errors:
        return True
    return bool(rules.error_rate) and state.calls >= rules.least and state.errors >= rules.error_rate * state.calls


def counted(
    parts: tuple[tuple[int, int, int], ...], window: int, now: int, ok: int, failed: int
) -> tuple[tuple[int, int, int], ...]:
    """The window with these calls added and outdated parts removed. A clock that is behind counts in the
    newest part.
    """
    number = max(now * SLOTS // max(window, SLOTS), max((part[0] for part in parts), default=0))
    kept = {part[0]: part[1:] for part in parts if number - SLOTS < part[0]}
    calls, errors = kept.get(number, (0, 0))
    kept[number] = (calls + ok + failed, errors + failed)
    return tuple((part, *counts) for part, counts in sorted(kept.items()) if counts[0])


# -- an operator's word


def force_open(state: Counters, endless: bool) -> Counters:
    return Counters(Mode.OPEN, True, endless, 0, state.parts)


FORCED_CLOSED = Counters(Mode.CLOSED, True)


# -- the gate


def read(note: bytes, closed_for: int) -> Counters:
    """The state that a gate's note stands for. An open breaker whose time is over is half-open for every reader."""
    try:
        state = _decode(note) if note else FRESH
    except msgspec.MsgspecError:
        state = FRESH
    if state.mode is Mode.OPEN and not closed_for and not state.endless:
        return Counters(Mode.HALF_OPEN, parts=state.parts)
    return state


def write(state: Counters) -> bytes:
    """The note for a state; empty for a breaker with nothing to remember, so that its gate may be forgotten."""
    return b"" if state == FRESH else _encode(state)


def limits_of(state: Counters, rules: Rules) -> Limits:
    """The limits that put this state into effect at the gate: shut for good, a few at a time, or none."""
    if state.mode is Mode.CLOSED:
        return NO_LIMITS
    return Limits(paused=True) if state.endless else Limits(limit=rules.probes)
