"""When an attempt failed: whether to try again, and after how long. Pure; jitter enters as a number in [0, 1)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.core import safe
from windlass.core.duration import Duration, to_ms
from windlass.core.option_parsers import plain_function
from windlass.errors import ConfigError, Reject, Retry

MAX_POWER = 60

BackoffFn = Callable[[int, BaseException], object]
Matcher = type[BaseException] | Callable[[BaseException], bool]
Matchers = Matcher | Sequence[Matcher]


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay before every attempt, spread by ``jitter`` (0.2 means up to 20 % either way)."""

    delay: Duration = 5
    jitter: float = 0.0

    def __post_init__(self) -> None:
        to_ms(self.delay, "Fixed.delay")
        _check_jitter(self.jitter)

    def ms(self, attempt: int, rand: float) -> int:
        return _spread(to_ms(self.delay), self.jitter, rand)


@dataclass(frozen=True, slots=True)
class Exponential:
    """``base``, ``base × factor``, ``base × factor²``, …, at most ``cap``, spread by ``jitter``."""

    base: Duration = 1
    factor: float = 2.0
    cap: Duration = "1h"
    jitter: float = 0.2

    def __post_init__(self) -> None:
        to_ms(self.base, "Exponential.base")
        to_ms(self.cap, "Exponential.cap")
        _check_jitter(self.jitter)
        if not self.factor >= 1:
            raise ConfigError(f"Exponential.factor is {self.factor!r}; it must be at least 1")

    def ms(self, attempt: int, rand: float) -> int:
        cap = to_ms(self.cap)
        grown = min(to_ms(self.base) * self.factor ** min(attempt - 1, MAX_POWER), cap)
        return min(_spread(round(grown), self.jitter, rand), cap)


@dataclass(frozen=True, slots=True)
class Steps:
    """One delay per attempt; the last one repeats."""

    delays: tuple[int, ...]

    def ms(self, attempt: int, rand: float) -> int:
        return self.delays[min(attempt, len(self.delays)) - 1]


Backoff = Fixed | Exponential | Steps
BackoffOption = Duration | Sequence[Duration] | Fixed | Exponential | BackoffFn


def _check_jitter(value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"jitter is {value!r}; it must be between 0 and 1")


def _spread(ms: int, jitter: float, rand: float) -> int:
    return max(0, round(ms * (1 + jitter * (2 * rand - 1))))


def parse_backoff(value: object) -> Backoff | BackoffFn:
    """Any of the ways to write a backoff: a kind, a delay, a list, an object or a function."""
    if isinstance(value, (Fixed, Exponential, Steps)):
        return value
    if value == "exponential":
        return Exponential()
    if value == "fixed":
        return Fixed()
    if isinstance(value, (list, tuple)):
        if not value:
            raise ConfigError("backoff is an empty list; give at least one delay")
        return Steps(tuple(to_ms(item, "backoff") for item in value))
    if callable(value):
        return plain_function(value, "backoff")
    try:
        return Steps((to_ms(value, "backoff"),))
    except ConfigError as error:
        raise ConfigError(
            f"backoff is {value!r}; give 'fixed', 'exponential', a delay, a list of delays, Fixed(...), "
            "Exponential(...) or a function of (attempt, exception)"
        ) from error


def portable_backoff(value: object) -> Any:
    """A call's backoff as JSON, so that it can travel with the job."""
    backoff = parse_backoff(value)
    if isinstance(backoff, Fixed):
        return {"fixed": to_ms(backoff.delay), "jitter": backoff.jitter}
    if isinstance(backoff, Exponential):
        return {
            "exponential": to_ms(backoff.base), "factor": backoff.factor, "cap": to_ms(backoff.cap),
            "jitter": backoff.jitter,
        }  # fmt: skip
    if isinstance(backoff, Steps):
        return {"steps": list(backoff.delays)}
    raise ConfigError("a backoff function cannot travel with a call; give it to the task or the queue")


def read_backoff(value: Any) -> Backoff:
    """The inverse of ``portable_backoff``."""
    if "fixed" in value:
        return Fixed(f"{value['fixed']}ms", value["jitter"])
    if "exponential" in value:
        return Exponential(f"{value['exponential']}ms", value["factor"], f"{value['cap']}ms", value["jitter"])
    return Steps(tuple(value["steps"]))


def parse_matchers(value: object, what: str) -> tuple[Matcher, ...]:
    """``retry_on`` and ``give_up_on``: exception types and predicates, one or several."""
    items = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    for item in items:
        if (isinstance(item, type) and not issubclass(item, BaseException)) or not callable(item):
            raise ConfigError(f"{what} has {item!r}; give exception types or functions of the exception")
        plain_function(item, what)
    return tuple(items)


def matches(exc: BaseException, matchers: tuple[Matcher, ...]) -> bool:
    return any(
        isinstance(exc, item) if isinstance(item, type) else bool(_answer(item(exc), "a predicate"))
        for item in matchers
    )


def _answer(given: object, what: str) -> object:
    """Check the answer of a user's function. A coroutine is refused: it is true to every predicate, and it is no
    number.
    """
    if inspect.iscoroutine(given):
        given.close()
        raise ConfigError(f"{what} of the retry policy gave a coroutine; it must answer at once")
    return given


def requeue_delay(before: int) -> int:
    """Milliseconds until a job that was put back ``before`` times is given out again. It grows, so that refusals do not
    spin.
    """
    return int(min(60_000, 100 * 2 ** min(before, 10)))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What a task says about errors. ``retry_on`` empty means every exception."""

    retries: int = 0
    backoff: Backoff | BackoffFn = Exponential()
    retry_on: tuple[Matcher, ...] = ()
    give_up_on: tuple[Matcher, ...] = ()

    def next_delay(self, attempt: int, exc: BaseException, rand: float) -> tuple[int | None, str]:
        """Milliseconds until the next attempt, or None with the reason for giving up. ``attempt`` counts from 1."""
        if isinstance(exc, Reject):
            return None, safe.text(exc, safe.MAX_REASON) or "rejected"
        if attempt > self.retries:
            return None, "no retries left" if self.retries else "no retries"
        if isinstance(exc, Retry):
            if exc.delay is not None:
                return to_ms(exc.delay, "Retry.delay"), ""
        elif matches(exc, self.give_up_on):
            return None, f"gave up on {type(exc).__name__}"
        elif self.retry_on and not matches(exc, self.retry_on):
            return None, f"{type(exc).__name__} is not in retry_on"
        return self._backoff(attempt, exc, rand)

    def _backoff(self, attempt: int, exc: BaseException, rand: float) -> tuple[int | None, str]:
        if isinstance(self.backoff, (Fixed, Exponential, Steps)):
            return self.backoff.ms(attempt, rand), ""
        delay = _answer(self.backoff(attempt, exc), "the backoff function")
        if delay is None:
            return None, "the backoff function gave up"
        return to_ms(delay, "backoff"), ""
