"""A TCP proxy for Redis with faults that are switched while it runs.

    with Proxy(server) as proxy:
        ... proxy.url ...
        proxy.lose_reply(b"exchange")      # the next request with these bytes is done, and nobody hears of it
        proxy.blackhole()                  # until further notice
        proxy.heal()

It runs in a thread of its own, so that a blocked test blocks nobody else. It knows where requests begin and end, and
counts replies, so that a fault can be aimed at one operation.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

import hiredis

from tests.servers.process import HOST, free_port

T = TypeVar("T")


class Mode(Enum):
    PASS = "pass"
    RESET = "reset"  # connections are accepted, and reset at the first request
    REFUSE = "refuse"  # nobody listens
    BLACKHOLE = "blackhole"  # accepted, then silence both ways
    DEAF = "deaf"  # requests reach the server, replies are swallowed


class Action(Enum):
    """What happens to one request."""

    CUT = "cut"  # the connection is reset, the server never sees the request
    LOSE_REPLY = "lose reply"  # the server does it, then the connection is reset in place of the reply
    HANG = "hang"  # the server does it, and the connection is silent from then on


@dataclass
class Order:
    """A fault for the next requests that contain ``match``, after ``skip`` of them and so many ``times``."""

    match: bytes
    action: Action
    skip: int = 0
    times: int = 1
    hits: int = 0
    _done: threading.Event = field(default_factory=threading.Event)

    def applies(self, request: bytes) -> bool:
        if self.hits >= self.times or self.match not in request:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.hits += 1
        if self.hits == self.times:
            self._done.set()
        return True

    @property
    def done(self) -> bool:
        """Whether it has happened as often as ordered."""
        return self._done.is_set()

    def wait(self, timeout: float = 10.0) -> None:
        assert self._done.wait(timeout), f"no request with {self.match!r} within {timeout} s: {self}"


class HasPort(Protocol):
    port: int


class Proxy:
    """Stands between clients and one server. Its methods may be called from any thread."""

    def __init__(self, server: HasPort | int, *, host: str = HOST) -> None:
        self.host = host
        self.upstream = server
        self.port = free_port()
        self.mode = Mode.PASS
        self.seconds = 0.0
        self.orders: list[Order] = []
        self.accepted: list[float] = []
        """When each connection came, by time.monotonic()."""
        self.requests = 0
        self._pairs: set[_Pair] = set()
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._call(lambda: len(self._pairs))

    @property
    def upstream_port(self) -> int:
        return self.upstream if isinstance(self.upstream, int) else self.upstream.port

    # -- faults --

    def heal(self, *, half_open: bool = False) -> None:
        """No more faults. Connections that lost bytes are reset, or with ``half_open`` stay silent for ever."""
        self._call(lambda: self._heal(half_open))
        self._listen()

    def cut(self) -> int:
        """Reset every open connection, once; says how many."""
        return self._call(self._reset_all)

    def reset(self) -> None:
        self._call(lambda: self._switch(Mode.RESET))

    def refuse(self) -> None:
        self._call(self._refuse)

    def blackhole(self) -> None:
        self._call(lambda: self._switch(Mode.BLACKHOLE))

    def drop_replies(self) -> None:
        self._call(lambda: self._switch(Mode.DEAF))

    def delay(self, seconds: float) -> None:
        """Everything takes so much longer, in each direction."""
        self.seconds = seconds

    def cut_before(self, match: bytes, **when: int) -> Order:
        return self._order(Order(match, Action.CUT, **when))

    def lose_reply(self, match: bytes, **when: int) -> Order:
        return self._order(Order(match, Action.LOSE_REPLY, **when))

    def hang(self, match: bytes, **when: int) -> Order:
        return self._order(Order(match, Action.HANG, **when))

    # -- its life --

    def start(self) -> Proxy:
        self._thread.start()
        self._listen()
        return self

    def close(self) -> None:
        self._call(self._refuse)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __enter__(self) -> Proxy:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- on its own thread --

    def _call(self, step: Callable[[], T]) -> T:
        """The answer of ``step``, run by the proxy's loop: what follows sees its effect."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(step())
            except BaseException as error:
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result(10)

    def _listen(self) -> None:
        async def listen() -> None:
            if not self._listener:
                self._listener = await self._loop.create_server(lambda: _Side(_Pair(self)), self.host, self.port)

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(10)

    def _order(self, order: Order) -> Order:
        self._call(lambda: self.orders.append(order))
        return order

    def _switch(self, mode: Mode) -> None:
        self.mode = mode

    def _refuse(self) -> None:
        self._switch(Mode.REFUSE)
        if self._listener:
            self._listener.close()
            self._listener = None
        self._reset_all()

    def _heal(self, half_open: bool) -> None:
        self.mode, self.seconds = Mode.PASS, 0.0
        self.orders.clear()
        for pair in [pair for pair in self._pairs if pair.lossy]:
            if half_open:
                pair.silent = True
            else:
                pair.reset()

    def _reset_all(self) -> int:
        pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    def action(self, request: bytes) -> Action | None:
        self.requests += 1
        return next((order.action for order in self.orders if order.applies(request)), None)

    def came(self, pair: _Pair) -> None:
        self.accepted.append(time.monotonic())
        self._pairs.add(pair)

    def went(self, pair: _Pair) -> None:
        self._pairs.discard(pair)


class _Pair:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client: _Side | None = None
        self.server: _Side | None = None
        self.silent = self.lossy = self.over = False
        self._pending = b""
        self._replies = hiredis.Reader()
        self._asked = self._answered = self._lost = 0
        self._connecting: asyncio.Task[None] | None = None

    def made(self, side: _Side) -> None:
        if self.client:
            return
        self.client = side
        self.proxy.came(self)
        if self.proxy.mode is Mode.BLACKHOLE:
            self.silent = self.lossy = True
            return
        side.transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self.server = await loop.create_connection(lambda: _Side(self), HOST, self.proxy.upstream_port)
        except OSError:
            self.reset()
            return
        if self.over:
            self.server.reset()
        elif self.client:
            self.client.transport.resume_reading()

    def received(self, side: _Side, data: bytes) -> None:
        if side is not self.client:
            self._reply(data)
            return
        self._pending += data
        while not self.over and (length := request_length(self._pending)):
            request, self._pending = self._pending[:length], self._pending[length:]
            self._request(request)

    def _request(self, request: bytes) -> None:
        action = self.proxy.action(request)
        if self.silent or self.proxy.mode is Mode.BLACKHOLE:
            self.lossy = True
        elif self.proxy.mode is Mode.RESET or action is Action.CUT:
            self.reset()
        elif self.server:
            self._asked += replies_to(request)
            self.server.send(request, self.proxy.seconds)
            if action is Action.LOSE_REPLY:
                self._lost = self._asked
            elif action is Action.HANG:
                self.silent = self.lossy = True

    def _reply(self, data: bytes) -> None:
        self._answered += sum(1 for _ in self._parse(data))
        if self.silent or self.proxy.mode in (Mode.BLACKHOLE, Mode.DEAF):
            self.lossy = True
        elif self._lost and self._answered >= self._lost:
            self.reset()
        elif self.client:
            self.client.send(data, self.proxy.seconds)

    def _parse(self, data: bytes) -> Iterator[Any]:
        """Replies; what the server sends unasked is none, but a subscription is confirmed in that form."""
        self._replies.feed(data)
        while (reply := self._replies.gets(False)) is not False:
            if not isinstance(reply, hiredis.PushNotification) or reply[0].endswith(b"subscribe"):
                yield reply

    def lost(self, side: _Side, error: Exception | None) -> None:
        """One side ended: so does the other, in the same way."""
        other = self.server if side is self.client else self.client
        if self.over:
            return
        if error:
            self.reset()
            return
        self._end()
        if other:
            other.close()

    def reset(self) -> None:
        self._end()
        for side in (self.client, self.server):
            if side:
                side.reset()

    def _end(self) -> None:
        self.over = True
        self.proxy.went(self)


class _Side(asyncio.Protocol):
    """One of the two connections of a pair."""

    transport: asyncio.Transport

    def __init__(self, pair: _Pair) -> None:
        self.pair = pair
        self._last = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.pair.made(self)

    def data_received(self, data: bytes) -> None:
        self.pair.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pair.lost(self, exc)

    def send(self, data: bytes, seconds: float) -> None:
        """Write after a while, never before what was to be written earlier."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = max(now + seconds, self._last + 1e-6)
        if due <= now:
            self.transport.write(data)
            return
        self._last = due
        loop.call_at(due, self._write, data)

    def _write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        """Close so that the other end sees a reset instead of an orderly end."""
        raw = self.transport.get_extra_info("socket")
        if raw and not self.transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def replies_to(request: bytes) -> int:
    """How many replies a request brings: one, or one for each channel."""
    words = request.split(b"\r\n", 3)
    if request[:1] != b"*" or not words[2].upper().endswith(b"SUBSCRIBE"):
        return 1
    return max(1, int(words[0][1:]) - 1)


def request_length(data: bytes) -> int:
    """How many bytes the first request takes, 0 while it is incomplete."""
    end = data.find(b"\r\n")
    if end < 0 or data[:1] != b"*":
        return end + 2 if end >= 0 else 0
    position = end + 2
    for _ in range(int(data[1:end])):
        end = data.find(b"\r\n", position)
        if end < 0:
            return 0
        position = end + 2 + int(data[position + 1 : end]) + 2
        if position > len(data):
            return 0
    return position
