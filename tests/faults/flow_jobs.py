"""The app whose limits, lanes, unique keys and schedules are put under fire. Tasks leave their trace and no more."""

from __future__ import annotations

import asyncio
import os

from tests.faults.jobs import PATIENT
from tests.worker.helpers import Ledger
from windlass import Windlass, current

SETTINGS = {**PATIENT, "lease": "2.5s", "beat": "0.5s"}
"""Many processes on few cores: a worker that is only slow should not be taken for dead."""

app = Windlass("faults", os.environ.get("E2E_URL", "memory://"), **SETTINGS)
app.queue("rated", rate=os.environ.get("E2E_RATE", "40/s"))
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))


def note(what: str, about: str = "") -> None:
    """One line; ``about`` goes behind the job's id."""
    ledger.write(what, f"{current().id}/{about}" if about else current().id, current().attempt)


@app.task(limit=int(os.environ.get("E2E_LIMIT", "3")))
async def limited(n: int, pause: float) -> int:
    note("start")
    await asyncio.sleep(pause)
    note("end")
    return n


@app.task(queue="rated")
async def rated(n: int) -> int:
    note("start")
    note("end")
    return n


@app.task(key=["key"], ordered=True, retries=50, backoff=0.02)
async def step(key: str, n: int, failures: int, pause: float) -> int:
    """The ``n``-th job of its key; fails so often before it succeeds."""
    note("start")
    await asyncio.sleep(pause)
    if current().attempt <= failures:
        raise ValueError("not yet")
    note("end")
    return n


@app.task
async def only(n: int, pause: float) -> int:
    """Of these there is one at a time: the calls say so."""
    note("start", str(n))
    await asyncio.sleep(pause)
    note("end", str(n))
    return n


@app.task
async def tick() -> None:
    note("start", current().headers["windlass-slot"])
