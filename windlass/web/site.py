"""The site: the settings of one dashboard, its templates, and how a page is rendered.

Pages get every value through Jinja's autoescape; nothing here or in the templates marks users' text as safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import jinja2
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from windlass import __version__
from windlass.app import Windlass
from windlass.core.access import RIGHTS
from windlass.errors import ConfigError
from windlass.web.csrf import put_cookie
from windlass.web.dialogs import DIALOGS
from windlass.web.shared_feeds import Feeds

HERE = Path(__file__).parent
TEMPLATES, STATIC = HERE / "templates", HERE / "static"
DATA = ("/api/", "/live", "/health", "/ready", "/metrics", "/autoscale")
"""Paths that answer programs; all others are pages."""


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``title`` and ``environment`` are shown at the top of every page; an environment such as ``production`` warns.

    ``trace_url``: a link to a trace, with ``{trace_id}`` in it. ``refresh``: seconds between looks at the store while
    somebody has a page open. ``streams`` False: a server that cannot stream (WSGI); browsers ask again instead.
    ``open_probes``: ``/health`` and ``/ready`` answer anybody, without any details.
    """

    title: str = ""
    environment: str = ""
    trace_url: str = ""
    refresh: float = 2.0
    streams: bool = True
    open_probes: bool = False

    def __post_init__(self) -> None:
        if self.trace_url and not self.trace_url.startswith(("https://", "http://", "/")):
            raise ConfigError(f"trace_url {self.trace_url!r} must be a web address, with {{trace_id}} in it")
        if not 0.2 <= self.refresh <= 60:
            raise ConfigError(f"refresh is {self.refresh!r} seconds; give 0.2 to 60")


class Site:
    """One dashboard. ``request.app.state.site`` finds it."""

    def __init__(self, app: Windlass, settings: SiteSettings, filters: Mapping[str, Callable[..., Any]]) -> None:
        self.app, self.settings = app, settings
        self.title = settings.title or app.name
        self.environment, self.trace_url, self.refresh = settings.environment, settings.trace_url, settings.refresh
        self.streams = settings.streams
        self.feeds = Feeds(app, settings.refresh)
        self.version = __version__
        self.templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self.templates.filters.update(filters)
        self.templates.globals.update(RIGHTS=RIGHTS, DIALOGS=DIALOGS)


def site_of(request: Request) -> Site:
    return cast(Site, request.app.state.site)


def route_path(request: Request) -> str:
    """The path below where the dashboard is mounted."""
    path, root = str(request.scope["path"]), str(request.scope.get("root_path", ""))
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path


def is_data(request: Request) -> bool:
    return route_path(request).startswith(DATA)


async def render(request: Request, name: str, **context: Any) -> Response:
    """Render a page. Templates also get: ``site``; ``base``, the path of the dashboard without a slash at its end,
    which begins every link (``{{ base }}/jobs``, ``{{ base }}/static/base.css``); ``path``, the page's own path below
    it; ``access`` and ``token`` of the visitor.
    """
    site = site_of(request)
    body = site.templates.get_template(name).render(
        request=request, site=site, base=request.scope.get("root_path", "").rstrip("/"), path=route_path(request),
        access=request.state.access, token=request.state.token, **context,
    )  # fmt: skip
    response = HTMLResponse(body)
    put_cookie(request, response, request.state.seal)
    return response
