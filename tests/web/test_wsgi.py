"""The dashboard under a WSGI server: it reads, it writes, and its streams end by themselves."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.web.kit import basic, bearer, make_app, populate
from tests.worker.helpers import ROOT, soon
from windlass.web.csrf import BODY_MAX

KEY = "a-key-of-the-tests"
PREFORK = ("--workers", "2", "--threads", "2", "--preload")


@pytest.fixture
async def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    app = make_app(url)
    await populate(app)
    await app.close()
    return url


@pytest.fixture(params=["site", "alone"])
def visitor(request: pytest.FixtureRequest, url: str) -> Iterator[httpx2.Client]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "gunicorn", *PREFORK, "--bind", f"fd://{listener.fileno()}"]
        server = subprocess.Popen(
            [*command, f"tests.web.wsgi_site:{request.param}"], cwd=ROOT, pass_fds=[listener.fileno()],
            env={**os.environ, "WINDLASS_TEST_URL": url, "WINDLASS_WEB_KEY": KEY},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as visitor:
                soon(lambda: server.poll() is None and is_up(visitor))
                yield visitor
        finally:
            server.terminate()
            server.wait(20)


def is_up(visitor: httpx2.Client) -> bool:
    try:
        return visitor.get("/static/base.css").status_code < 500
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize("visitor", ["site"], indirect=True)
def test_reading_and_writing(visitor: httpx2.Client) -> None:
    assert visitor.get("/").status_code == 401
    for _ in range(6):  # by either process
        page = visitor.get("/jobs", headers=basic("ann", "secret"))
        assert page.status_code == 200
        assert "failed-1" in page.text
        assert 'data-streams="no"' in page.text
    made = visitor.post("/api/jobs", json={"task": "mail.send", "args": {"to": "a"}}, headers=bearer("all"))
    assert made.status_code == 201
    id = made.json()["id"]
    assert visitor.get(f"/api/jobs/{id}", headers=bearer("all")).json()["row"]["state"] == "ready"
    token = re.search(r'name="windlass-token" content="(\w+)"', visitor.get("/", headers=basic("ann", "secret")).text)
    assert token
    headers = {**basic("ann", "secret"), "x-windlass-token": token[1]}
    assert visitor.post("/api/queues/mail/pause", headers=headers).json()["paused"] is True
    assert visitor.post("/api/queues/mail/pause", headers=basic("ann", "secret")).status_code == 403
    assert visitor.request("DELETE", "/api/views/fresh", headers=bearer("all")).status_code == 200
    assert visitor.get("/api/jobs/none", headers=bearer("all")).status_code == 404
    for stream in ("/live", "/api/events?since=0", "/api/jobs/done-1/events"):
        told = visitor.get(stream, headers=bearer("all"))
        assert told.status_code == 200
        assert "event: " in told.text
        assert "retry: " in told.text
    headers = {**bearer("all"), "content-type": "application/json"}
    assert visitor.post("/api/jobs", content=b"x" * (BODY_MAX + 1), headers=headers).status_code == 413


@pytest.mark.parametrize("visitor", ["alone"], indirect=True)
def test_without_auth_this_machine_only_looks(visitor: httpx2.Client) -> None:
    """The client's address arrives through WSGI as well."""
    assert visitor.get("/api/me").status_code == 403
    headers = {"authorization": f"Bearer {KEY}"}
    assert visitor.get("/api/me", headers=headers).json()["user"] == "anonymous"
    for more in ({"host": "evil.example"}, {"host": "localhost:1"}, {"x-forwarded-proto": "https"}, {"via": "1.1 x"}):
        assert visitor.get("/api/me", headers={**headers, **more}).status_code == 403, more
    assert visitor.post("/api/queues/mail/pause", headers=headers).status_code == 403
    assert visitor.get("/", params={"key": KEY}).headers["location"] == "/"
    for _ in range(6):  # by either process
        assert visitor.get("/jobs").status_code == 200
