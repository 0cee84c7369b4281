"""The middleware every request passes: it admits the user, guards changes, puts headers on every answer, and makes
answers of errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.console.console import Console
from windlass.core.access import Access
from windlass.web.auth import Entrance
from windlass.web.credentials import bearer_of
from windlass.web.csrf import SAFE, check_unsafe, seal_of
from windlass.web.headers import with_headers
from windlass.web.problems import answer_error, is_gone
from windlass.web.site import Site, route_path

PROBES = ("/health", "/ready")
PROBE = Access(user="probe", rights=frozenset())

Admit = Callable[[Request], Awaitable[None]]


class Door:
    """Middleware around all routes. ``admit`` raises if the request must not pass."""

    def __init__(self, routes: ASGIApp, admit: Admit | None = None) -> None:
        self._routes, self._admit = routes, admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
        else:
            await self._routes(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        answer = with_headers(note_start)
        request = Request(scope, receive)
        try:
            if self._admit is not None:
                await self._admit(request)
            await self._routes(scope, receive, answer)
        except Exception as error:
            if started or is_gone(error):
                raise  # half of the answer has been sent, so the connection can only be cut
            await (await answer_error(request, error))(scope, receive, answer)


class Admission:
    """Admits users to the dashboard. Behind it ``request.state`` has ``access``, ``console``, ``token`` and
    ``seal``.
    """

    def __init__(self, site: Site, entrance: Entrance) -> None:
        self._site, self._entrance = site, entrance

    async def __call__(self, request: Request) -> None:
        if self._site.settings.open_probes and route_path(request) in PROBES:
            access = PROBE
        else:
            access = await self._entrance.access(request)
        seal = seal_of(request, access.user)
        state = request.state
        state.access, state.seal, state.token = access, seal, seal.token
        if request.method not in SAFE:
            check_unsafe(request, seal)
        state.console = Console(self._site.app, access, "api" if bearer_of(request) else "web")
