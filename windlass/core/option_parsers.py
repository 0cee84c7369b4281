"""Parsers that all kinds of options are made of. Each turns what a user wrote into what the code uses, or raises a
clear error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TypeVar

from windlass.core.hints import did_you_mean
from windlass.core.job import State
from windlass.errors import ConfigError

F = TypeVar("F", bound=Callable[..., object])


def plain_function(fn: F, what: str) -> F:
    """Refuse an async function where the answer is needed at once: its coroutine would never be awaited."""
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
        raise ConfigError(f"{what} is the async function {fn!r}; give a plain one: its answer is needed at once")
    return fn


def whole(low: int, high: int) -> Callable[[object, str], int]:
    def parse(value: object, what: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ConfigError(f"{what} is {value!r}; give a whole number from {low} to {high}")
        return value

    return parse


def choice(*allowed: str) -> Callable[[object, str], str]:
    def parse(value: object, what: str) -> str:
        if value not in allowed:
            hint = did_you_mean(str(value), allowed)
            raise ConfigError(f"{what} is {value!r}{hint}; give one of {', '.join(map(repr, allowed))}")
        return str(value)

    return parse


def parse_states(state: State | str | Sequence[State | str]) -> tuple[State, ...]:
    """The states of that name, or those names."""
    names = [state] if isinstance(state, str) else list(state)
    for name in names:
        if name not in list(State):
            known = [state.value for state in State]
            raise ConfigError(f"unknown state {name!r}{did_you_mean(str(name), known)}; one of {', '.join(known)}")
    return tuple(State(name) for name in names)
