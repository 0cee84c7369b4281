"""The shop: an order is validated, charged, reserved and notified; each step enqueues the next one.

A step's job id is ``step:order``. A step that runs twice, because its worker died under it, enqueues the next one
twice as well, and the second time the store answers that it has this job already.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

from examples.demo import ledger
from windlass import Exponential, Reject, Windlass, current

STEPS = ("validate", "charge", "reserve", "notify")
LEASE = 4.0

# A worker that is silent for the lease is taken for dead. Four seconds make a good show; the default is fifteen.
app = Windlass("demo", lease=LEASE, beat=1)


@dataclass(frozen=True)
class Order:
    """``trouble``: what goes wrong with it, nothing in most cases."""

    number: int
    trouble: str = ""

    @property
    def effort(self) -> float:
        """Seconds that a step of this order takes."""
        return 0.1 + self.number * 37 % 20 / 100


@app.task(queue="orders")
async def validate(order: Order) -> None:
    await asyncio.sleep(order.effort)
    await asyncio.to_thread(ledger.record, current().id)
    await charge.options(id=f"charge:{order.number}").enqueue(order)


@app.task(queue="payments", retries=4, backoff=Exponential(base="500ms"))
def charge(order: Order) -> None:
    """A plain function: runs in a thread."""
    time.sleep(order.effort)
    if order.trouble == "declined":
        raise Reject("the card was declined")
    if order.trouble == "flaky" and current().attempt <= 2:
        raise ConnectionError("the payment provider answered 503")
    ledger.record(current().id)
    reserve.options(id=f"reserve:{order.number}").delay(order)


@app.task(queue="stock", runs_in="process")
def reserve(order: Order) -> None:
    """Runs in a child process, so that one which kills its process harms no neighbour."""
    time.sleep(order.effort / 2)
    if order.trouble == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    ledger.record(current().id)
    notify.options(id=f"notify:{order.number}").delay(order)


@app.task(queue="mail")
async def notify(order: Order) -> None:
    await asyncio.sleep(order.effort)
    await asyncio.to_thread(ledger.record, current().id)


@app.on_start
def end_with_the_demo(state: SimpleNamespace) -> None:
    """Standard input is a pipe from the demo: when the demo dies, by whatever death, its workers go too."""
    if "WINDLASS_DEMO" in os.environ:
        threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
