"""A visitor with a browser: goes to pages, presses, types, and remembers everything a page complained about."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.browser.kit import PASSWORD, SECONDS, USER, Live
from tests.servers.process import wait_until

WAIT = 45_000
"""Patience with a page, in ms."""

expect.set_options(timeout=WAIT)


class Visit:
    """One person's browser. ``excuse``: parts of complaints that belong to the test."""

    def __init__(self, browser: Browser, live: Live, *, user: bool = True, path: str = "", **options: Any) -> None:
        login = {"username": USER, "password": PASSWORD}
        if user:
            options.setdefault("http_credentials", login)
        options.setdefault("viewport", {"width": 1280, "height": 800})
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(WAIT)
        self.live = live
        self.complaints: list[str] = []
        self.excused: list[str] = []
        self.elsewhere: list[str] = []
        self.page = self._watch(self.context.new_page())

    def _watch(self, page: Page) -> Page:
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._asked)
        return page

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self.live.root}/", "data:", "about:")):
            self.elsewhere.append(request.url)

    def excuse(self, *parts: str) -> None:
        """Complaints with these words in them are what the test is about."""
        self.excused += parts

    def end(self) -> list[str]:
        self.context.close()
        found = [said for said in self.complaints if not any(part in said for part in self.excused)]
        return [*found, *(f"asked elsewhere: {url}" for url in self.elsewhere)]

    # -- getting around

    def go(self, path: str = "/") -> Page:
        self.page.goto(f"{self.live.root}{path}", wait_until="domcontentloaded")
        return self.page

    def find(self, path: str, selector: str) -> Page:
        """A page that shows something made a moment ago: what was read in the last second may be shown once more."""

        def look() -> bool:
            self.go(path)
            return self.page.locator(selector).count() > 0

        wait_until(look, f"{selector} on {path}", SECONDS, 0.2)
        return self.page

    def job(self, id: str) -> Page:
        return self.go(f"/jobs/{id}")

    # -- doing

    def ready(self) -> Page:
        """The page's scripts have started: before that, a button does nothing."""
        self.page.locator("html[data-ready]").wait_for(state="attached")
        return self.page

    def press(self, text: str, within: Locator | None = None) -> None:
        self.ready()
        (within or self.page.locator("main")).get_by_role("button", name=text, exact=True).first.click()

    def agree(self, text: str = "") -> None:
        """Press the button that does it in the question that is open."""
        go = self.page.locator("#ask-go")
        if text:
            expect(go).to_have_text(text)
        go.click()

    def fill(self, **fields: str) -> Locator:
        """Fill fields of the dialog that is open, by their names."""
        dialog = self.page.locator("dialog[open]")
        for name, value in fields.items():
            dialog.locator(f"[name='{name}']").fill(value)
        return dialog

    def submit(self, **fields: str) -> None:
        self.fill(**fields).locator("footer .primary").click()

    # -- seeing

    def told(self, text: str | re.Pattern[str]) -> None:
        """A toast says so. It is closed again, so that the next is not mistaken for it."""
        toast = self.page.locator(".toast", has_text=text).first
        expect(toast).to_be_visible()
        toast.get_by_role("button", name="Close").click()

    def sees(self, text: str | re.Pattern[str], where: str = "main") -> None:
        expect(self.page.locator(where).first).to_contain_text(text)

    def state(self, word: str) -> None:
        """The badge beside the page's title."""
        expect(self.page.locator(".title .state").first).to_have_text(word)

    def fact(self, name: str, text: str) -> None:
        """One of the facts beside a job or a queue."""
        title = self.page.locator("dt").filter(has_text=re.compile(f"^{re.escape(name)}$"))
        expect(title.locator("xpath=following-sibling::dd[1]").first).to_contain_text(text)

    def overflow(self) -> int:
        script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(script))
