"""Workers, told what to do from their page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.kit import Live, Process
from tests.browser.visit import Visit


@pytest.fixture
def second(live: Live) -> Iterator[Process]:
    """A worker of the test's own, for a queue where nothing else is."""
    words = ["worker", "tests.browser.shop:app", "--queues", "checks", "--concurrency", "3"]
    worker = Process(words, live.env, live.folder / "second.log")
    worker.wait_for(lambda: " is up" in worker.text(), "the worker starts")
    yield worker
    worker.end()


def test_quiet_resume_and_stop_a_worker(live: Live, visit: Visit, second: Process) -> None:
    pid = str(second.process.pid)
    page = visit.find("/workers", f"section:has(h2:has-text('pid {pid}'))")
    card = page.locator("section.card", has=page.locator("h2", has_text=f"pid {pid}"))
    visit.press("Quiet", card)
    expect(page.locator("dialog[open] footer button")).to_have_text(["Keep claiming", "Quiet worker"])
    visit.submit(reason="a slow disk")
    visit.told("Told to go quiet")
    expect(card.locator("header .state")).to_have_text("quiet")
    expect(card).to_contain_text("a slow disk")
    id = live.add("orders.pack", 1, queue="checks")
    live.call(live.app.queue("checks").pause())  # of the worker that all tests share, too
    visit.press("Resume", card)
    visit.told("Told to resume")
    expect(card.locator("header .state")).to_have_text("alive")
    live.call(live.app.queue("checks").resume())
    live.wait_state(id, "succeeded")
    visit.press("Stop", card)
    expect(page.locator("dialog[open] footer button")).to_have_text(["Keep worker", "Stop worker"])
    visit.submit()
    visit.told("Told to stop")
    second.process.wait(20)
    assert second.process.returncode == 0
    expect(card).to_have_count(0)
