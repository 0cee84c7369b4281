"""Schedules beside the visitor's own clock."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.kit import Live
from tests.browser.visit import Visit


def test_a_schedule_is_told_in_its_zone_and_in_the_visitors(live: Live, visits: Callable[..., Visit]) -> None:
    visit = visits(live, timezone_id="Asia/Tokyo", locale="de-DE")
    page = visit.find("/schedules", "section[data-key='nightly-report']")
    visit.ready()
    table = page.locator("section[data-key='nightly-report'] table.runs")
    expect(table.locator("th")).to_have_text(["Next runs", "Europe/Berlin", "Your time, Asia/Tokyo"])
    cells = table.locator("tbody tr").first.locator("td")
    expect(cells.nth(1)).to_contain_text("03:00")
    expect(cells.nth(2)).to_contain_text(re.compile(", 1[01]:00$"))  # in winter, in summer
