"""Protection against requests that another site causes in a visitor's browser (CSRF), and against bodies that are too
large.

A page carries a token made from a cookie that only this site sets. A request that changes something shows the token in
a header, has a JSON body, and must not come from another site. Requests with a Bearer token need none of this: no
browser sends one by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.errors import Forbidden
from windlass.web.credentials import bearer_of

SAFE = frozenset({"GET", "HEAD"})
COOKIE = "windlass-token"
HEADER = "x-windlass-token"
BODY_MAX = 1_048_576
"""Bytes of a request's body."""

_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")


class Seal(NamedTuple):
    """A visitor's cookie and the token of the pages made for it. ``fresh``: the browser does not have the
    cookie yet.
    """

    cookie: str
    token: str
    fresh: bool


def seal_of(request: Request, user: str) -> Seal:
    """The token also depends on the user: a page left open does not act for the user who signed in after."""
    cookie = request.cookies.get(COOKIE, "")
    fresh = not _COOKIE.fullmatch(cookie)
    if fresh:
        cookie = secrets.token_urlsafe(32)
    token = hmac.new(cookie.encode(), f"windlass page {user}".encode(), hashlib.sha256).hexdigest()
    return Seal(cookie, token, fresh)


def put_cookie(request: Request, response: Response, seal: Seal) -> None:
    if seal.fresh:
        path = request.scope.get("root_path") or "/"
        secure = request.url.scheme == "https"
        response.set_cookie(COOKIE, seal.cookie, path=path, secure=secure, httponly=True, samesite="strict")


def check_unsafe(request: Request, seal: Seal) -> None:
    """Let a request that may change something pass, or raise ``Forbidden``."""
    check_origin(request)
    if bearer_of(request):
        return
    shown = request.headers.get(HEADER, "")
    if seal.fresh or not hmac.compare_digest(shown.encode(), seal.token.encode()):
        raise Forbidden(
            f"the request does not carry the token of this visitor's page in {HEADER}; reload the page, or use a "
            "Bearer token from a script"
        )


def check_origin(request: Request) -> None:
    """Refuse a request from another site. Browsers name it, newer ones in Sec-Fetch-Site, all of them in Origin."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        good = site in ("same-origin", "none")
    else:
        good = origin is None or same_host(origin, request.headers.get("host", ""))
    if not good:
        raise Forbidden("the request comes from another site; nothing was done")


def same_host(origin: str, host: str) -> bool:
    """Whether the hosts are the same. The scheme may differ: a proxy in front often ends TLS."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


async def read_body(request: Request) -> bytes:
    """The whole body, which must be JSON and not too large. An empty body may have any content type, as it cannot be
    misread.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    size = 0
    parts = []
    async for part in request.stream():
        size += len(part)
        if part and kind != "application/json":
            raise HTTPException(415, "send JSON: Content-Type: application/json")
        if size > BODY_MAX:
            raise HTTPException(413, f"the body is larger than {BODY_MAX} bytes")
        parts.append(part)
    return b"".join(parts)
