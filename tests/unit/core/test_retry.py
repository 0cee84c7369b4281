"""Whether a failed attempt is followed by another, and when."""

from __future__ import annotations

import json

import pytest

from windlass.core.retry import (
    Exponential,
    Fixed,
    RetryPolicy,
    Steps,
    parse_backoff,
    parse_matchers,
    portable_backoff,
    read_backoff,
)
from windlass.errors import ConfigError, Reject, Retry

ANY = ValueError("x")


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Fixed(2), [2_000, 2_000, 2_000]),
        (Exponential(jitter=0), [1_000, 2_000, 4_000]),
        (Exponential(base="100ms", factor=3, jitter=0), [100, 300, 900]),
        (Exponential(base=10, cap=15, jitter=0), [10_000, 15_000, 15_000]),
        (Exponential(factor=1, jitter=0), [1_000, 1_000, 1_000]),
        (Steps((1, 5)), [1, 5, 5]),
    ],
)
def test_delays_by_attempt(backoff: Fixed | Exponential | Steps, delays: list[int]) -> None:
    assert [backoff.ms(attempt, 0.5) for attempt in (1, 2, 3)] == delays


def test_a_late_attempt_does_not_overflow() -> None:
    assert Exponential(jitter=0).ms(100_000, 0.5) == 3_600_000


@pytest.mark.parametrize(("rand", "ms"), [(0.0, 8_000), (0.5, 10_000), (0.75, 11_000), (0.999999, 12_000)])
def test_jitter_spreads_both_ways(rand: float, ms: int) -> None:
    assert Fixed(10, jitter=0.2).ms(1, rand) == ms
    assert Exponential(base=10, jitter=0.2).ms(1, rand) == ms


def test_jitter_stays_between_nothing_and_the_cap() -> None:
    assert Fixed(10, jitter=1).ms(1, 0.0) == 0
    assert Exponential(base=10, cap=10, jitter=1).ms(1, 0.999999) == 10_000


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("fixed", Fixed()),
        ("exponential", Exponential()),
        (5, Steps((5_000,))),
        ("10s", Steps((10_000,))),
        ([1, "1m"], Steps((1_000, 60_000))),
        (Fixed(3), Fixed(3)),
    ],
)
def test_ways_to_write_a_backoff(written: object, means: object) -> None:
    assert parse_backoff(written) == means


@pytest.mark.parametrize("wrong", ["linear", [], None, object(), -1])
def test_wrong_backoffs_fail(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^backoff is"):
        parse_backoff(wrong)


@pytest.mark.parametrize(
    "make", [lambda: Fixed("soon"), lambda: Fixed(1, 2), lambda: Exponential(factor=0.5), lambda: Exponential(cap=-1),
             lambda: Exponential(jitter=-0.1), lambda: Exponential(factor=float("nan"))],
)  # fmt: skip
def test_wrong_limits_fail_where_they_are_written(make) -> None:
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    "backoff", [Fixed("250ms", 0.1), Exponential(2, 3, "5m", 0.5), Steps((1, 2)), 7, "exponential"]
)
def test_a_backoff_travels_as_json(backoff: object) -> None:
    back = read_backoff(json.loads(json.dumps(portable_backoff(backoff))))
    for attempt in (1, 2, 5):
        assert back.ms(attempt, 0.3) == parse_backoff(backoff).ms(attempt, 0.3)


def test_a_function_does_not_travel() -> None:
    with pytest.raises(ConfigError, match="cannot travel"):
        portable_backoff(lambda attempt, exc: 1)


# -- the policy

POLICY = RetryPolicy(2, Fixed(1))


@pytest.mark.parametrize(
    ("policy", "attempt", "exc", "answer"),
    [
        (RetryPolicy(), 1, ANY, (None, "no retries")),
        (POLICY, 1, ANY, (1_000, "")),
        (POLICY, 2, ANY, (1_000, "")),
        (POLICY, 3, ANY, (None, "no retries left")),
        (POLICY, 1, Retry(delay="5s"), (5_000, "")),
        (POLICY, 1, Retry(delay=0), (0, "")),
        (POLICY, 1, Retry(), (1_000, "")),
        (POLICY, 3, Retry(delay=1), (None, "no retries left")),
        (POLICY, 1, Reject("broken"), (None, "broken")),
        (RetryPolicy(2, Fixed(1), retry_on=(OSError,)), 1, ConnectionError(), (1_000, "")),
        (RetryPolicy(2, Fixed(1), retry_on=(OSError,)), 1, ANY, (None, "ValueError is not in retry_on")),
        (RetryPolicy(2, Fixed(1), retry_on=(OSError,)), 1, Retry(), (1_000, "")),
        (RetryPolicy(2, Fixed(1), give_up_on=(ValueError,)), 1, ANY, (None, "gave up on ValueError")),
        (RetryPolicy(2, Fixed(1), (ValueError,), (ValueError,)), 1, ANY, (None, "gave up on ValueError")),
        (RetryPolicy(2, Fixed(1), give_up_on=(lambda exc: "x" in str(exc),)), 1, ANY, (None, "gave up on ValueError")),
        (RetryPolicy(2, lambda attempt, exc: attempt * 10), 2, ANY, (20_000, "")),
        (RetryPolicy(2, lambda attempt, exc: None), 1, ANY, (None, "the backoff function gave up")),
    ],
)
def test_the_next_attempt(
    policy: RetryPolicy, attempt: int, exc: BaseException, answer: tuple[int | None, str]
) -> None:
    assert policy.next_delay(attempt, exc, 0.5) == answer


def test_matchers_are_types_and_functions() -> None:
    def predicate(exc: BaseException) -> bool:
        return True

    assert parse_matchers(ValueError, "retry_on") == (ValueError,)
    assert parse_matchers([ValueError, predicate], "retry_on") == (ValueError, predicate)
    for wrong in (int, "ValueError", [None], 3):
        with pytest.raises(ConfigError, match=r"^retry_on has"):
            parse_matchers(wrong, "retry_on")
