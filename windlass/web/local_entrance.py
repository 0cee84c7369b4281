"""The way into a dashboard without ``auth``: a user of this machine who was given its link may come in, to look only.

That a connection comes from this machine says little: a proxy here admits the whole world, and need not say that it is
one. So the link carries a random key, which a browser then keeps as a cookie and a script sends as a Bearer token; no
proxy adds that by itself. A request that shows signs of a proxy, or of a web page whose name was pointed at this
machine (DNS rebinding), is refused even with the key.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from hashlib import blake2b
from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import RedirectResponse

from windlass.core.access import READ_ONLY, Access
from windlass.core.network_addresses import is_loopback
from windlass.errors import ConfigError
from windlass.web.credentials import Denied, Instead, bearer_of

log = logging.getLogger("windlass.web")

VARIABLE = "WINDLASS_WEB_KEY"
"""The key of all dashboards this process makes, where several processes must agree; else each makes its own."""
SHORTEST_KEY = 16

SENT_BY_BROWSERS = frozenset({
    "authorization", "cache-control", "connection", "cookie", "date", "dnt", "expect", "host", "keep-alive",
    "last-event-id", "origin", "pragma", "priority", "purpose", "range", "referer", "save-data", "te",
    "transfer-encoding", "upgrade", "upgrade-insecure-requests", "user-agent", "x-requested-with", "x-windlass-token",
})  # fmt: skip
FAMILIES = ("accept", "content-", "if-", "sec-")
"""All headers that browsers and plain scripts send. Every proxy has names of its own for what it adds, so these are
listed instead: whatever else there is came in between.
"""

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")


class Local:
    """Lets in a client that shows the key. Called once per request; raises ``Denied`` or ``Instead`` unless the request
    may pass.
    """

    def __init__(self) -> None:
        self.key = os.environ.get(VARIABLE, "") or secrets.token_urlsafe(24)
        if len(self.key) < SHORTEST_KEY or not re.fullmatch(r"[A-Za-z0-9._~-]+", self.key):
            raise ConfigError(
                f"${VARIABLE} must have {SHORTEST_KEY} characters or more, of letters, digits and . _ ~ -; make one by "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )
        self._told = False

    def __call__(self, request: Request) -> Access:
        check_place(request)
        cookie = cookie_name(request)
        if self._is_key(bearer_of(request)) or self._is_key(request.cookies.get(cookie, "")):
            return READ_ONLY
        if request.method == "GET" and self._is_key(request.query_params.get("key", "")):
            raise Instead(self._welcome(request, cookie))
        self._tell(request)
        raise Denied(
            "this dashboard has no auth: open the link with the key that `windlass web` printed, or that the log of "
            "its program says"
        )

    def _is_key(self, shown: str) -> bool:
        return compare_digest(shown.encode("utf-8", "surrogatepass"), self.key.encode())

    def _welcome(self, request: Request, cookie: str) -> RedirectResponse:
        """Redirect to the first page, whatever was asked for: nothing of the request goes into the address."""
        root = request.scope.get("root_path", "").rstrip("/")
        response = RedirectResponse(f"{root}/", 303)
        # Lax: the link may be clicked in a terminal that is itself a web page. Its visitor cannot change anything.
        response.set_cookie(
            cookie, self.key, path=root or "/", secure=request.url.scheme == "https", httponly=True, samesite="lax"
        )
        return response

    def _tell(self, request: Request) -> None:
        """Log the link once, for a dashboard mounted in a program that does not print it."""
        if not self._told:
            self._told = True
            root = request.scope.get("root_path", "").rstrip("/")
            link = f"{request.scope['scheme']}://{request.headers['host']}{root}/?key={self.key}"
            log.warning("the dashboard has no auth; to look at it from this machine, open %s", link)


def cookie_name(request: Request) -> str:
    """The cookie's name. All ports of a machine share its cookies, so each dashboard needs a name of its own."""
    place = f"{_port(request)} {request.scope.get('root_path', '')}"
    return f"windlass-key-{blake2b(place.encode(), digest_size=4).hexdigest()}"


def _port(request: Request) -> int | None:
    server = request.scope.get("server")
    if not server:
        return None
    return server[1] or (443 if request.url.scheme == "https" else 80)


def check_place(request: Request) -> None:
    """Refuse a request that did not come directly from this machine, as far as that can be told."""
    for name in request.headers:
        if name not in SENT_BY_BROWSERS and not name.startswith(FAMILIES):
            raise Denied(
                f"this dashboard has no auth, and the header {name[:50]!r} shows that a proxy is in between; give "
                "auth= (windlass web: --user) to let others in"
            )
    if request.client is None or not is_loopback(request.client.host):
        raise Denied("this dashboard has no auth and answers this machine only; give auth= to let others in")
    hosts = request.headers.getlist("host")
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None or not is_loopback(found[1].strip("[]")):
        raise Denied("this dashboard has no auth and answers to localhost only, not to other names")
    port, bound = int(found[2] or (443 if request.url.scheme == "https" else 80)), _port(request)
    if bound is not None and port != bound:
        raise Denied(f"this dashboard has no auth and answers at its own port {bound} only, not at {port}")
