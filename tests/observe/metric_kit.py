"""What the tests of metrics share: an app in a folder, its workers as real processes, scrapes, and promtool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.worker.helpers import soon

ROOT = Path(__file__).parents[2]
APP = "tests.observe.shop:app"
Numbers = dict[tuple[str, ...], float]
"""By name and label values, in the order of the labels' names."""


def scrape(text: str | bytes) -> Numbers:
    """What a text tells. What cannot be parsed raises."""
    text = text.decode() if isinstance(text, bytes) else text
    found: Numbers = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in found, f"{key} is told twice"
            found[key] = sample.value
    return found


def names_in(expr: str) -> set[str]:
    """The metrics that an expression speaks of."""
    return set(re.findall(r"\b(?:windlass)_[a-z_]+", expr))


def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("missing promtool: apt-get install prometheus")
    return found


def check_rules(file: Path) -> str:
    """promtool's word on a file of rules; duplicates are errors."""
    argv = [promtool(), "check", "rules", "--lint=all", "--lint-fatal", str(file)]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def check_exprs(exprs: list[str], folder: Path) -> None:
    """Every expression is one that Prometheus reads."""
    rules = [{"record": f"a{number}", "expr": expr} for number, expr in enumerate(exprs)]
    file = folder / "exprs.json"
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check_rules(file)


class Shop:
    """``windlass`` commands about the shop, run in a folder; none outlives the test."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        own = ("WINDLASS_", "PROMETHEUS_")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        self.env |= {"PYTHONPATH": str(ROOT), "SHOP_URL": url}
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, *args: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "windlass", *args], cwd=self.folder, env=self.env | env, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "windlass", *args], cwd=self.folder, env=self.env, stdout=log, stderr=log
            )
        self._running.append(process)
        return process

    def worker(self, *args: str) -> Port:
        """A worker that serves metrics, once it is up."""
        process = self.start("worker", APP, "--metrics", "0", *args)
        url = soon(lambda: self._url(process))[0]
        count = int(args[args.index("--processes") + 1]) if "--processes" in args else 1
        port = Port(url, process)
        soon(lambda: port.get().get(("windlass_worker_processes",)) == count, 40)
        return port

    def _url(self, process: subprocess.Popen[bytes]) -> list[str]:
        assert process.poll() is None, self.log()
        return re.findall(r"metrics are at (\S+)", self.log())

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> None:
        for process in self._running:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()


class Port:
    """Where a worker serves its metrics."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self.process = url, process

    def text(self) -> str:
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            body: bytes = answer.read()
        return body.decode()

    def get(self) -> Numbers:
        return scrape(self.text())

    def until(self, check: Callable[[dict[tuple[str, ...], float]], Any]) -> Numbers:
        """The first scrape that is as wanted."""
        seen: list[Numbers] = []

        def ask() -> bool:
            seen.append(self.get())
            return bool(check(seen[-1]))

        soon(ask, 40, every=0.05)
        return seen[-1]
