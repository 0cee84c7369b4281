"""An app with a quick schedule, for worker processes that are killed."""

from __future__ import annotations

import os

from tests.worker.helpers import SHORT, Ledger
from windlass import Windlass, current, every

app = Windlass("scheduled", os.environ.get("E2E_URL", "memory://"), **SHORT)


@app.schedule(every("100ms"), name="quick", missed="all")
@app.task(name="tick")
async def tick() -> None:
    Ledger(os.environ["E2E_LEDGER"]).write(current().headers["windlass-slot"], current().id, current().attempt)
