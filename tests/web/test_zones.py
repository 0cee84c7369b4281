"""Schedules are told by the clock of their own zone, with its name, beside the visitor's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.web.kit import Page, bearer, dashboard, visiting
from windlass import Windlass, cron, every
from windlass.web.template_filters import in_zone, now_ms


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("Europe/Berlin", "Tue 2 Jan 2001, 00:30"),
        ("America/New_York", "Mon 1 Jan 2001, 18:30"),
        ("Asia/Kolkata", "Tue 2 Jan 2001, 05:00"),
        ("UTC", "Mon 1 Jan 2001, 23:30"),
        ("", "Mon 1 Jan 2001, 23:30"),
        ("Mars/Olympus", "2001-01-01T23:30:00Z"),
    ],
)
def test_an_instant_on_the_clock_of_a_zone(zone: str, told: str) -> None:
    assert in_zone(ms("2001-01-01T23:30"), zone) == told


def test_seconds_and_years_are_told_where_they_say_something() -> None:
    soon = now_ms() // 86_400_000 * 86_400_000
    assert in_zone(soon, "UTC").endswith(", 00:00")
    assert str(datetime.now(UTC).year) not in in_zone(soon, "UTC")
    assert in_zone(soon + 5_000, "UTC").endswith(", 00:00:05")
    assert in_zone(10**18, "UTC") == str(10**18)


async def test_the_page_names_the_zone(app: Windlass) -> None:
    await app.schedules.put("report", cron("0 9 * * *", tz="Asia/Tokyo"), app.tasks["mail.digest"], args=["ann"])
    await app.schedules.put("often", every("1h"), app.tasks["mail.digest"], args=["ann"])
    async with visiting(dashboard(app, {"ann": ["*"]}), headers=bearer("ann")) as visitor:
        text = (await visitor.get("/schedules")).text
    assert "<th>Asia/Tokyo</th>" in text
    assert text.count(", 09:00</td>") == 5
    cells = [attributes for attributes in Page(text).named("td") if "data-stamp" in attributes]
    assert len(cells) == 10
    assert text.count(", 00:00</td>") >= 5  # nine in Tokyo is midnight in UTC, which scripts make the visitor's time
