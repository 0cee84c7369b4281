"""``windlass bench``: a quick look at what this machine and store do, with a real worker process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
import msgspec

from windlass.app import Windlass
from windlass.cli import output
from windlass.cli.bench_app import QUEUE, TASK, make_app
from windlass.cli.errors import NotDone
from windlass.cli.target import Target, run, takes_app
from windlass.core.job import State
from windlass.core.store_url import redact_url
from windlass.store.jobs import Action, Change, Query

_START_SECONDS = 30.0
_STALLED_SECONDS = 60.0
Say = Callable[[str], None]


class Figures(msgspec.Struct, kw_only=True):
    """What was measured. Rates are jobs per second, times are milliseconds."""

    store: str
    durability: str
    jobs: int
    concurrency: int
    enqueue_one_rate: float = 0.0
    enqueue_many_rate: float = 0.0
    drain_rate: float = 0.0
    round_trip_p50: float = 0.0
    round_trip_p99: float = 0.0
    worker_start: float = 0.0
    worker_memory_mb: float = 0.0


@click.command()
@takes_app(optional=True)
@click.option("-n", "--jobs", type=click.IntRange(100, 1_000_000), default=10_000, show_default=True, metavar="N",
              help="How many jobs that do nothing.")  # fmt: skip
@click.option("-c", "--concurrency", type=click.IntRange(1), default=100, show_default=True, metavar="N",
              help="Jobs at once in the worker.")  # fmt: skip
def bench(target: Target | None, as_json: bool, jobs: int, concurrency: int) -> None:
    """Measure: enqueue and run jobs that do nothing, with one real worker process.

    Without an app or URL it uses a temporary SQLite file, which is deleted after. On a given store
    it works in the queue windlass-bench, and deletes its jobs in the end. Nothing else should run.
    """
    say: Say = (lambda text: None) if as_json else output.note
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        url = (target.url or target.load().url) if target else f"sqlite:///{Path(folder, 'bench.windlass.db')}"
        app = make_app(url)
        with open(Path(folder, "worker.log"), "w+b") as log:
            figures = run(app, lambda: measure(app, jobs, concurrency, log, say))
    if as_json:
        output.print_json(figures)
    else:
        show(figures)


async def measure(app: Windlass, jobs: int, concurrency: int, log: IO[bytes], say: Say) -> Figures:
    store = (await app.client()).store
    info = await store.info()
    figures = Figures(
        store=f"{info.engine} {info.version}, {redact_url(app.url)}", durability=info.durability, jobs=jobs,
        concurrency=concurrency,
    )  # fmt: skip
    try:
        await fill(app, figures, say)
        say(f"starting a worker with {concurrency} slots …")
        start = time.perf_counter()
        with worker(app.url, concurrency, log) as process:
            await drain(app, figures, process, log, start)
            say("measuring round trips …")
            await round_trips(app, figures)
            figures.worker_memory_mb = memory_mb(process.pid)
    finally:
        await sweep_up(app)
    return figures


async def fill(app: Windlass, figures: Figures, say: Say) -> None:
    """Enqueue all jobs with no worker around: a part one by one, the rest in batches."""
    task = app.tasks[TASK]
    alone = min(1_000, figures.jobs // 10)
    say(f"enqueueing {alone:,} jobs one by one, then {figures.jobs - alone:,} in batches …")
    start = time.perf_counter()
    for _ in range(alone):
        await task.enqueue()
    middle = time.perf_counter()
    await app.enqueue_many([task.s() for _ in range(figures.jobs - alone)])
    figures.enqueue_one_rate = alone / (middle - start)
    figures.enqueue_many_rate = (figures.jobs - alone) / (time.perf_counter() - middle)


@contextmanager
def worker(url: str, concurrency: int, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process for the bench app, stopped at the end."""
    command = [sys.executable, "-m", "windlass", "worker", "windlass.cli.bench_app:app"]
    process = subprocess.Popen(
        [*command, "-c", str(concurrency), "--log-level", "warning"], env={**os.environ, "WINDLASS_URL": url},
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def drain(
    app: Windlass, figures: Figures, process: subprocess.Popen[bytes], log: IO[bytes], start: float
) -> None:
    """Wait until all jobs are done. The clock starts with the first job seen done, so that the worker's start is not
    counted.
    """
    first, done_then, done, moved = 0.0, 0, 0, start
    while True:
        now, seen = time.perf_counter(), (await app.queue(QUEUE).counts()).get(State.SUCCEEDED, 0)
        if seen and not first:
            first, done_then, figures.worker_start = now, seen, (now - start) * 1000
        if seen != done:
            done, moved = seen, now
        if done >= figures.jobs:
            break
        if process.poll() is not None or now - moved > (_STALLED_SECONDS if first else _START_SECONDS):
            log.seek(0)
            raise NotDone(f"the worker stopped after {done:,} jobs", log.read().decode(errors="replace"))
        await asyncio.sleep(0.01)
    passed = time.perf_counter() - first
    # All jobs were done at the first look: too few for a rate, so the worker's start is counted in.
    figures.drain_rate = (done - done_then) / passed if done > done_then else done / (first - start)


async def round_trips(app: Windlass, figures: Figures) -> None:
    """Measure an idle worker: from the call to its result, one call after the other."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        await (await app.tasks[TASK].enqueue()).result(timeout=30)
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    figures.round_trip_p50, figures.round_trip_p99 = times[100], times[198]


def memory_mb(pid: int) -> float:
    """A process's resident memory; 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_048_576


async def sweep_up(app: Windlass) -> None:
    """Delete the bench's jobs from a store that goes on existing."""
    store = (await app.client()).store
    cursor = ""
    while True:
        query = Query(queue=QUEUE, limit=1_000, after=cursor)
        cursor = (await store.change(Change(action=Action.DELETE), query=query)).cursor
        if not cursor:
            return


def show(figures: Figures) -> None:
    output.fields([("store", figures.store), ("durability", figures.durability)])
    click.echo()
    memory = f"{figures.worker_memory_mb:.0f} MB" if figures.worker_memory_mb else "?"
    output.table(
        ("what", "result"),
        [
            ("enqueue, one at a time", f"{figures.enqueue_one_rate:,.0f} jobs/s"),
            ("enqueue, in batches", f"{figures.enqueue_many_rate:,.0f} jobs/s"),
            (f"run {figures.jobs:,} jobs, {figures.concurrency} at once", f"{figures.drain_rate:,.0f} jobs/s"),
            ("round trip to an idle worker, median", f"{figures.round_trip_p50:.1f} ms"),
            ("round trip to an idle worker, 99%", f"{figures.round_trip_p99:.1f} ms"),
            ("worker start to first job done", f"{figures.worker_start:,.0f} ms"),
            ("worker memory", memory),
        ],
        right=("result",),
    )
