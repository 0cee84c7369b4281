"""The dashboard as an ASGI application: at the root of a server, mounted below a path of another, or behind a proxy.

Nothing is opened here. The app's connection opens with the first request on each event loop, as mounted applications
are not told when a server starts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from windlass.app import Windlass
from windlass.errors import WindlassError
from windlass.web import pages, probes
from windlass.web.api import TABLE
from windlass.web.auth import Authorize, Entrance
from windlass.web.door import Admission, Door
from windlass.web.openapi import openapi
from windlass.web.problems import answer_error
from windlass.web.site import STATIC, Site, SiteSettings


def windlass_dashboard(
    app: Windlass, *, auth: Authorize | Sequence[Authorize] | None = None, title: str = "", environment: str = "",
    trace_url: str = "", redact: Sequence[str] = (), refresh: float = 2.0, open_probes: bool = False,
    streams: bool = True,
) -> Starlette:  # fmt: skip
    """The dashboard and its JSON API: ``app.mount("/jobs", windlass_dashboard(app, auth=Basic({...})))``.

    Without ``auth`` it changes nothing and answers this machine only, whoever has the link that its log says: a key is
    in it, ``$WINDLASS_WEB_KEY`` or a new one at each start. ``redact``: names whose values nobody sees, such
    as ``["*password*"]``. The rest is ``windlass.web.site.Settings``.
    """
    settings = SiteSettings(
        title=title, environment=environment, trace_url=trace_url, refresh=refresh, streams=streams,
        open_probes=open_probes,
    )  # fmt: skip
    site = Site(app, settings, pages.FILTERS)
    entrance = Entrance(app, auth, redact)
    handlers: dict[Any, Any] = {HTTPException: answer_error, WindlassError: answer_error}
    dashboard = Starlette(
        routes=all_routes(),
        middleware=[Middleware(Door, Admission(site, entrance))],
        exception_handlers=handlers,
        lifespan=closing,
    )
    dashboard.router.redirect_slashes = False  # it would build an absolute address from a header
    dashboard.state.site = site
    dashboard.state.key = entrance.local.key if entrance.local else ""
    return dashboard


def all_routes() -> list[BaseRoute]:
    data = [Route("/api/openapi.json", openapi), *probes.ROUTES, *(operation.route() for operation in TABLE)]
    files = Mount("/static", Files(directory=STATIC))
    return [files, *data, *pages.ROUTES]


class Files(StaticFiles):
    """Our own style sheets and scripts. Browsers ask each time whether they changed; a version in their names would
    need a build step.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


@asynccontextmanager
async def closing(dashboard: Starlette) -> AsyncIterator[None]:
    """Close the store's connection, on servers that tell applications when they stop."""
    yield
    await dashboard.state.site.app.close()
