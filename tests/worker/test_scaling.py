"""How many worker processes there should be."""

from __future__ import annotations

import sys

import pytest

from windlass.worker.scaling import Autoscaler, Load, saturated, scale, slack

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the supervisor needs POSIX")

FULL, WAITS, HALF, IDLE = Load(4, 4), Load(4, 4, True), Load(2, 4), Load(0, 4)


@pytest.mark.parametrize(
    ("loads", "is_saturated", "is_slack"),
    [
        ([], False, True),
        ([WAITS], True, False),
        ([FULL], False, False),
        ([FULL, WAITS], True, False),
        ([HALF, WAITS], False, False),
        ([HALF, IDLE], False, True),
        ([HALF, HALF], False, False),
        ([IDLE], False, True),
        ([FULL, IDLE, IDLE], False, True),
    ],
)
def test_what_is_full_and_what_is_slack(loads: list[Load], is_saturated: bool, is_slack: bool) -> None:
    assert saturated(loads) is is_saturated
    assert slack(loads) is is_slack


@pytest.mark.parametrize(
    ("loads", "current", "saturated_for", "slack_for", "wanted"),
    [
        ([WAITS], 1, 3.0, 0.0, 2),
        ([WAITS], 1, 2.9, 0.0, 1),
        ([WAITS] * 4, 4, 99.0, 0.0, 4),
        ([FULL], 1, 99.0, 0.0, 1),
        ([IDLE] * 3, 3, 0.0, 30.0, 2),
        ([IDLE] * 3, 3, 0.0, 29.0, 3),
        ([IDLE], 1, 0.0, 99.0, 1),
        ([IDLE], 0, 0.0, 0.0, 1),
        ([IDLE] * 9, 9, 0.0, 0.0, 4),
    ],
)
def test_scale(loads: list[Load], current: int, saturated_for: float, slack_for: float, wanted: int) -> None:
    times = {"saturated_for": saturated_for, "slack_for": slack_for}
    assert scale(loads, current, 1, 4, **times, up_after=3.0, down_after=30.0) == wanted


def test_the_autoscaler_waits_for_pressure_to_last_and_for_everybody_to_speak() -> None:
    scaler = Autoscaler((4, 1), up_after=3.0, down_after=30.0)
    assert (scaler.low, scaler.high) == (1, 4)
    assert scaler.decide([WAITS], 1, now=0.0) == 1
    assert scaler.decide([IDLE], 1, now=2.0) == 1
    assert scaler.decide([WAITS], 1, now=3.0) == 1, "the pressure was interrupted"
    assert scaler.decide([WAITS], 1, now=6.0) == 2
    assert scaler.decide([WAITS], 2, now=60.0) == 2, "the new one has said nothing yet"
    assert scaler.decide([WAITS, WAITS], 2, now=61.0) == 2
    assert scaler.decide([WAITS, WAITS], 2, now=64.0) == 3
    assert scaler.decide([IDLE] * 3, 3, now=70.0) == 3
    assert scaler.decide([IDLE] * 3, 3, now=100.0) == 2
