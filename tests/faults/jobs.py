"""The app whose workers are killed, paused and cut: tasks that do nothing but leave their trace."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from tests.worker.helpers import SHORT, Ledger
from windlass import Windlass, current

PATIENT = {"max_crashes": 100, "events_kept": 1_000_000}
"""Kills from outside hit the same job again and again; here no job is given up for that."""
SETTINGS = {**SHORT, **PATIENT}

app = Windlass("faults", os.environ.get("E2E_URL", "memory://"), **SETTINGS)
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))


def note(what: str) -> None:
    ledger.write(what, current().id, current().attempt)


@app.task
async def on_loop(n: int, pause: float) -> int:
    note("start")
    await asyncio.sleep(pause)
    note("end")
    return n


@app.task
def in_thread(n: int, pause: float) -> int:
    note("start")
    time.sleep(pause)
    note("end")
    return n


@app.task(runs_in="process")
def in_process(n: int, pause: float) -> int:
    note("start")
    time.sleep(pause)
    note("end")
    return n


@app.task
async def reporting(n: int, pause: float) -> int:
    """Says how it gets on, as jobs do."""
    note("start")
    current().progress(1, "started")
    await asyncio.sleep(pause)
    current().log("almost there")
    note("end")
    return n


@app.task
async def member(n: int, pause: float, fails: bool) -> int:
    """One of a chord's header; some are bound to fail."""
    note("start")
    await asyncio.sleep(pause)
    if fails:
        raise ValueError(f"member {n} was bound to fail")
    note("end")
    return n


@app.task
async def body(values: list[int]) -> int:
    note("start")
    note("end")
    return sum(values)


@app.task
async def blocking(seconds: float) -> str:
    """Keeps the whole loop from turning."""
    note("start")
    time.sleep(seconds)  # noqa: ASYNC251
    note("end")
    return "done"


@app.task(max_crashes=3)
async def killer() -> None:
    note("start")
    await asyncio.sleep(0.05)  # so that its neighbours have started
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(max_crashes=3)
async def neighbour(n: int) -> int:
    note("start")
    await asyncio.sleep(0.2)
    return n


@app.task(on_crash="fail")
async def once() -> None:
    note("start")
    await asyncio.sleep(60)
