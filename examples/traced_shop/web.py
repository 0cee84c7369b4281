"""The shop's server: takes orders, shows the dashboard at /jobs and traces at /traces.

``uvicorn examples.traced_shop.web:api`` runs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from examples.traced_shop import spans, waterfall
from examples.traced_shop.jobs import app, place_order
from windlass.web import windlass_dashboard


class Order(BaseModel):
    item: str


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    spans.set_up("web")
    async with app:
        yield


# FastAPI makes a span of each request by itself; an older one needs opentelemetry-instrumentation-fastapi.
api = FastAPI(title="Traced shop", lifespan=lifespan, telemetry={"operation_spans": False})


@api.post("/orders", status_code=202)
async def order(wanted: Order) -> dict[str, str]:
    job = await place_order.enqueue(wanted.item)
    return {"job": job.id, "see": f"/jobs/jobs/{job.id}"}


@api.get("/traces/{trace_id}", response_class=HTMLResponse)
def show(trace_id: str) -> str:
    found = spans.read(trace_id)
    if not found:
        raise HTTPException(404, "no span of this trace was recorded, or not yet: reload in a second")
    return waterfall.page(trace_id, found)


@api.get("/", response_class=HTMLResponse)
def front() -> str:
    return FRONT


FRONT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Traced shop</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; margin: 4rem auto; max-width: 32rem; padding: 0 1rem }</style>
<h1>Traced shop</h1><p><button>Order a lamp</button></p><p id="told"></p>
<p><a href="/jobs/">All jobs</a> · <a href="/jobs/metrics">Metrics</a></p>
<script>
document.querySelector("button").onclick = async () => {
  const headers = { "content-type": "application/json" }
  const answer = await fetch("/orders", { method: "POST", headers, body: JSON.stringify({ item: "lamp" }) })
  const { job, see } = await answer.json()
  const link = Object.assign(document.createElement("a"), { href: see, textContent: `job ${job}` })
  document.querySelector("#told").replaceChildren("Ordered: ", link, ". Its page leads to its trace.")
}
</script></html>"""

api.mount("/jobs", windlass_dashboard(app, title="Traced shop", trace_url="/traces/{trace_id}"))
