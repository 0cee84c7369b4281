"""The list of jobs: filters, pages, saved views, the keyboard, and actions on many."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.kit import Live
from tests.browser.visit import Visit
from windlass.console.search import LOOKED

MANY = 130


@pytest.fixture(scope="module")
def many(live: Live) -> str:
    """Jobs that wait in a queue of their own."""
    pack = live.app.tasks["orders.pack"].options(queue="many", delay="5h")
    live.call(live.app.enqueue_many([pack.s(number) for number in range(MANY)]))
    return "queue:many"


def rows(page: Page) -> list[str]:
    return page.locator("main tbody tr").evaluate_all("(all) => all.map((row) => row.dataset.key)")


def test_pages_follow_each_other_without_a_hole(many: str, visit: Visit) -> None:
    page = visit.go(f"/jobs?filter={many}")
    seen: list[str] = []
    for _ in range(3):
        found = rows(page)
        assert found
        seen += found
        if page.locator("#next").count():
            with page.expect_navigation(wait_until="domcontentloaded"):
                page.locator("#next").click()
    assert len(seen) == len(set(seen)) == MANY
    page.get_by_role("link", name="First page").click()
    expect(page.locator(f"tr[data-key='{seen[0]}']")).to_have_count(1)


def test_the_filter_bar(many: str, visit: Visit) -> None:
    visit.excuse("422")
    page = visit.go("/jobs")
    page.locator("select[name=queue]").select_option("many")
    expect(page.locator("#filter-text")).to_have_value("queue:many")
    page.locator(".chip", has_text="Scheduled").click()
    expect(page.locator("#filter-text")).to_have_value(re.compile("state:scheduled"))
    expect(page.locator("main tbody tr")).to_have_count(50)
    page.locator("#filter-text").fill("queue:many args.order:77")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.locator("#filter-text").fill("stat:failed")
    page.locator("#filter-text").press("Enter")
    visit.sees("did you mean 'state'", ".notice")
    page.get_by_role("link", name="Clear").click()
    expect(page.locator("#filter-text")).to_have_value("")
    page.locator("#find").fill("queue:many args.order:78")
    page.locator("#find").press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(1)


def test_suggestions_while_typing_and_the_place_of_what_is_wrong(many: str, visit: Visit) -> None:
    visit.excuse("422")
    page = visit.go("/jobs")
    field, options = page.locator("#filter-text"), page.locator("#filter-names option")
    field.press_sequentially("sta")
    expect(options.first).to_have_attribute("value", "state:")
    field.fill("tag:x queue:ma")
    expect(options.first).to_have_attribute("value", "tag:x queue:many")
    field.fill("queue:many attempts>3")
    field.press("Enter")
    visit.sees("did you mean attempts:>3", ".notice")
    expect(page.locator(".notice pre")).to_have_text(f"queue:many attempts>3\n{' ' * 19}^")


def test_a_pasted_id_finds_its_job(live: Live, visit: Visit) -> None:
    id = live.call(live.app.tasks["orders.pack"].options(queue="pasted", delay="5h").enqueue(1)).id
    page = visit.go("/jobs")
    for text in (f"  '{id}' ", f"http://127.0.0.1/jobs/{id}"):
        page.locator("#find").fill(text)
        page.locator("#find").press("Enter")
        expect(page.locator("main tbody tr")).to_have_count(1)
        assert rows(page) == [id]


def test_a_search_without_an_index_goes_on_from_where_it_stopped(live: Live, visit: Visit) -> None:
    """The job is behind more than one search looks at."""
    pack = live.app.tasks["orders.pack"].options(queue="pile", delay="5h")
    wanted = live.call(live.app.enqueue_many([pack.s(-5), *(pack.s(number) for number in range(LOOKED + 50))]))[0].id
    page = visit.go(f"/jobs?filter={quote('args.order:-5')}")
    visit.sees("The result is partial", ".notice")
    visit.sees("Nothing among those looked at")
    row = page.locator(f"tr[data-key='{wanted}']")
    for _ in range(LOOKED):
        if row.count():
            break
        with page.expect_navigation(wait_until="domcontentloaded"):
            page.get_by_role("link", name="Search on").click()
    expect(row).to_be_visible()
    live.call(live.app.queue("pile").purge())


def test_saved_views(many: str, visit: Visit) -> None:
    page = visit.go(f"/jobs?filter={many}")
    visit.press("Save this view")
    visit.submit(name="Much <work>")
    visit.told("View saved")
    chip = page.locator("#views .chip", has_text="Much <work>")
    expect(chip).to_be_visible()
    visit.go("/jobs")
    chip.get_by_role("link").click()
    expect(page.locator("#filter-text")).to_have_value(many)
    visit.ready()
    chip.get_by_role("button").click()
    visit.agree()
    visit.told("View dropped")
    expect(chip).to_have_count(0)


def test_the_keyboard(many: str, visit: Visit) -> None:
    page = visit.go(f"/jobs?filter={many}")
    visit.ready()
    first, second = rows(page)[:2]
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_have_attribute("data-key", first)
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_have_attribute("data-key", second)
    page.keyboard.press("x")
    visit.sees("1 selected", "#bulk")
    page.keyboard.press("a")
    visit.sees("50 selected", "#bulk")
    page.keyboard.press("Escape")
    expect(page.locator("#bulk")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#filter-text")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#filter-text")).to_have_value("j")
    page.keyboard.press("Escape")
    expect(page.locator("#filter-text")).not_to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{second}")
    visit.ready()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/queues")


def test_some_that_were_picked(many: str, live: Live, visit: Visit) -> None:
    page = visit.go(f"/jobs?filter={many}")
    picked = rows(page)[:3]
    for id in picked:
        page.locator(f"tr[data-key='{id}'] input.pick").check()
    visit.press("Priority", page.locator("#bulk"))
    visit.submit(priority="7")
    visit.told("3 jobs changed")
    assert {live.info(id).priority for id in picked} == {7}  # type: ignore[union-attr]
    for id in picked[:2]:
        page.locator(f"tr[data-key='{id}'] input.pick").check()
    visit.press("Cancel", page.locator("#bulk"))
    visit.agree("Cancel jobs")
    visit.told("2 jobs cancelled")
    assert [live.state(id) for id in picked] == ["cancelled", "cancelled", "scheduled"]


def test_all_that_match_are_counted_first_and_then_changed(live: Live, visit: Visit) -> None:
    pack = live.app.tasks["orders.pack"].options(queue="many", delay="5h", tags=["bulk"])
    made = live.call(live.app.enqueue_many([pack.s(number) for number in range(70)]))
    page = visit.go("/jobs?filter=queue:many+tag:bulk")
    visit.ready().locator("#all-matching").click()
    visit.sees("All that match", "#bulk")
    visit.press("Delete", page.locator("#bulk"))
    visit.sees("70 jobs match: queue:many tag:bulk", "#ask")
    page.locator("#ask [data-close]").click()
    assert live.state(made[0].id) == "scheduled"
    visit.ready().locator("#all-matching").click()
    visit.press("Delete", page.locator("#bulk"))
    visit.agree("Delete jobs")
    visit.told("70 jobs deleted")
    visit.sees("No job fits")
    assert live.state(made[69].id) == "gone"
