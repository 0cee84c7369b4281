"""What a request shows of who asks, and the ways of not being let in."""

from __future__ import annotations

import base64
import binascii

from starlette.requests import Request
from starlette.responses import Response


class Denied(Exception):
    """Not let in. ``challenge``: what WWW-Authenticate says; empty where signing in does not help."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge


class Instead(Exception):
    """Not let in, and the user's function has an answer of its own."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered by authorize()")
        self.response = response


class TooMany(Exception):
    """Not looked at: too much was wrong before. ``seconds``: when to try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong names, passwords or tokens; try again in {seconds} s")
        self.seconds = seconds


def bearer_of(request: Request) -> str:
    """The Bearer token, empty without one. Browsers never send one by themselves: who does is a script, and no other
    site can make it do so.
    """
    return _credentials(request, "bearer")


def basic_of(request: Request) -> tuple[str, str, str]:
    """Name, colon and password; all empty where there are none."""
    try:
        return base64.b64decode(_credentials(request, "basic"), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", "", ""


def _credentials(request: Request, scheme: str) -> str:
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    return rest.strip() if kind.lower() == scheme else ""
