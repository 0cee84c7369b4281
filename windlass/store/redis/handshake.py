"""The first words on a connection, and what the server's answers to them mean. It sends nothing itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from windlass.errors import StoreError, StoreUnavailable
from windlass.store.redis import errors
from windlass.store.redis.commands import Reply, Request, Word, pack
from windlass.store.redis.location import Location

OLDEST = 7
"""Functions came with Redis 7.0; Valkey began with them."""


def hello(location: Location) -> bytes:
    """RESP3, so that replies and messages share one connection; user, password and our name in the same breath."""
    words: list[Word] = [b"HELLO", b"3"]
    if location.user or location.password:  # a user without a password is one the server made so (nopass)
        words += [b"AUTH", location.user or "default", location.password]
    # Only for CLIENT LIST. The server takes no blanks and nothing beyond ASCII in it.
    words += [b"SETNAME", "windlass:" + quote(location.prefix, safe="!#$&()*+,-./:;<=>@[]^_`|~")]
    return pack(tuple(words))


def greeting(location: Location, channels: Sequence[bytes]) -> Request:
    """All that makes a connection ours: who we are, which database, which channels."""
    parts = [hello(location)]
    if location.db:
        parts.append(pack((b"SELECT", location.db)))
    # One command per channel: each is answered once, by a confirmation or by an error, and so keeps its turn.
    parts += [pack((b"SUBSCRIBE", channel)) for channel in channels]
    return Request(b"".join(parts), len(parts))


def check(replies: Sequence[Reply], location: Location, where: str) -> None:
    """Raise unless the server can be the home of the app's keys."""
    first = replies[0]
    check_version(first, location, where)
    if first.get(b"role", b"master") != b"master":
        raise StoreUnavailable(f"{where} {errors.PASSING['READONLY']}")
    for reply in replies[1:]:
        if isinstance(reply, Exception):
            raise errors.explain(reply, location, where)


def check_version(reply: Reply, location: Location, where: str) -> None:
    """Judge the answer to HELLO."""
    if isinstance(reply, Exception):
        if "unknown command" in str(reply).lower() or errors.code_of(reply) == "NOPROTO":
            raise _too_old(where, "an old version")
        raise errors.explain(reply, location, where)
    version = reply.get(b"version", b"").decode(errors="replace") if isinstance(reply, dict) else ""
    major = re.match(r"\d+", version)
    if major is None or int(major[0]) < OLDEST:
        raise _too_old(where, version or "something that does not say its version")


def _too_old(where: str, version: str) -> StoreError:
    return StoreError(f"{where} runs {version}; Windlass needs Redis 7.0 or later, or Valkey")
