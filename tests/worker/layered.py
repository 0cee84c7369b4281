"""An app with middleware, whose process tasks run in children that import this module, middleware and all."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.worker.helpers import SHORT, Ledger
from windlass import Current, Windlass

app = Windlass("layered", os.environ.get("E2E_URL", "memory://"), **SHORT)
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))


@app.around_run
async def trace(job: Current, call_next: Any) -> Any:
    Ledger(job.headers["ledger"]).write("layer", job.id, job.attempt)
    return await call_next()


@app.task
async def on_loop(n: int) -> int:
    return n


@app.task
def in_thread(n: int) -> int:
    return n


@app.task(runs_in="process")
def in_child(n: int) -> int:
    return n


@app.task(runs_in="process")
async def in_child_async(n: int) -> int:
    await asyncio.sleep(0)
    return n


@app.task
def raises_in_thread() -> None:
    raise LookupError("in the thread")


@app.task(runs_in="process")
def raises_in_child() -> None:
    raise LookupError("in the child")
