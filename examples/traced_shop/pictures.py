"""The pictures of the documentation: ``python -m examples.traced_shop.pictures docs/pictures``. Needs chromium."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from examples.traced_shop.running import KEY, Shop, running, wait_for


def trace_address(page: Page) -> str:
    return str(page.locator("a[href^='/traces/']").first.get_attribute("href"))


def take(shop: Shop, page: Page, folder: Path, item: str) -> None:
    id = shop.order(item)
    page.goto(f"{shop.url}/jobs/jobs/{id}")
    address = trace_address(page)
    # Complete once the second try of the payment and the parcel have been settled.
    wait_for(lambda: all(shop.get(address).count(f" settle {queue}<") == 2 for queue in ("payments", "warehouse")))
    page.goto(f"{shop.url}/jobs/jobs/{id}")
    page.screenshot(path=folder / "trace-job.png")
    page.goto(shop.url + address)
    page.screenshot(path=folder / "trace-waterfall.png", full_page=True)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own, running(Path(own)) as shop, sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1120, "height": 720})
        page.goto(f"{shop.url}/jobs/?key={KEY}")
        for item in ("chair", "lamp"):  # the first one takes its time, as everything still has to warm up
            take(shop, page, folder, item)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
