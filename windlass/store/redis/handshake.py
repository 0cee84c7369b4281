"""The first words on a connection, and what the server's answers to them mean. It sends nothing itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from windlass.errors import StoreError, StoreUnavailable
from windlass.store.redis import faults
from windlass.store.redis.commands import Reply, Request, Word, pack
from windlass.store.redis.place import Place

OLDEST = 7
"""Functions came with Redis 7.0; Valkey began with them."""


def hello(place: Place) -> bytes:
    """RESP3, so that replies and messages share one connection; user, password and our name in the same breath."""
    words: list[Word] = [b"HELLO", b"3"]
    if place.user or place.password:  # a user without a password is one the server made so (nopass)
        words += [b"AUTH", place.user or "default", place.password]
    # Only for CLIENT LIST. The server takes no blanks and nothing beyond ASCII in it.
    words += [b"SETNAME", "windlass:" + quote(place.prefix, safe="!#$&()*+,-./:;<=>@[]^_`|~")]
    return pack(tuple(words))


def greeting(place: Place, channels: Sequence[bytes]) -> Request:
    """All that makes a connection ours: who we are, which database, which channels."""
    parts = [hello(place)]
    if place.db:
        parts.append(pack((b"SELECT", place.db)))
    # One command per channel: each is answered once, by a confirmation or by an error, and so keeps its turn.
    parts += [pack((b"SUBSCRIBE", channel)) for channel in channels]
    return Request(b"".join(parts), len(parts))


def check(replies: Sequence[Reply], place: Place, where: str) -> None:
    """Raise unless the server can be the home of the app's keys."""
    first = replies[0]
    check_version(first, place, where)
    if first.get(b"role", b"master") != b"master":
        raise StoreUnavailable(f"{where} {faults.PASSING['READONLY']}")
    for reply in replies[1:]:
        if isinstance(reply, Exception):
            raise faults.explain(reply, place, where)


def check_version(reply: Reply, place: Place, where: str) -> None:
    """Judge the answer to HELLO."""
    if isinstance(reply, Exception):
        if "unknown command" in str(reply).lower() or faults.code_of(reply) == "NOPROTO":
            raise _too_old(where, "an old version")
        raise faults.explain(reply, place, where)
    version = reply.get(b"version", b"").decode(errors="replace") if isinstance(reply, dict) else ""
    major = re.match(r"\d+", version)
    if major is None or int(major[0]) < OLDEST:
        raise _too_old(where, version or "something that does not say its version")


def _too_old(where: str, version: str) -> StoreError:
    return StoreError(f"{where} runs {version}; Windlass needs Redis 7.0 or later, or Valkey")
