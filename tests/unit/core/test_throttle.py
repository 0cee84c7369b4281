"""How failures slow down who goes on failing, as plain arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.strikes import StrikeRule, Strikes

RULE = StrikeRule(free=3, step=1_000, most=60_000, forget=600_000)


def after(failures: int, rule: StrikeRule = RULE) -> Strikes:
    strikes = Strikes()
    for n in range(failures):
        strikes = rule.strike(strikes, 1_000_000, f"guess {n}")
    return strikes


def test_some_are_free_and_then_each_doubles_the_wait() -> None:
    waits = [RULE.wait(after(n), 1_000_000) for n in range(12)]
    assert waits == [0, 0, 0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_a_wait_ends() -> None:
    assert RULE.wait(after(5), 1_003_999) == 1
    assert RULE.wait(after(5), 1_004_000) == 0


def test_all_is_forgotten_at_once() -> None:
    assert RULE.is_known(after(9), 1_599_999)
    assert not RULE.is_known(after(9), 1_600_000)
    assert RULE.strike(after(9), 1_600_000, "x") == Strikes(1, 1_600_000, "x")
    assert not RULE.is_known(Strikes(), 0)


def test_the_same_again_is_no_other_guess() -> None:
    strikes = after(2)
    assert RULE.strike(strikes, 1_000_500, "guess 1") is strikes
    assert RULE.strike(strikes, 1_000_500, "guess 0").count == 3


@given(st.integers(0, 10**6), st.integers(0, 10**15), st.integers(0, 10**15))
def test_nobody_waits_longer_than_the_most(count: int, at: int, now: int) -> None:
    """Whatever the clocks of other machines say."""
    assert 0 <= RULE.wait(Strikes(count, at), now) <= RULE.most
