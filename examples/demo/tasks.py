"""The shop. An order is one workflow: it is validated, then charged and reserved at the same time, then shipped.

Jobs are called ``step:order`` and workflows ``order:number``. The same order accepted twice is the same workflow, and a
step that runs twice, because its worker died under it, still releases the next one once: that is the store's write.
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
from windlass import Exponential, Failure, Reject, Windlass, Work, chain, current, group

STEPS = ("validate", "charge", "reserve", "ship")
AFTER = {"validate": ("charge", "reserve", "ship"), "charge": ("ship",), "reserve": ("ship",), "ship": ()}
"""The steps that need each step, and are skipped if it fails."""

CALLBACK = "apologise"
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


def fulfil(order: Order, delay: float = 0) -> Work[str]:
    """The whole order: ``await`` it to have it accepted, all of it or nothing."""
    n = order.number
    return (
        chain(
            validate.s(order).set(id=f"validate:{n}", delay=delay),
            group(charge.s().set(id=f"charge:{n}"), reserve.s().set(id=f"reserve:{n}")),
            ship.s(order).set(id=f"ship:{n}"),
        )
        .on_error(apologise.s(order).set(id=f"{CALLBACK}:{n}"))
        .named(f"order {n}")
        .with_id(f"order:{n}")
    )


@app.task(queue="orders")
async def validate(order: Order) -> Order:
    await asyncio.sleep(order.effort)
    await asyncio.to_thread(ledger.record, current().id)
    return order


@app.task(queue="payments", retries=4, backoff=Exponential(base="500ms"))
def charge(order: Order) -> str:
    """A plain function: runs in a thread."""
    time.sleep(order.effort)
    if order.trouble == "declined":
        raise Reject("the card was declined")
    if order.trouble == "flaky" and current().attempt <= 2:
        raise ConnectionError("the payment provider answered 503")
    ledger.record(current().id)
    return f"receipt {order.number}"


@app.task(queue="stock", runs_in="process")
def reserve(order: Order) -> str:
    """Runs in a child process, so that one which kills its process harms no neighbour."""
    time.sleep(order.effort / 2)
    if order.trouble == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    ledger.record(current().id)
    return f"shelf {order.number % 9 + 1}"


@app.task(queue="mail")
async def ship(papers: list[str], order: Order) -> str:
    await asyncio.sleep(order.effort)
    await asyncio.to_thread(ledger.record, current().id)
    return f"parcel with {' and '.join(papers)}"


@app.task(queue="mail")
async def apologise(failure: Failure, order: Order) -> str:
    await asyncio.to_thread(ledger.record, current().id)
    return f"sorry: {failure.task.rpartition('.')[2]} failed"


@app.on_start
def end_with_the_demo(state: SimpleNamespace) -> None:
    """Standard input is a pipe from the demo: when the demo dies, by whatever death, its workers go too."""
    if "WINDLASS_DEMO" in os.environ:
        threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
