"""What happens to an order. ``windlass worker examples.traced_shop.jobs:app`` runs it."""

from __future__ import annotations

import asyncio
import logging
import time
from types import SimpleNamespace

from opentelemetry import trace as otel

from examples.traced_shop import spans
from windlass import Windlass, chain, current
from windlass.observe.tracing import trace

tracer = otel.get_tracer("shop")
log = logging.getLogger("shop")

app = Windlass("traced_shop")
trace(app)


@app.on_start
def record_spans(_: SimpleNamespace) -> None:
    """In workers only: the server says for itself what it is called."""
    spans.set_up("worker")


@app.task(queue="orders", search=["item"])
async def place_order(item: str) -> str:
    """Charge, then let packing and shipping follow by themselves."""
    with tracer.start_as_current_span("check stock"):
        await asyncio.sleep(0.02)
    payment = await charge.enqueue(item)
    await chain(pack.s(item), ship.s()).enqueue()
    log.info("ordered: %s", item)
    return payment.id


@app.task(queue="payments", retries=3, backoff="100ms")
async def charge(item: str) -> str:
    """The bank is not always there at once."""
    await asyncio.sleep(0.03)
    if current().attempt == 1:
        raise ConnectionError("the bank does not answer")
    return f"paid for {item}"


@app.task(queue="warehouse")
def pack(item: str) -> str:
    """Plain code in a thread; its spans nest as well."""
    with tracer.start_as_current_span("wrap", attributes={"item": item}):
        time.sleep(0.06)
    return f"parcel with {item}"


@app.task(queue="warehouse")
async def ship(parcel: str) -> str:
    await asyncio.sleep(0.04)
    return f"{parcel} is on its way"
