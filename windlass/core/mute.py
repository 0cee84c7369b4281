"""Mutes: an operator knows of a warning and wants no more of it for a while. Reads no clock.

A mute is about one warning, named by its code and its place. It lies on a shelf until its time is over, is shown beside
the warning, and is read by the worker that sends notices.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

SHELF = "mutes"
MOST = 500
"""So many are read."""

SHORTEST, LONGEST = 60_000, 30 * 86_400_000
"""For how long one may be, in ms."""

Muted = frozenset[tuple[str, str]]
"""Codes of warnings, with what each is about."""

NONE: Muted = frozenset()


class Mute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``code`` and ``where`` are those of the warning; ``until``: the instant the mute ends."""

    code: str
    where: str
    until: int
    by: str = ""
    reason: str = ""
    at: int = 0


_decoder = msgspec.json.Decoder(Mute)


def key_of(code: str, where: str) -> str:
    return f"{code}/{where}"


def decode(bodies: Iterable[bytes | None], now: int) -> dict[tuple[str, str], Mute]:
    """The mutes that hold now. One that cannot be read mutes nothing."""
    found: dict[tuple[str, str], Mute] = {}
    for body in bodies:
        try:
            mute = _decoder.decode(body or b"")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if mute.until > now:
            found[mute.code, mute.where] = mute
    return found
