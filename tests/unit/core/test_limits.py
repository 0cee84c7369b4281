"""The arithmetic of gates: rates as they are written, GCRA, weights, and who has the last word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.limits import (
    NO_LIMITS,
    OPEN,
    Limits,
    Rate,
    arrive,
    bounds_claims,
    cut_tat,
    fits,
    in_force,
    limiting,
    may_close,
    parse_rate,
    rate_opens,
    show_rate,
    spare,
)
from windlass.core.terms import Terms, is_strict, key_gate, key_limits, lane_of
from windlass.errors import ConfigError

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "every", "burst"),
    [
        ("10/m", 6 * SECOND, 1),
        ("1/s", SECOND, 1),
        ("3/s", 333_334, 1),
        ("5/30s", 6 * SECOND, 1),
        ("2/1h 30m", 2_700 * SECOND, 1),
        ("10/minute", 6 * SECOND, 1),
        ("100/s, burst 20", 10_000, 20),
        ("100/s burst 20", 10_000, 20),
        ("100/s", 10_102, 2),
        ("1/d", 86_400 * SECOND, 1),
    ],
)
def test_rates_as_they_are_written(text: str, every: int, burst: int) -> None:
    rate = parse_rate(text)
    assert (rate.every, rate.burst) == (every, burst)
    assert show_rate(rate) == text


@pytest.mark.parametrize("wrong", ["10", "x/m", "0/s", "10/x", "10/0s", "1/s, burst 0", 5, "", "2000000/s", True])
def test_what_is_no_rate(wrong: object) -> None:
    with pytest.raises(ConfigError, match="rate"):
        parse_rate(wrong)


def test_none_is_no_limit() -> None:
    assert parse_rate(None) == Rate(0, 0)
    assert show_rate(parse_rate(None)) == "no limit"
    assert parse_rate(Rate(7, 2)) == Rate(7, 2)


def starts(rate: Rate, asks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The instants at which units passed, when someone asks after each pause for so many units."""
    tat = now = 0
    passed = []
    for pause, units in asks:
        now += pause
        tat, opens = arrive(tat, now, rate, units)
        if not opens:
            passed.append((now, units))
        else:
            assert opens > now
            assert arrive(tat, opens, rate, units)[1] == 0, "it opens when it says"
            assert arrive(tat, opens - 1, rate, units)[1] == opens, "and not before"
    return passed


@settings(derandomize=True, max_examples=200)
@given(
    count=st.integers(1, 500),
    period=st.sampled_from([SECOND, 60 * SECOND]),
    asks=st.lists(st.tuples(st.integers(0, 500_000), st.just(1)), max_size=200),
)
def test_no_window_sees_more_than_the_rate(count: int, period: int, asks: list[tuple[int, int]]) -> None:
    rate = parse_rate(f"{count}/{'s' if period == SECOND else 'm'}")
    passed = [at for at, _ in starts(rate, asks)]
    for first, at in enumerate(passed):
        assert sum(at <= other < at + period for other in passed[first:]) <= count


@settings(derandomize=True, max_examples=100)
@given(
    burst=st.integers(1, 20),
    asks=st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 5)), max_size=100),
)
def test_a_burst_and_weights_are_bounded(burst: int, asks: list[tuple[int, int]]) -> None:
    rate = Rate(10_000, burst)
    passed = starts(rate, asks)
    for first, (at, _) in enumerate(passed):
        for last, _ in passed[first:]:
            inside = sum(units for other, units in passed if at <= other <= last)
            assert inside <= max(burst, 5) + (last - at) // rate.every


def test_who_asks_in_time_gets_the_whole_rate() -> None:
    rate, tat, now, passed = parse_rate("100/s"), 0, 0, 0
    while now < 10 * SECOND:
        tat, opens = arrive(tat, now, rate, 1)
        if not opens:
            passed += 1
        now = max(opens + 3_000, now)  # an alarm that rings three milliseconds late
    assert passed >= 985


def test_what_fits() -> None:
    assert fits(0, None, 5)
    assert fits(100, 0, 1), "0 is no limit"
    assert fits(4, 5, 1)
    assert not fits(5, 5, 1)
    assert not fits(4, 5, 2)
    assert fits(0, 5, 9), "more than the whole limit runs when nothing else does"


def test_an_operator_has_the_last_word() -> None:
    declared = Limits(limit=5, rate=parse_rate("1/s"))
    assert in_force(NO_LIMITS, declared) == declared
    assert in_force(Limits(limit=0, paused=True), declared) == Limits(limit=0, rate=declared.rate, paused=True)


def test_a_rate_opens_at_a_whole_millisecond() -> None:
    rate = Rate(every=1_500, burst=1)
    assert rate_opens(0, 10, None, 1) == rate_opens(99_000, 10, Rate(0, 0), 1) == OPEN
    assert rate_opens(10_000, 10, rate, 1) == OPEN
    assert rate_opens(11_500, 10, rate, 1) == 12, "never before it would let one through"


def test_what_an_open_gate_lets_through() -> None:
    rate = Rate(every=1_000, burst=5)
    assert spare(100, 0, None, 0, 10, None) == spare(100, 50, 0, 0, 10, Rate(0, 0)) == 100
    assert spare(100, 3, 5, 0, 10, None) == 2
    assert spare(100, 3, 5, 0, 10, rate) == 2
    assert spare(100, 0, 9, 13_000, 10, rate) == 2
    assert spare(1, 0, 9, 0, 10, rate) == 1
    assert spare(100, 9, 5, 13_900, 10, rate) == 1, "what weighs more than there is room for passes as the first"


def test_a_new_rate_forgets_what_a_slower_one_was_charged() -> None:
    assert cut_tat(90_000, 10, Rate(every=1_000, burst=5)) == 15_000
    assert cut_tat(12_000, 10, Rate(every=1_000, burst=5)) == 12_000


def test_what_may_close() -> None:
    assert limiting(None) is limiting(Rate(0, 0)) is None
    assert bounds_claims(Limits(limit=1))
    assert bounds_claims(Limits(rate=Rate(5)))
    assert not bounds_claims(Limits(limit=0, rate=Rate(0, 0), paused=True, key_limit=3))
    assert may_close(Limits(paused=True), 0, 10)
    assert may_close(NO_LIMITS, 11, 10)
    assert not may_close(Limits(paused=False, max_ready=3), 10, 10)


def test_a_queue_has_the_last_word_on_its_keys() -> None:
    terms = Terms(key="a", key_limit=2, key_rate=Rate(5))
    assert key_limits(NO_LIMITS, terms) == (2, Rate(5))
    assert key_limits(Limits(key_limit=0), terms) == (0, Rate(5))
    assert key_limits(Limits(key_rate=Rate(7)), terms) == (2, Rate(7))
    assert key_gate("q", "a:b") == "key:q:a:b"


def test_lanes() -> None:
    assert lane_of(None, "mail", gated=False) == ""
    assert lane_of(None, "mail", gated=True) == "tmail"
    assert lane_of(Terms(unique="x", max_ready=5, ageing=3), "mail", gated=False) == ""
    assert lane_of(Terms(breaker="b"), "mail", gated=False) == "tmail"
    assert lane_of(Terms(units=2), "mail", gated=False) == "tmail"
    assert lane_of(Terms(key="a"), "mail", gated=True) == "ka"
    assert lane_of(Terms(key="a", ordered=True), "mail", gated=False) == "oa"
    assert lane_of(Terms(key="a", seq=3), "mail", gated=False) == "sa"
    assert [is_strict(lane) for lane in ("", "tmail", "ka", "oa", "sa")] == [False, False, False, True, True]
