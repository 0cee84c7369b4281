"""What becomes of a job, decided by pure functions: every outcome, and what engines apply alone."""

from __future__ import annotations

import msgspec
import pytest

from windlass.core.job import TERMINAL, WORKING, AttemptInfo, Claim, ErrorInfo, Fence, State
from windlass.core.lifecycle import (
    CRASHED,
    MAX_ATTEMPTS_KEPT,
    Crashed,
    Failed,
    HandedBack,
    Outcome,
    Snoozed,
    Stopped,
    Succeeded,
    Transition,
    after_crash,
    crash_error,
    decide,
    expired_error,
    runs_alone,
    unknown_error,
)

OOPS = ErrorInfo("ValueError", "oops", "trace", "f1")


def claim(**changed: object) -> Claim:
    base = Claim("j", "t", 1, "q", 5, b"{}", b"{}", 2, 7, 9, 1, 1, 1, 0)
    return msgspec.structs.replace(base, **changed)


def error_of(move: Transition) -> ErrorInfo:
    return msgspec.json.decode(move.error or b"", type=ErrorInfo)


@pytest.mark.parametrize(
    ("outcome", "to", "event", "delay", "counters", "yields"),
    [
        (Succeeded(b"1"), State.SUCCEEDED, "succeeded", 0, (1, 1, 1), False),
        (Succeeded(), State.SUCCEEDED, "succeeded", 0, (1, 1, 1), False),
        (Failed(OOPS, 500), State.SCHEDULED, "retried", 500, (2, 1, 1), True),
        (Failed(OOPS, 0), State.READY, "retried", 0, (2, 1, 1), True),
        (Failed(OOPS), State.FAILED, "failed", 0, (2, 1, 1), False),
        (Snoozed(500), State.SCHEDULED, "snoozed", 500, (1, 1, 2), True),
        (Snoozed(0), State.READY, "snoozed", 0, (1, 1, 2), True),
        (Crashed(OOPS, 3), State.READY, "lost", 0, (1, 2, 1), True),
        (Crashed(OOPS, 2), State.FAILED, "failed", 0, (1, 2, 1), False),
        (Stopped(), State.CANCELLED, "cancelled", 0, (1, 1, 1), True),
        (Stopped("enough"), State.CANCELLED, "cancelled", 0, (1, 1, 1), False),
        (HandedBack(), State.READY, "released", 0, (1, 1, 1), True),
    ],
)
def test_an_outcome_makes_a_transition(
    outcome: Outcome, to: State, event: str, delay: int, counters: tuple[int, int, int], yields: bool
) -> None:
    move = decide(claim(), outcome, "done", "failed")
    assert (move.id, move.fence) == ("j", Fence(2, 7, 9))
    assert (move.to, move.event, move.delay) == (to, event, delay)
    assert (move.attempt, move.crashes, move.snoozes) == counters
    assert move.yields_to_cancel is yields
    assert (move.keep_done, move.keep_failed) == ("done", "failed")


def test_a_result_and_reasons_go_along() -> None:
    assert decide(claim(), Succeeded(b"42")).result == b"42"
    assert decide(claim(), Succeeded()).result is None
    assert decide(claim(), Stopped("enough")).reason == "enough"
    assert decide(claim(), Stopped()).reason == "cancelled"
    assert decide(claim(), Crashed(OOPS, 1)).reason == CRASHED
    assert decide(claim(), Failed(OOPS)).reason == "ValueError"
    assert decide(claim(), Failed(OOPS, 5)).reason == "", "it is not over"
    failed = decide(claim(), Failed(OOPS, None, "no retries left"))
    assert (failed.reason, failed.fingerprint) == ("no retries left", "f1")
    assert error_of(failed) == msgspec.structs.replace(OOPS, run=2, attempt=2)


def test_an_error_carries_the_earlier_ones_newest_last() -> None:
    now = claim(attempt=0)
    for attempt in range(1, MAX_ATTEMPTS_KEPT + 5):
        move = decide(now, Failed(ErrorInfo("E", f"no {attempt}"), 0))
        now = claim(attempt=attempt, error=move.error)
    error = error_of(move)
    assert error.message == f"no {MAX_ATTEMPTS_KEPT + 4}"
    assert len(error.attempts) == MAX_ATTEMPTS_KEPT
    assert error.attempts[-1] == AttemptInfo(MAX_ATTEMPTS_KEPT + 3, "E", f"no {MAX_ATTEMPTS_KEPT + 3}", run=2)


def test_a_claim_is_not_changed_by_a_decision() -> None:
    before = claim()
    decide(before, Failed(OOPS, 1))
    assert before == claim()


@pytest.mark.parametrize(
    ("crashes", "limit", "cancel", "to"),
    [
        (1, 3, False, State.READY),
        (1, 3, True, State.CANCELLED),
        (2, 3, False, State.READY),
        (3, 3, False, State.FAILED),
        (3, 3, True, State.FAILED),
        (4, 3, False, State.FAILED),
        (1, 1, False, State.FAILED),
    ],
)
def test_where_a_crash_leads(crashes: int, limit: int, cancel: bool, to: State) -> None:
    assert after_crash(crashes, limit, cancel) is to


@pytest.mark.parametrize(
    ("crashes", "limit", "alone"),
    [(0, 3, False), (1, 3, False), (2, 3, True), (3, 3, False), (0, 1, False), (1, 2, True)],
)
def test_one_crash_below_the_limit_a_job_runs_alone(crashes: int, limit: int, alone: bool) -> None:
    assert runs_alone(crashes, limit) is alone


@pytest.mark.parametrize(
    ("data", "kind", "says"),
    [
        (crash_error(1, "w1"), "WorkerCrashed", "died once while running this job (last: w1)"),
        (crash_error(3, "w1"), "WorkerCrashed", "died 3 times"),
        (crash_error(1, "w1", 46_000), "WorkerCrashed", "worker w1 did not beat for 46 s and lost its lease"),
        (unknown_error("a.b", 2, 3_600_000), "UnknownTask", "task 'a.b' version 2 for 3600 s"),
        (expired_error(), "JobExpired", "before it expired"),
    ],
)
def test_errors_engines_write(data: bytes, kind: str, says: str) -> None:
    error = msgspec.json.decode(data, type=ErrorInfo)
    assert error.type == f"windlass.errors.{kind}"
    assert says in error.message
    assert error.fingerprint


def test_states_are_working_or_terminal() -> None:
    assert set(State) == TERMINAL | WORKING
    assert not TERMINAL & WORKING
    assert {state for state in State if state.terminal} == TERMINAL
