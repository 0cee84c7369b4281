"""The dashboard for WSGI servers (Flask, Django, plain): the same application on an event loop in a thread.

A WSGI server gives a thread to each request, so no stream stays open there: each answers what is new and ends, and the
browser asks again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.app import Windlass
from windlass.core.packages import pip_install
from windlass.web.app import windlass_dashboard

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def windlass_wsgi(app: Windlass, **settings: Any) -> WsgiApp:
    """``windlass_dashboard`` with the same settings, as a WSGI application. Needs the extras ``web`` and ``wsgi``."""
    try:
        import a2wsgi
    except ImportError as error:
        raise ImportError(f"the dashboard for WSGI needs one more package: {pip_install('web', 'wsgi')}") from error
    return Wsgi(windlass_dashboard(app, streams=False, **settings), a2wsgi.ASGIMiddleware)


class Wsgi:
    """The WSGI application. Its thread starts with the first request of each process, as servers import first and fork
    then.
    """

    def __init__(self, dashboard: ASGIApp, bridge: Callable[[Any], Any]) -> None:
        self._dashboard, self._bridge = dashboard, bridge
        self._lock = threading.Lock()
        self._made: dict[int, WsgiApp] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            mine = self._made.get(os.getpid())
            if mine is None:
                mine = self._bridge(self._with_client)
                self._made = {os.getpid(): mine}
        return mine(environ, start_response)

    async def _with_client(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add a client's port if the server does not name one; without a port its address would be lost."""
        environ = scope["wsgi_environ"]
        if environ.get("REMOTE_ADDR"):
            scope["client"] = (environ["REMOTE_ADDR"], int(environ.get("REMOTE_PORT") or 0))
        await self._dashboard(scope, receive, send)
