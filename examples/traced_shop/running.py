"""The shop's two processes on a free port and in a folder of their own, for its test and its pictures."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
KEY = "the-key-of-the-traced-shop"
"""Of its dashboard, which has no auth."""
T = TypeVar("T")


class Shop:
    """A shop that is open."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> str:
        """A page; empty where there is none, or nobody answers yet."""
        try:
            asked = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {KEY}"})
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, ConnectionError):
            return ""

    def order(self, item: str) -> str:
        """The id of the order's job."""
        body, headers = json.dumps({"item": item}).encode(), {"content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/orders", body, headers), timeout=10) as answer:
            return str(json.load(answer)["job"])


def wait_for(check: Callable[[], T]) -> T:
    """The first true answer."""
    limit = time.monotonic() + PATIENCE
    while not (found := check()):
        if time.monotonic() > limit:
            raise TimeoutError(f"not within {PATIENCE:g} s")
        time.sleep(0.05)
    return found


@contextmanager
def running(folder: Path) -> Iterator[Shop]:
    """Server and worker, as one would start them by hand, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {
        **os.environ, "SHOP_SPANS": str(folder / "spans.db"), "PYTHONPATH": str(ROOT),
        "WINDLASS_URL": f"sqlite:///{folder}/shop.db", "WINDLASS_WEB_KEY": KEY,
    }  # fmt: skip
    server = [sys.executable, "-m", "uvicorn", "examples.traced_shop.web:api", "--port", str(port)]
    worker = [sys.executable, "-m", "windlass", "worker", "examples.traced_shop.jobs:app"]
    with (folder / "log").open("ab") as log:
        processes = [
            subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            for command in (server, worker)
        ]  # fmt: skip
    shop = Shop(f"http://127.0.0.1:{port}")
    try:
        wait_for(lambda: shop.get("/"))
        yield shop
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)
