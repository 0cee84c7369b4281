"""An app to watch, for worker processes of the tests and for ``windlass top``."""

from __future__ import annotations

import asyncio
import os

from tests.worker.helpers import SHORT
from windlass import Windlass, every

app = Windlass(os.environ.get("E2E_NAME", "watched"), os.environ.get("E2E_URL", "memory://"), **SHORT)


@app.task(name="fails", queue="work", retries=0)
def fails(n: int) -> None:
    if not os.path.exists(os.environ["E2E_LEDGER"]):
        raise OSError(f"number {n}")


@app.task(name="waits", queue="work")
async def waits() -> None:
    await asyncio.Event().wait()


@app.schedule(every("1h"), name="hourly")
@app.task(name="counts", queue="work", tags=["vip"], search=["n"])
async def counts(n: int = 0) -> int:
    return n
