"""The way to the server that holds the app's keys: which addresses to try, what to ask there, when to go on.

It does no I/O. ``Route.steps`` yields what is to be done next and is sent the outcome, so that the async and the
blocking connection walk the same way: ``Dial`` opens a connection (in place of the one before), ``Ask`` sends a request
on it and is answered the list of replies, ``Pause`` waits. What fails is thrown in as ``StoreUnavailable``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from windlass.errors import StoreError, StoreUnavailable
from windlass.store.redis import errors, handshake
from windlass.store.redis.commands import Reply, Request, pack
from windlass.store.redis.location import Address, Location

PAUSE = 0.1
"""Seconds between two rounds of asking everybody: a failover takes some."""


LEAST = 0.001
"""Seconds. No time at all would mean to a socket not to wait, which is another thing than to be late."""


class Dial(NamedTuple):
    address: Address
    seconds: float


class Ask(NamedTuple):
    request: Request
    seconds: float


class Pause(NamedTuple):
    seconds: float


Step = Dial | Ask | Pause
Steps = Generator[Step, Any, None]


class Route:
    """Remembers which nodes failed and which are new, so that the next search begins with the one that answered."""

    def __init__(self, location: Location, clock: Callable[[], float] = time.monotonic) -> None:
        self._location, self._clock = location, clock
        self._nodes = list(location.nodes)
        self._until = 0.0

    def steps(self, channels: Sequence[bytes] = ()) -> Steps:
        """At their end the connection dialled last is ready: greeted, in its database, listening to ``channels``."""
        location = self._location
        if location.kind == "single":
            self._until = self._clock() + location.connect_timeout
            return self._enter(location.nodes[0], channels)
        self._until = self._clock() + location.timeout
        return self._search(channels)

    def moved(self, error: Exception) -> None:
        """The server may have named the node that has our keys now: begin there."""
        code, *_, target = str(error).split(" ")
        host, _, port = target.rpartition(":")
        if code == "MOVED" and self._location.kind == "cluster" and host and port.isdigit():
            self._nodes = list(dict.fromkeys([Address(host.strip("[]"), int(port)), *self._nodes]))

    def _left(self) -> float:
        return max(LEAST, self._until - self._clock())

    def _share(self) -> float:
        """A node that does not answer may use up half of the time that is left, for the sake of the others."""
        if self._location.kind == "single":
            return self._left()
        return min(self._location.connect_timeout, max(LEAST, self._left() / 2))

    def _enter(self, address: Address, channels: Sequence[bytes]) -> Steps:
        yield Dial(address, self._share())
        yield from self._greet(address, channels)

    def _greet(self, address: Address, channels: Sequence[bytes]) -> Steps:
        replies = yield Ask(handshake.greeting(self._location, channels), self._share())
        where = self._location.shown if self._location.kind == "single" else str(address)
        handshake.check(replies, self._location, where)

    def _search(self, channels: Sequence[bytes]) -> Steps:
        """Ask the known nodes in turn, round after round, until one leads to the master or the time is over."""
        ways = {"sentinel": self._by_sentinel, "cluster": self._by_cluster}
        while True:
            for node in list(self._nodes):
                try:
                    yield from ways[self._location.kind](node, channels)
                except StoreUnavailable as error:
                    problem = error
                    self._defer(node)
                else:
                    return
                if self._left() < PAUSE:
                    raise StoreUnavailable(f"found no master by {self._location.shown}; the last try: {problem}")
            yield Pause(PAUSE)

    def _by_sentinel(self, node: Address, channels: Sequence[bytes]) -> Steps:
        location = self._location
        yield Dial(node, self._share())
        request = pack((b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", location.master))
        if location.sentinel_password:
            request = pack((b"AUTH", location.sentinel_user or "default", location.sentinel_password)) + request
        replies = yield Ask(Request(request, 1 + bool(location.sentinel_password)), self._share())
        yield from self._enter(self._master(replies, node), channels)

    def _master(self, replies: Sequence[Reply], sentinel: Address) -> Address:
        for reply in replies:
            if isinstance(reply, Exception):
                if errors.code_of(reply) == "NOAUTH":
                    raise StoreError(f"the sentinel {sentinel} asks for a password of its own: add sentinel_password=…")
                if "unknown command" in str(reply).lower():
                    raise StoreError(f"{sentinel} is not a sentinel: name those (port 26379), or write a redis:// URL")
                raise errors.explain(reply, self._location, f"the sentinel {sentinel}")
        if replies[-1] is None:
            raise StoreUnavailable(f"the sentinel {sentinel} knows no master named {self._location.master!r}")
        host, port = replies[-1]
        return Address(host.decode(), int(port))

    def _by_cluster(self, node: Address, channels: Sequence[bytes]) -> Steps:
        yield Dial(node, self._share())
        request = Request(handshake.hello(self._location) + pack((b"CLUSTER", b"SLOTS")), 2)
        first, slots = yield Ask(request, self._share())
        handshake.check_version(first, self._location, str(node))
        if isinstance(slots, Exception):
            if "cluster support disabled" in str(slots):
                raise StoreError(f"{node} is not a node of a cluster: write a redis:// URL")
            raise errors.explain(slots, self._location, str(node))
        master = self._owner(slots, node)
        if master != node:
            yield Dial(master, self._share())
        yield from self._greet(master, channels)

    def _owner(self, slots: Reply, asked: Address) -> Address:
        """The master of our slot. Everyone named beside it is worth asking, should it be gone one day."""
        for low, high, *nodes in slots:
            if low <= self._location.slot <= high:
                # An empty name means: the one you have reached me by.
                found = [Address((host or b"").decode().strip("?") or asked.host, port) for host, port, *_ in nodes]
                self._nodes = list(dict.fromkeys([asked, *found, *self._location.nodes]))
                return found[0]
        raise StoreUnavailable(f"{asked} knows nobody who serves slot {self._location.slot}, which our keys are in")

    def _defer(self, node: Address) -> None:
        """Who failed comes last, in this round and in the next search."""
        self._nodes = [*(other for other in self._nodes if other != node), node]
