"""Answers for machines: whether work is flowing, whether the store can be reached, numbers for Prometheus and
autoscalers.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.console.console import Console
from windlass.core.access import EVERYTHING
from windlass.core.packages import pip_install
from windlass.errors import Forbidden
from windlass.web.live import ticks
from windlass.web.operation import convert, need, query_of
from windlass.web.site import site_of
from windlass.web.streams import EventStream


class Brief(msgspec.Struct):
    """The answer for a client without any right."""

    ok: bool


class ScaleQuery(msgspec.Struct, kw_only=True):
    queue: Annotated[str, Meta(min_length=1, max_length=128)]


async def health(request: Request) -> Response:
    """200 while work is flowing wherever there is any. 503 for a backlog without progress, a queue with jobs and no
    worker, or a store that cannot be reached.
    """
    convert(query_of(request), None, "the query", strict=False)
    access = request.state.access
    if access.may("read"):
        found = await request.state.console.health()
        return as_json(found, 200 if found.ok else 503)
    found = await Console(site_of(request).app, EVERYTHING).health()
    return as_json(Brief(found.ok), 200 if found.ok else 503)


async def ready(request: Request) -> Response:
    """200 if this server can reach the store, 503 if not."""
    convert(query_of(request), None, "the query", strict=False)
    client = await site_of(request).app.client()
    await client.store.items("web", ["ready"])  # the cheapest read of the contract; StoreUnavailable becomes a 503
    return as_json(Brief(True), 200)


async def metrics(request: Request) -> Response:
    """The store's numbers for Prometheus. They cover all queues, so a user with a scope does not get them."""
    need(request, "read")
    if request.state.access.queues:
        raise Forbidden("the metrics are of all queues, and this user sees only some")
    try:
        from windlass.observe.metrics import store_metrics
    except ImportError as error:
        raise HTTPException(501, f"metrics need more packages: {pip_install('telemetry')}") from error
    return Response(await store_metrics(site_of(request).app), media_type="text/plain; version=0.0.4; charset=utf-8")


async def autoscale(request: Request) -> Response:
    """One queue's numbers for an autoscaler: ``backlog`` jobs to do, of which the oldest has waited ``age`` seconds."""
    need(request, "read")
    asked = convert(query_of(request), ScaleQuery, "the query", strict=False)
    return as_json(await request.state.console.scale(asked.queue), 200)


async def live(request: Request) -> Response:
    """Ticks for open pages."""
    need(request, "read")
    site = site_of(request)
    last = request.headers.get("last-event-id", "")
    return EventStream(ticks(site.feeds.pulses.here(), last, not site.streams, site.refresh), site.feeds.gauge)


def as_json(value: object, status: int) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


ROUTES = [Route(f"/{each.__name__}", each) for each in (health, ready, metrics, autoscale, live)]
