"""Callers of every kind: threads, loops, forked processes and gunicorn's workers."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.worker.helpers import ROOT, soon
from windlass import Windlass

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forking needs POSIX")


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Windlass]:
    app = Windlass("callers", f"sqlite:///{tmp_path}/jobs.db?durability=normal")

    @app.task(name="add")
    async def add(x: int, y: int = 1) -> int:
        return x + y

    yield app
    app.sync.close()


def test_delay_from_many_threads(plain: Windlass) -> None:
    add = plain.tasks["add"]
    with ThreadPoolExecutor(32) as threads:
        handles = list(threads.map(add.delay, range(1_000)))
    assert len({handle.id for handle in handles}) == 1_000
    assert plain.sync.counts("default") == {"ready": 1_000}


def test_results_in_many_threads(plain: Windlass) -> None:
    """A worker on a loop of its own, callers in threads."""
    stop, up = threading.Event(), threading.Event()

    async def serve() -> None:
        async with plain.worker():
            up.set()
            await asyncio.to_thread(stop.wait)
        await plain.close()

    server = threading.Thread(target=asyncio.run, args=(serve(),))
    server.start()
    try:
        assert up.wait(10)
        with ThreadPoolExecutor(16) as threads:
            results = list(threads.map(lambda n: plain.tasks["add"].delay(n).get(timeout=20), range(200)))
        assert results == list(range(1, 201))
    finally:
        stop.set()
        server.join()


async def test_delay_from_a_running_loop(plain: Windlass) -> None:
    handles = [plain.tasks["add"].delay(n) for n in range(10)]
    assert await plain.queue("default").counts() == {"ready": 10}
    async with plain.worker():
        assert [await handle for handle in handles] == list(range(1, 11))
    await plain.close()


FORK = """
import os, sys, threading
from windlass import Windlass

app = Windlass("forks", sys.argv[1])

@app.task(name="add")
async def add(x: int) -> int:
    return x

def burst(start):
    threads = [threading.Thread(target=lambda n=n: add.delay(start + n)) for n in range(5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

burst(0)
handle = add.delay(100)
busy = threading.Thread(target=lambda: [add.delay(1000 + n) for n in range(200)])
busy.start()
children = []
for generation in range(3):
    pid = os.fork()
    if pid == 0:
        burst(10 * (generation + 1))
        assert handle.info() is not None
        assert app.sync.counts("default")["ready"] > 0
        grandchild = os.fork()
        if grandchild == 0:
            add.delay(77)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 0
        app.sync.close()
        os._exit(0)
    children.append(pid)
    burst(50)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
assert codes == [0, 0, 0], codes
busy.join()
burst(60)
assert handle.cancel()
print(app.sync.counts("default"))
app.sync.close()
"""


def test_parent_and_children_go_on_after_a_fork(tmp_path: Path) -> None:
    """Forked while a thread is enqueueing: nobody inherits a connection, nobody hangs, nothing is lost."""
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, url],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # 5 + 200 busy + 3 * (5 + 1 grandchild) of the children + 3 * 5 + 5 of the parent; one was cancelled.
    assert done.stdout.strip() == str({"ready": 5 + 200 + 18 + 15 + 5, "cancelled": 1})


WSGI = """
import os
from windlass import Windlass

app = Windlass("web", os.environ["E2E_URL"])

@app.task(name="add")
async def add(x: int) -> int:
    return x

add.delay(0)  # at import, in the master: preload forks after the portal's thread is up

def wsgi(environ, start_response):
    handle = add.delay(1)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {handle.info().state}".encode()]
"""


@pytest.mark.parametrize("worker_class", ["sync", "gthread"])
def test_gunicorn_with_preload(tmp_path: Path, worker_class: str) -> None:
    if importlib.util.find_spec("gunicorn") is None:
        pytest.skip("missing: gunicorn")
    (tmp_path / "shop_wsgi.py").write_text(WSGI)
    url = f"sqlite:///{tmp_path}/jobs.db?durability=normal"
    socket = tmp_path / "port"
    env = {**os.environ, "E2E_URL": url, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    log = (tmp_path / "log").open("wb")
    server = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-k", worker_class, "--threads", "4", "-b",
         "127.0.0.1:0", "--pid", str(socket), "shop_wsgi:wsgi", "--worker-tmp-dir", str(tmp_path)],
        env=env, stdout=log, stderr=log, cwd=tmp_path,
    )  # fmt: skip
    try:
        address = soon(lambda: listening_at(tmp_path / "log"))
        answers: list[tuple[str, ...]] = []
        with ThreadPoolExecutor(8) as threads:
            while len({pid for pid, _ in answers}) < 2 and len(answers) < 1_000:  # until both workers have answered
                answers += [tuple(text.split()) for text in threads.map(lambda _: fetch(address), range(16))]
        assert {state for _, state in answers} == {"ready"}
        assert len({pid for pid, _ in answers}) == 2
    finally:
        server.terminate()
        assert server.wait(20) == 0
        log.close()
    app = Windlass("web", url)
    assert app.sync.counts("default") == {"ready": 1 + len(answers)}
    app.sync.close()


def listening_at(log: Path) -> str:
    for line in log.read_text(errors="replace").splitlines():
        if "Listening at: " in line:
            return line.split("Listening at: ")[1].split()[0]
    return ""


def fetch(address: str) -> str:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
