"""``windlass web`` as one types it: the link that it prints, and what else it answers to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.worker.helpers import ROOT, soon

WITHOUT_AUTH = ("-m", "windlass", "web", "tests.web.wsgi_site:app", "--port", "0")


@contextmanager
def started(folder: Path, *options: str, **env: str) -> Iterator[Path]:
    """The command while the block runs: what it printed."""
    said = folder / "said"
    env = {**os.environ, "WINDLASS_TEST_URL": f"sqlite:///{folder}/jobs.db", **env}
    with said.open("wb") as out:
        server = subprocess.Popen([sys.executable, *WITHOUT_AUTH, *options], cwd=ROOT, env=env, stdout=out, stderr=out)
    try:
        soon(lambda: "Dashboard of" in said.read_text() or server.poll() is not None)
        yield said
    finally:
        server.terminate()
        server.wait(20)


def link_in(text: str) -> str:
    found = re.search(r"Dashboard of shop: (\S+)", text)
    assert found, text
    return found[1]


def test_it_prints_a_link_that_lets_in(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    with started(tmp_path, "--open", BROWSER=f"{browser} %s") as said, httpx2.Client(timeout=20) as visitor:
        link = link_in(said.read_text())
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?key=[\w-]{32}", link)
        bare = link.partition("?")[0]
        assert visitor.get(bare).status_code == 403
        assert visitor.get(link, headers={"x-forwarded-for": "127.0.0.1"}).status_code == 403
        came = visitor.get(link)
        assert (came.status_code, came.headers["location"]) == (303, "/")
        assert "Overview" in visitor.get(bare).text
        soon(opened.exists)
    assert opened.read_text().strip() == link


def test_with_auth_there_is_no_key_in_the_link(tmp_path: Path) -> None:
    with started(tmp_path, WINDLASS_WEB_USER="ann:secret") as said:
        link = link_in(said.read_text())
        assert link.endswith("/")
        assert httpx2.get(link, auth=("ann", "secret"), timeout=20).status_code == 200
