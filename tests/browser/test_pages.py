"""Every page: it loads without a complaint, fits a phone, can be read in both themes and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.fill import Filled
from tests.browser.kit import Live
from tests.browser.visit import Visit

CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
PLACES = (
    "/",
    "/jobs",
    "/queues",
    "/workers",
    "/dead",
    "/schedules",
    "/workflows",
    "/tasks",
    "/limits",
    "/audit",
    "/api",
)


def everywhere(filled: Filled) -> list[str]:
    """The path of every page there is, with a job and a workflow of each state."""
    found = [*PLACES, "/queues/emails", "/queues/reports", "/tasks/mail.send", "/tasks/orders.charge"]
    found += [f"/jobs/{id}" for id in filled.jobs.values()]
    found += [f"/workflows/{id}{view}" for id in filled.workflows.values() for view in ("", "?view=time")]
    return [*found, "/?span=7d", "/jobs?filter=args.to:customer1*", "/jobs?filter=state:failed+queue:media"]


SQLITE = pytest.mark.parametrize("live", ["sqlite"], indirect=True)
"""Pages look the same on every engine; what they do is tested on both."""


@SQLITE
def test_every_page_fits_and_can_be_read(live: Live, filled: Filled, visits: Callable[..., Visit]) -> None:
    """At a desk in both themes, and on a phone."""
    visit = visits(live, color_scheme="light")
    weak = []
    for path in everywhere(filled):
        page = visit.go(path)
        expect(page.locator("main h1")).to_be_visible()
        for kind, scheme, width in (("light", "light", 1280), ("dark", "dark", 1280), ("phone", "dark", 360)):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            assert visit.overflow() <= 0, f"{path} is wider than a {kind}'s window"
            weak += [f"{path} {kind}: {said}" for said in page.evaluate(CONTRAST)]
    assert weak == []


@SQLITE
def test_the_contrast_test_notices(live: Live, visits: Callable[..., Visit]) -> None:
    visit = visits(live)
    page = visit.go("/api")
    assert page.evaluate(CONTRAST) == []
    page.evaluate("document.documentElement.style.setProperty('--muted', '#c0c4cc')")
    assert page.evaluate(CONTRAST) != []


@SQLITE
def test_windows_between_a_phone_and_a_desk(live: Live, filled: Filled, visits: Callable[..., Visit]) -> None:
    """No page is wider than its window; on a desk no table has to be scrolled."""
    visit = visits(live)
    for path in ("/", "/jobs", "/queues", "/limits", "/api", "/tasks", "/schedules", f"/jobs/{filled.jobs['failed']}"):
        visit.go(path)
        for width in (600, 861, 1100, 1280, 1600):
            visit.page.set_viewport_size({"width": width, "height": 800})
            assert visit.overflow() <= 0, f"{path} is wider than {width}"
            assert width < 1280 or visit.page.evaluate(SCROLLED) == [], f"{path} at {width}"


@SQLITE
def test_the_menu_and_the_header_of_a_phone_have_room(live: Live, filled: Filled, visits: Callable[..., Visit]) -> None:
    visit = visits(live)
    page = visit.go("/api")
    page.evaluate("for (const n of document.querySelectorAll('.nav .n')) n.textContent = '123,456'")
    tall = page.evaluate("[...document.querySelectorAll('.nav a')].map((a) => a.offsetHeight)")
    assert len(set(tall)) == 1, "an entry of the menu is broken over two lines"
    page.set_viewport_size({"width": 360, "height": 740})
    header = page.locator("header.top").bounding_box()
    assert header
    for part in page.locator("header.top > *:visible, header.top .tools > *:visible").all():
        box = part.bounding_box()
        assert box
        assert box["y"] >= header["y"]
        assert box["y"] + box["height"] <= header["y"] + header["height"]
        assert box["x"] + box["width"] <= 360
    room = "(input) => input.clientWidth - parseFloat(getComputedStyle(input).paddingLeft)"
    assert page.locator("#find").evaluate(room) >= 60, "what is to be found cannot be read"


SCROLLED = """() => [...document.querySelectorAll(".card:has(> table)")].filter(
  (card) => card.scrollWidth > card.clientWidth).map((card) => card.innerText.slice(0, 40))"""


@SQLITE
def test_pages_can_be_read_without_scripts(live: Live, filled: Filled, visits: Callable[..., Visit]) -> None:
    visit = visits(live, java_script_enabled=False)
    for path in (*PLACES, f"/jobs/{filled.jobs['failed']}", f"/workflows/{filled.workflows['failed']}"):
        visit.go(path)
        expect(visit.page.locator("main h1")).to_be_visible()
    page = visit.go("/jobs?filter=task:orders.pack")
    page.locator("#next").click()
    expect(page.locator("tbody tr").first).to_contain_text("orders.pack")
    page = visit.go("/dead")
    page.locator("select[name=queue]").select_option("payments")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(f"{live.root}/dead?queue=payments&task=")


def test_what_is_not_there_says_so(live: Live, visit: Visit) -> None:
    visit.excuse("404", "422")
    page = visit.go("/jobs/nothing")
    expect(page.locator(".empty")).to_contain_text("there is no job 'nothing'")
    page = visit.go("/jobs?filter=stat:failed")
    expect(page.locator(".notice.bad")).to_contain_text("did you mean 'state'")
    page = visit.go("/nowhere")
    expect(page.locator(".empty")).to_contain_text("404")
