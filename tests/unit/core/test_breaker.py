"""The breaker as a pure machine: what opens it, what closes it, what an operator's word means."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.breaker import (
    FORCED_CLOSED,
    FRESH,
    SLOTS,
    Counters,
    Mode,
    Rules,
    after,
    force_open,
    limits_of,
    read,
    write,
)
from windlass.core.limits import NO_LIMITS, Limits

RULES = Rules(errors=3, window=10_000, open_for=5_000, probes=2)


def run(rules: Rules, *calls: tuple[int, int, int], state: Counters = FRESH) -> Counters:
    for now, ok, failed in calls:
        state = after(state, rules, now, ok, failed)
    return state


def test_it_opens_at_the_number_of_errors() -> None:
    assert run(RULES, (0, 0, 1), (1, 50, 1)).mode is Mode.CLOSED
    assert run(RULES, (0, 0, 1), (1, 0, 2)).mode is Mode.OPEN
    assert run(RULES, (0, 0, 30)).mode is Mode.OPEN


def test_errors_leave_the_window() -> None:
    assert run(RULES, (0, 0, 2), (9_999, 0, 0)).errors == 2
    assert run(RULES, (0, 0, 2), (10_000, 0, 1)).mode is Mode.CLOSED
    assert run(RULES, (0, 0, 2), (8_000, 0, 1)).mode is Mode.OPEN


def test_it_opens_at_a_share_of_errors_only_with_enough_calls() -> None:
    rules = Rules(errors=0, error_rate=0.5, least=10, window=10_000)
    assert run(rules, (0, 0, 9)).mode is Mode.CLOSED
    assert run(rules, (0, 5, 5)).mode is Mode.OPEN
    assert run(rules, (0, 6, 4)).mode is Mode.CLOSED
    assert run(rules, (0, 0, 9), (1, 1, 0)).mode is Mode.CLOSED, "a success opens nothing"


def test_what_began_before_it_opened_does_not_count() -> None:
    opened = run(RULES, (0, 0, 3))
    assert run(RULES, (1, 5, 0), (2, 0, 5), state=opened) == opened


def test_half_open_by_itself_when_the_time_is_over() -> None:
    opened = run(RULES, (0, 0, 3))
    assert limits_of(opened, RULES) == Limits(limit=2)
    assert read(write(opened), 1).mode is Mode.OPEN
    assert read(write(opened), 0).mode is Mode.HALF_OPEN


def test_as_many_successes_as_probes_close_it_and_one_error_opens_it() -> None:
    half = read(write(run(RULES, (0, 0, 3))), 0)
    assert after(half, RULES, 9, 1, 0).mode is Mode.HALF_OPEN
    assert run(RULES, (9, 1, 0), (10, 1, 0), state=half) == FRESH
    again = run(RULES, (9, 1, 0), (10, 5, 1), state=half)
    assert (again.mode, again.good) == (Mode.OPEN, 0)


def test_an_operators_word_beats_the_errors() -> None:
    assert run(RULES, (0, 0, 99), state=FORCED_CLOSED).mode is Mode.CLOSED
    endless = force_open(FRESH, endless=True)
    assert read(write(endless), 0) == endless
    assert limits_of(endless, RULES) == Limits(paused=True)
    timed = force_open(FRESH, endless=False)
    assert read(write(timed), 600).forced
    half = read(write(timed), 0)
    assert (half.mode, half.forced) == (Mode.HALF_OPEN, False)


def test_a_closed_one_with_nothing_to_remember_leaves_no_gate() -> None:
    assert write(FRESH) == b""
    assert limits_of(FRESH, RULES) == NO_LIMITS
    assert read(b"", 0) == FRESH
    assert read(b"nonsense", 0) == FRESH


calls = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 4), st.integers(0, 2)), max_size=60)


@given(calls)
def test_the_state_stays_small_and_survives_the_gate(steps: list[tuple[int, int, int]]) -> None:
    now, state, rules = 0, FRESH, Rules(errors=0, error_rate=1.0, least=10_000, window=10_000)
    for pause, ok, failed in steps:
        now += pause
        state = after(state, rules, now, ok, failed)
        assert len(state.parts) <= SLOTS
        assert read(write(state), 0) == state
    recent = [(ok, failed) for at, ok, failed in timed(steps) if now - at < 9_000]
    assert state.calls >= sum(ok + failed for ok, failed in recent)
    assert state.errors <= sum(failed for _, _, failed in steps)


@given(calls, st.integers(1, 5))
def test_reports_together_or_one_by_one_open_it_alike(steps: list[tuple[int, int, int]], errors: int) -> None:
    rules = Rules(errors=errors, window=10_000)
    state, now = FRESH, 0
    for pause, ok, failed in steps:
        now += pause
        whole = after(state, rules, now, ok, failed)
        single = state
        for _ in range(ok):
            single = after(single, rules, now, 1, 0)
        for _ in range(failed):
            single = after(single, rules, now, 0, 1)
        assert whole.mode is single.mode
        if whole.mode is Mode.OPEN:
            return
        state = whole


def timed(steps: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    now, found = 0, []
    for pause, ok, failed in steps:
        now += pause
        found.append((now, ok, failed))
    return found


def test_a_clock_that_is_behind_counts_as_the_newest() -> None:
    state = run(RULES, (100_000, 0, 1), (50_000, 0, 1))
    assert state.errors == 2
    assert len(state.parts) == 1
    assert msgspec.json.decode(write(state))
