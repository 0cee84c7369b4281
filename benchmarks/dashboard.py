"""The dashboard over many jobs: `python -m benchmarks dashboard [--engine redis] [--jobs 1000000] [--tabs 5]`.

How long each page takes (its first call and the median of the next ones), and what the dashboard costs the store while
it is open: tabs that listen and read their page again at each tick, beside a worker with a little to do. On Redis that
is the server's processor time with and without the tabs; on SQLite, which has no server, that of the dashboard itself.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psutil

from benchmarks.harness import server
from benchmarks.harness.server import Server
from tests.servers.process import HOST, free_port, wait_until

CALLS = 10
TICKS_FOR = 20.0
TRICKLE = 20
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs, failed": "/jobs?filter=state:failed",
    "jobs, running": "/jobs?filter=state:running",
    "jobs, ready": "/jobs?filter=state:ready",
    "jobs, succeeded in a queue": "/jobs?filter=state:succeeded+queue:mail",
    "jobs of a task": "/jobs?filter=task:media.scale",
    "jobs of an hour": "/jobs?filter=since:1h",
    "jobs, failed of a task": "/jobs?filter=state:failed+task:billing.charge",
    "jobs by argument (searched, partial)": "/jobs?filter=args.number:123456",
    "queues": "/queues",
    "queue": "/queues/mail",
    "workers": "/workers",
    "schedules": "/schedules",
    "workflows": "/workflows",
    "dead letters": "/dead",
    "limits": "/limits",
    "tasks": "/tasks",
    "audit": "/audit",
    "metrics": "/metrics",
    "health": "/health",
}
AUTH = ("bench", "bench")
QUEUES = "mail,media,billing,reports,default"
TABS = ("/", "/jobs", "/queues", "/workers", "/dead")


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks dashboard", description="The dashboard over many jobs.")
    parser.add_argument("--engine", choices=("sqlite", "redis"), default="redis")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--tabs", type=int, default=len(TABS))
    return parser.parse_args(words)


@contextmanager
def _store(engine: str, folder: Path) -> Iterator[tuple[str, Server | None]]:
    if engine == "sqlite":
        yield f"sqlite:///{folder}/shop.db?durability=normal", None
        return
    with server.running(folder / "redis") as found:
        yield found.url + "?prefix=shop", found


@contextmanager
def _process(folder: Path, url: str, *words: str) -> Iterator[psutil.Process]:
    env = {**os.environ, "BENCH_URL": url}
    command = [sys.executable, "-m", "windlass", *words]
    with (folder / f"{words[0]}.log").open("w") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _fill(url: str, count: int) -> None:
    code = f"import asyncio; from benchmarks.apps import dashboard_app as d; asyncio.run(d.fill({count}))"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "BENCH_URL": url}, check=True)


def _drained(base: str) -> bool:
    queues = httpx2.get(f"{base}/api/queues", timeout=60, auth=AUTH).json()
    left = [one["counts"].get("ready", 0) for one in queues if one["name"] != "later"]
    return bool(left) and not any(left)


def _time_pages(base: str) -> Iterator[tuple[str, float, float, int]]:
    with httpx2.Client(base_url=base, timeout=60, auth=AUTH) as client:
        for name, path in PAGES.items():
            times = []
            for _ in range(CALLS + 1):
                started = time.perf_counter()
                answer = client.get(path)
                times.append((time.perf_counter() - started) * 1000)
                answer.raise_for_status()
                # What is read within a second is shared, which must not be what is measured.
                time.sleep(1.05)
            yield name, times[0], statistics.median(times[1:]), len(answer.content)


async def _tab(base: str, path: str) -> None:
    """What a browser does with a page that is open: listens, and reads the page again at each tick."""
    async with (
        httpx2.AsyncClient(base_url=base, timeout=None, auth=AUTH) as client,
        client.stream("GET", "/live") as stream,
    ):
        async for line in stream.aiter_lines():
            if line.startswith("event: tick"):
                (await client.get(path)).raise_for_status()


@asynccontextmanager
async def _tabs(base: str, count: int) -> AsyncIterator[None]:
    tabs = [asyncio.create_task(_tab(base, TABS[n % len(TABS)])) for n in range(count)]
    try:
        yield
        for tab in tabs:
            if tab.done():
                tab.result()
    finally:
        for tab in tabs:
            tab.cancel()
        await asyncio.gather(*tabs, return_exceptions=True)


async def _trickle() -> None:
    """Something always happens."""
    from benchmarks.apps.dashboard_app import app, send

    async with app:
        while True:
            await send.enqueue(1, "someone@example.com")
            await asyncio.sleep(1 / TRICKLE)


def _cpu(found: Server | None, web: psutil.Process) -> tuple[float, float]:
    """Seconds of the store's server and of the dashboard."""
    used = web.cpu_times()
    own = used.user + used.system
    if found is None:
        return 0.0, own
    return float(found.info("cpu", "used_cpu_user")) + float(found.info("cpu", "used_cpu_sys")), own


async def _load(base: str, found: Server | None, web: psutil.Process, tabs: int) -> tuple[float, float]:
    """Parts of a core that server and dashboard use with so many tabs."""
    trickle = asyncio.create_task(_trickle())
    async with _tabs(base, tabs):
        await asyncio.sleep(3)
        (store, own), started = _cpu(found, web), time.perf_counter()
        await asyncio.sleep(TICKS_FOR)
        (store_after, own_after), seconds = _cpu(found, web), time.perf_counter() - started
    trickle.cancel()
    await asyncio.gather(trickle, return_exceptions=True)
    return (store_after - store) / seconds * 100, (own_after - own) / seconds * 100


def main(words: list[str]) -> int:
    arguments = _arguments(words)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with _store(arguments.engine, folder) as (url, found):
            os.environ["BENCH_URL"] = url
            print(f"filling {arguments.jobs:,} jobs", flush=True)
            _fill(url, arguments.jobs)
            app, port = "benchmarks.apps.dashboard_app:app", str(free_port())
            base = f"http://{HOST}:{port}"
            with (
                _process(folder, url, "worker", app, "-c", "256", "-Q", QUEUES),
                _process(folder, url, "web", app, "--port", port, "--user", ":".join(AUTH)) as web,
            ):
                wait_until(lambda: _answers(base), "the dashboard", timeout=60)
                wait_until(lambda: _drained(base), "the end of the backlog", timeout=600)
                _report(arguments, base, found, web)
    return 0


def _answers(base: str) -> bool:
    try:
        return httpx2.get(f"{base}/health", timeout=5).status_code < 600
    except httpx2.HTTPError:
        return False


def _report(arguments: argparse.Namespace, base: str, found: Server | None, web: psutil.Process) -> None:
    print(
        f"\n{arguments.engine}, {arguments.jobs:,} jobs\n\n| page | first | median of {CALLS} | KB |\n|---|---|---|---|"
    )
    for name, first, median, size in _time_pages(base):
        print(f"| {name} | {first:.0f} ms | {median:.0f} ms | {size / 1024:.0f} |", flush=True)
    closed = asyncio.run(_load(base, found, web, 0))
    opened = asyncio.run(_load(base, found, web, arguments.tabs))
    print(
        f"\n| | store server | dashboard process |\n|---|---|---|\n| closed | {closed[0]:.2f} % | {closed[1]:.2f} % |"
    )
    print(f"| {arguments.tabs} tabs | {opened[0]:.2f} % | {opened[1]:.2f} % |")
    print(f"\nof one core, over {TICKS_FOR:.0f} s, {TRICKLE} jobs a second meanwhile")
