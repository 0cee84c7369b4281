"""Whoever comes: with a theme of their own, only to look, with bad intentions, or while the server restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.kit import Live, open_shop
from tests.browser.visit import Visit

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "javascript:alert(4)",
    "{{ 7*7 }}{% raw %}",
    "</textarea></script><script src=//example.net/x.js></script>",
    "\u202eevil\u2066",
)


def test_the_theme_is_kept(live: Live, visits: Callable[..., Visit]) -> None:
    visit = visits(live, color_scheme="dark")
    page = visit.go()
    root = page.locator("html")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    visit.ready()
    page.locator("#theme").click()
    visit.told("Theme: light")
    expect(root).to_have_attribute("data-theme", "light")
    light = page.evaluate(ground)
    assert light != dark
    visit.go("/queues")
    assert page.evaluate(ground) == light
    visit.ready()
    page.keyboard.press("t")
    visit.told("Theme: dark")
    assert page.evaluate(ground) == dark
    page.keyboard.press("t")
    visit.told("Theme: system")
    expect(root).not_to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) == light


def test_the_overview_counts_by_itself(live: Live, visit: Visit) -> None:
    page = visit.go()
    page.evaluate("window.same = true")
    tile = page.locator(".tile", has_text="Scheduled").locator(".value")
    before = int(tile.inner_text().replace(",", ""))
    id = live.add("orders.pack", 5, delay="6h")
    expect(tile).to_have_text(f"{before + 1:,}")
    live.call(live.app.job(id).cancel())
    expect(tile).to_have_text(f"{before:,}")
    assert page.evaluate("window.same") is True


def test_switched_off_pages_stand_still(live: Live, visit: Visit) -> None:
    page = visit.go("/jobs?filter=task:orders.ship")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.keyboard.press("l")
    expect(page.locator("#live")).to_have_attribute("data-state", "off")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    live.wait_state(live.add("orders.ship", 1), "succeeded")
    page.keyboard.press("r")
    visit.sees("succeeded", "main tbody tr")
    assert len(asked) == 1
    page.keyboard.press("l")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_pages_go_on_after_the_server_restarts(live: Live, visit: Visit, stage: str) -> None:
    visit.excuse("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY", "Failed to load resource", "net::")
    id = live.add("media.transcode", stage)
    page = visit.job(id)
    page.evaluate("window.same = true")
    live.order(stage, "log before")
    visit.sees("before", "#logs")
    assert live.web
    live.web.kill()
    expect(page.locator("#live")).to_have_attribute("data-state", "lost")
    live.order(stage, "log meanwhile")
    live.start_web()
    visit.sees("meanwhile", "#logs")
    expect(page.locator("#logs li")).to_have_count(2)
    live.order(stage, "log after", "end")
    visit.state("succeeded")
    visit.sees("after", "#logs")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    assert page.evaluate("window.same") is True


# -- who only looks


@pytest.fixture(scope="module")
def reading(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A second dashboard for the same store, without any login."""
    folder = tmp_path_factory.mktemp("reading")
    with open_shop(live.app.name, live.app.url, folder, live.env["SHOP_QUEUES"]) as other:
        other.start_web(user=False)
        yield other


def test_who_only_looks_has_no_buttons(live: Live, reading: Live, visits: Callable[..., Visit], stage: str) -> None:
    failed = live.add("mail.send", "nobody@example.org", retries=0)
    live.wait_state(failed, "failed")
    running = live.add("media.transcode", stage)
    live.wait_state(running, "running")
    visit = visits(reading, user=False)
    page = visit.go(reading.link)
    assert page.url == f"{reading.root}/", "the key does not stay in the address"
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    paths = [f"/jobs/{failed}", f"/jobs/{running}", "/jobs?filter=state:failed", "/dead", "/queues/emails"]
    for path in [*paths, "/tasks/mail.send", "/limits", "/schedules", "/workflows", "/"]:
        page = visit.go(path)
        expect(page.locator("main h1")).to_be_visible()
        doing = page.locator(
            "main [data-post], main [data-bulk], main [data-job][type=button], main [data-open], main .pick"
        )
        assert doing.count() == 0, path
    expect(page.locator("nav a[href='/limits']")).to_have_count(1)
    expect(page.locator("nav a[href='/audit']")).to_have_count(0)
    page = visit.go(f"/jobs/{failed}")
    visit.sees("nobody@example.org", "#args")
    status = page.evaluate(
        """async (id) => (await fetch("/api/jobs/actions", {method: "POST", headers: {
            "Content-Type": "application/json",
            "X-Windlass-Token": document.querySelector("meta[name=windlass-token]").content},
            body: JSON.stringify({action: "retry", ids: [id]})})).status""",
        failed,
    )
    visit.excuse("403")
    assert status == 403
    live.order(stage, "end")


# -- who means harm


def test_hostile_texts_stay_texts(live: Live, visit: Visit) -> None:
    whole = " ".join(HOSTILE)
    good = live.add("mail.send", "ann@example.org", queue="hostile", kwargs={"subject": whole}, headers={"x": whole})
    bad = live.add("mail.send", f"nobody {whole}", queue="hostile", retries=0)
    live.wait_state(good, "succeeded")
    live.wait_state(bad, "failed")
    for id in (good, bad):
        visit.job(id)
        visit.sees("<script>alert(1)</script>", "#args-text")
    for path in ("/jobs?filter=queue:hostile", "/dead?queue=hostile", "/queues/hostile", "/", "/workers"):
        visit.go(path)
        expect(visit.page.locator("main h1")).to_be_visible()
    visit.excuse("422", "404")
    for text in HOSTILE[:2]:
        visit.page.goto(f"{live.root}/jobs?filter={text}")
        expect(visit.page.locator("main h1")).to_have_text("Jobs")
        visit.page.goto(f"{live.root}/jobs/{text.replace('/', '%2F').replace('?', '%3F')}")
        expect(visit.page.locator(".empty")).to_be_visible()
    assert visit.page.locator("main script, main img, main iframe").count() == 0
    assert not [said for said in visit.complaints if "Content Security Policy" in said]


def test_an_empty_app_teaches(browser: object, tmp_path: Path, visits: Callable[..., Visit]) -> None:
    with open_shop("empty", f"sqlite:///{tmp_path}/empty.db", tmp_path) as live:
        live.start_web()
        visit = visits(live)
        for path, text in {
            "/": "windlass worker", "/jobs": "No jobs yet", "/workers": "No workers", "/schedules": "No schedules",
            "/workflows": "No workflows", "/dead": "No dead letters", "/audit": "Nothing yet", "/limits": "No limits",
        }.items():  # fmt: skip
            visit.go(path)
            visit.sees(text)
        visit.page.goto("about:blank")
