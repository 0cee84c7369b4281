"""What is sent: calls of our function library and the few commands around them, packed. It knows no connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import hiredis

from windlass.store.redis.location import Location

Word = bytes | str | int

# Its type hint speaks of a tuple with one item; it takes any number.
pack = cast(Callable[[tuple[Word, ...]], bytes], hiredis.pack_command)
"""A command in the wire format."""

Reply = Any
"""bytes, int, list, dict, None: whatever the server says. An error is a value too: an instance of Exception."""


MISSING = object()
"""What the reader answers when it has no whole reply: False and None are replies."""


class Library(NamedTuple):
    """The Redis Functions library that the calls are for. ``code`` begins with ``#!lua name=…``, the same name."""

    name: str
    code: bytes


class Request(NamedTuple):
    """Packed bytes and how many replies they bring."""

    packed: bytes
    replies: int


class Calls:
    """Makes the requests of one location: everything that does not change from call to call is packed here once."""

    def __init__(self, location: Location, library: Library) -> None:
        self.key = (location.tag + "meta").encode()
        self.load = pack((b"FUNCTION", b"LOAD", library.code))
        self._wait = b""
        if location.wait_replicas:
            self._wait = pack((b"WAIT", location.wait_replicas, round(location.wait_timeout * 1000)))

    def request(self, function: bytes, args: tuple[Word, ...], durable: bool) -> Request:
        """One call; ``durable`` adds the wait for replicas, where the URL asks for one."""
        packed = pack((b"FCALL", function, b"1", self.key, *args))
        if durable and self._wait:
            return Request(packed + self._wait, 2)
        return Request(packed, 1)
