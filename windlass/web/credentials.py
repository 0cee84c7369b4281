"""The credentials that a request shows, and the ways to refuse it."""

from __future__ import annotations

import base64
import binascii

from starlette.requests import Request
from starlette.responses import Response


class Denied(Exception):
    """The request is refused. ``challenge``: what WWW-Authenticate says; empty where signing in would not help."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge


class Instead(Exception):
    """The request is refused with an answer that the user's function gave."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered by authorize()")
        self.response = response


class TooMany(Exception):
    """The credentials are not looked at, after too many failures. ``seconds``: when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong names, passwords or tokens; try again in {seconds} s")
        self.seconds = seconds


def bearer_of(request: Request) -> str:
    """The Bearer token; empty without one. A browser never sends one by itself, so the client is a script, and no other
    site can have caused the request.
    """
    return _credentials(request, "bearer")


def basic_of(request: Request) -> tuple[str, str, str]:
    """Name, colon and password as the request shows them; all empty where there are none."""
    try:
        return base64.b64decode(_credentials(request, "basic"), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", "", ""


def _credentials(request: Request, scheme: str) -> str:
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    return rest.strip() if kind.lower() == scheme else ""
