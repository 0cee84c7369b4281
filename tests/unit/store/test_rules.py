"""What engines written in Python decide alike."""

from __future__ import annotations

import pytest

from windlass.core.job import State
from windlass.core.limits import NO_LIMITS, Limits
from windlass.core.terms import Terms
from windlass.store import rules
from windlass.store.clock import Tick, tick
from windlass.store.items import ANY, Append, Commit, LogKeep, Put
from windlass.store.jobs import INLINE_MAX, Declared
from windlass.store.skills import Skills
from windlass.testing.conformance.bench import new_job


def appended(expect: int, *bodies: bytes) -> Append:
    return Append(log="l", stream="s", bodies=list(bodies), expect=expect)


@pytest.mark.parametrize(
    ("step", "versions", "lengths", "fits"),
    [
        (Commit(items=[Put(shelf="s", key="k", body=b"", expect=3)]), [3], [], True),
        (Commit(items=[Put(shelf="s", key="k", body=b"", expect=3)]), [0], [], False),
        (Commit(items=[Put(shelf="s", key="k", body=b"", expect=ANY)]), [7], [], True),
        (Commit(appends=[appended(2, b"a"), appended(3, b"b")]), [], [2, 2], True),
        (Commit(appends=[appended(2, b"a"), appended(2, b"b")]), [], [2, 2], False),
    ],
)
def test_a_commit_is_done_if_all_is_as_it_expects(
    step: Commit, versions: list[int], lengths: list[int], fits: bool
) -> None:
    """What the commit itself has appended to a stream counts for what it appends there next."""
    assert rules.is_as_expected(step, versions, lengths) is fits


@pytest.mark.parametrize(
    ("keep", "at"),
    [
        (LogKeep(), None),
        (LogKeep(count=5), None),
        (LogKeep(count=4), 1_000),
        (LogKeep(size=49), 1_000),
        (LogKeep(age=100), 1_000),
        (LogKeep(age=300), 1_200),
        (LogKeep(age=300, count=4), 1_000),
    ],
)
def test_when_the_oldest_record_of_a_log_goes(keep: LogKeep, at: int | None) -> None:
    """The log has five records of fifty bytes, the oldest from the instant 900; it is 1,000."""
    assert rules.prunes_at(keep, 1_000, 5, 50, 900) == at
    assert rules.is_too_much(keep, 1_000, 5, 50, 900) is (at == 1_000)


def test_what_is_large_or_has_to_be_put_together_is_not_told_at_once() -> None:
    assert rules.finished("j", State.SUCCEEDED, b"1", None, "").inline
    assert not rules.finished("j", State.SUCCEEDED, b"1" * (INLINE_MAX + 1), None, "").inline
    assert not rules.finished("j", State.SUCCEEDED, None, None, "", gathers=True).inline
    assert rules.finished("j", State.FAILED, None, b"{}", "", gathers=True).inline


def test_what_the_gate_says_of_a_full_queue_goes_before_what_the_job_says() -> None:
    job = new_job("j", terms=Terms(max_ready=5))
    assert rules.full_at(job, NO_LIMITS) == 5
    assert rules.full_at(job, Limits(max_ready=2)) == 2
    assert rules.full_at(new_job("j"), NO_LIMITS) == 0


@pytest.mark.parametrize(
    ("host", "shift", "after"),
    [
        (1_100, 0, Tick(1_100, 0, 0)),
        (900, 0, Tick(1_000, 100, 0)),
        (9_000, 0, Tick(9_000, 0, 8_000)),
        (9_000, 5_000, Tick(9_000, 0, 8_000)),
        (1_000, 500, Tick(1_500, 500, 0)),
    ],
)
def test_the_clock_never_goes_back_and_a_jump_is_told(host: int, shift: int, after: Tick) -> None:
    """The last instant was 1,000, and the shortest lease is of four seconds."""
    assert tick(host, 1_000, shift, 4_000) == after


def test_a_queue_declared_as_a_whole_takes_what_nobody_named() -> None:
    skills = Skills(["q", "r"], {"t": new_declared(2), "*r": new_declared(1)})
    assert skills.takes("q", "t", 1)
    assert not skills.takes("q", "t", 2)
    assert not skills.takes("q", "u", 1)
    assert skills.takes("r", "u", 9)
    assert [skills.max_crashes(queue, task, 3) for queue, task in (("q", "t"), ("r", "u"), ("q", "u"))] == [2, 1, 3]


def new_declared(max_crashes: int) -> Declared:
    return Declared(max_crashes=max_crashes)
