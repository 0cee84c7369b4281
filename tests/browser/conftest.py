"""One Chromium for all tests of the folder, in a thread of its own; an open shop on each engine.

Both are closed when the folder is done: open, they would go on drawing and asking beside all other tests.

Playwright's sync calls keep an event loop running in the thread they are made from, where no async test could run any
more. So the browser has its own thread, and the tests of this folder run in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.browser.fill import Filled, fill
from tests.browser.kit import Live, open_shop
from tests.browser.visit import Visit
from tests.servers.fixtures import redis7
from tests.servers.redis import fresh_prefix

__all__ = ["redis7"]

thread = ThreadPoolExecutor(1, "browser")

QUEUES = "stopped,gate,tuned,old-stuff,from-here,to-there,checks,many,hostile,hushed"
"""Of tests that pause, fill or empty a queue."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test in the browser's thread."""
    names = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in names}
    thread.submit(pyfuncitem.obj, **given).result()
    return True


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("missing chromium: apt-get install chromium")
    return found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = chromium()

    def start() -> tuple[Playwright, Browser]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

    playwright, browser = thread.submit(start).result()
    yield browser
    thread.submit(lambda: (browser.close(), playwright.stop())).result()


@pytest.fixture(scope="package", params=["sqlite", "redis"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A shop with a worker and a dashboard, shared by all tests: each uses jobs, queues and names of its own."""
    chromium()
    folder = tmp_path_factory.mktemp(request.param)
    url = f"sqlite:///{folder}/shop.db?durability=normal"
    if request.param == "redis":
        url = request.getfixturevalue("redis7").url
    with open_shop(fresh_prefix(), url, folder, QUEUES) as live:
        live.start_worker()
        live.start_web()
        yield live


@pytest.fixture(scope="package")
def filled(live: Live) -> Filled:
    return fill(live)


@pytest.fixture
def visits(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Makes visitors; at the end, none of their pages may have complained."""
    made: list[Visit] = []

    def make(live: Live, **options: Any) -> Visit:
        made.append(Visit(browser, live, **options))
        return made[-1]

    yield make

    def end() -> list[str]:
        return [said for visit in made for said in visit.end()]

    assert thread.submit(end).result() == []


@pytest.fixture
def visit(visits: Callable[..., Visit], live: Live) -> Visit:
    """Ann, who may do everything."""
    return thread.submit(visits, live).result()


@pytest.fixture
def stage(tmp_path: Path) -> str:
    """A name for a staged job that no other test uses."""
    return f"{tmp_path.name}-{fresh_prefix()}"
