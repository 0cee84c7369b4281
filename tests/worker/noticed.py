"""An app that tells of its dead letters, for worker processes of the tests."""

from __future__ import annotations

import os
import signal

from tests.worker.helpers import SHORT, Ledger
from windlass import DeadLetter, Email, Notice, Reject, Webhook, Windlass, current

app = Windlass(
    os.environ.get("E2E_NAME", "noticed"), os.environ.get("E2E_URL", "memory://"), unknown_after="1s", **SHORT
)
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))


@app.task(name="fails", queue="work")
async def fails(n: int) -> None:
    raise Reject(f"number {n}")


@app.task(name="dies", queue="work", max_crashes=1)
async def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.on_dead(name="told", queue="wor*")
async def told(letter: DeadLetter) -> None:
    ledger.write(f"letter {letter.error.rpartition('.')[2]}", letter.id, current().attempt)


def noted(notice: Notice) -> None:
    ledger.write(f"notice {notice.kind}", notice.job or notice.queue, notice.held_back)


app.notify(noted, every=os.environ.get("E2E_EVERY", "0s"), stuck_after="1s", queue="wor*")
if hook := os.environ.get("E2E_HOOK"):
    app.notify(Webhook(hook, secret="whsec_c2VjcmV0", allow_private=True), on=["dead"], every="1h")
if mail := os.environ.get("E2E_MAIL"):
    app.notify(Email(["ops@example.com", "b@example.com"], "jobs@example.com", mail), on=["dead"], every="1h")
