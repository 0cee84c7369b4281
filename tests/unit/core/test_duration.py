"""Durations and instants, as people write them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from windlass.core.duration import from_ms, instant_ms, show_ms, to_ms
from windlass.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (0, 0),
        (10, 10_000),
        (0.25, 250),
        (1e-9, 0),
        ("250ms", 250),
        ("1.5s", 1_500),
        ("10m", 600_000),
        ("10 min", 600_000),
        ("2 hours", 7_200_000),
        ("1h 30m", 5_400_000),
        ("1h30m", 5_400_000),
        ("1 day, 2 hours", 93_600_000),
        (" 3 SECONDS ", 3_000),
        ("1w", 604_800_000),
        ("90 days", 7_776_000_000),
        (timedelta(minutes=1, milliseconds=5), 60_005),
    ],
)
def test_what_people_write(written: object, ms: int) -> None:
    assert to_ms(written) == ms


@pytest.mark.parametrize(
    "wrong",
    [-1, "", "  ", "10", "10x", "m", "1h-30m", "1e3s", True, None, [], math.inf, math.nan, "200 years",
     timedelta(seconds=-1), b"1s"],
)  # fmt: skip
def test_what_makes_no_sense_names_the_option(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^timeout is "):
        to_ms(wrong, "timeout")


def test_instants_need_a_zone() -> None:
    east = timezone(timedelta(hours=3))
    assert instant_ms(datetime(2030, 1, 1, 3, tzinfo=east)) == instant_ms(datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigError, match="naive datetime 2030-01-01T00:00:00"):
        instant_ms(datetime(2030, 1, 1))  # noqa: DTZ001
    for wrong in (1_800_000_000, "tomorrow", None):
        with pytest.raises(ConfigError, match=r"^at is "):
            instant_ms(wrong)


def test_instants_come_back_as_they_went() -> None:
    instant = datetime(2030, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
    assert from_ms(instant_ms(instant)) == instant
    assert from_ms(0) is from_ms(None) is None


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0ms"), (999, "999ms"), (1_500, "1.5s"), (59_999, "60s"), (60_000, "1m"), (150_000, "2m 30s"),
     (10_800_000, "3h"), (93_784_000, "1d 2h")],
)  # fmt: skip
def test_durations_for_people(ms: int, text: str) -> None:
    assert show_ms(ms) == text
