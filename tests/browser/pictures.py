"""Makes the pictures of the documentation anew: ``python -m tests.browser.pictures``.

They show the shop with a day's life in it, on SQLite. Each stays below 150 KB, so that the repository stays small.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from tests.browser.fill import Filled, fill
from tests.browser.kit import PASSWORD, ROOT, USER, Live, open_shop

PICTURES = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000


class Shot(NamedTuple):
    """A page as it is pictured: at a desk unless it says otherwise."""

    name: str
    path: str
    dark: bool = False
    width: int = 1280
    height: int = 800


def shots(filled: Filled) -> list[Shot]:
    return [
        Shot("overview-light", "/"),
        Shot("overview-dark", "/", dark=True),
        Shot("jobs", "/jobs?filter=state:failed,running,scheduled", height=640),
        Shot("job", f"/jobs/{filled.jobs['running']}", height=720),
        Shot("workflow", f"/workflows/{filled.workflows['failed']}", height=560),
        Shot("workflow-time", f"/workflows/{filled.workflows['succeeded']}?view=time", height=440),
        Shot("tasks", "/tasks?sort=rate", height=640),
        Shot("phone", "/", width=390, height=844),
    ]


def take(browser: Browser, live: Live, shot: Shot) -> Path:
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.dark else "light", http_credentials={"username": USER, "password": PASSWORD},
        locale="en-GB", reduced_motion="reduce",
    )  # fmt: skip
    page = context.new_page()
    page.goto(f"{live.root}{shot.path}")
    page.locator("#live[data-state=live]").wait_for()
    path = PICTURES / f"{shot.name}.png"
    page.screenshot(path=path)
    context.close()
    return path


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        sys.stderr.write("missing chromium: apt-get install chromium\n")
        return 1
    PICTURES.mkdir(exist_ok=True)
    too_large = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with open_shop("shop", f"sqlite:///{home}/shop.db", home) as live, sync_playwright() as playwright:
            live.start_worker()
            filled = fill(live)
            live.start_web("--environment", "staging")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            made = [take(browser, live, shot) for shot in shots(filled)]
            browser.close()
    for path in made:
        size = path.stat().st_size
        sys.stdout.write(f"{path.relative_to(ROOT)}  {size:,} bytes\n")
        too_large += [path.name] if size > MOST_BYTES else []
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
