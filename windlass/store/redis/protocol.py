"""One connection on an event loop: requests go out as they come, replies resolve their futures in the same order.

It knows the protocol and time, and nothing of functions or reconnecting: once lost, a stream stays lost. What went
wrong is the *result* of a future, never its exception: whoever stopped waiting need not be told.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from windlass.store.redis import errors
from windlass.store.redis.commands import MISSING, Reply, Request, pack

log = logging.getLogger("windlass.redis")

PING = pack((b"PING",))
ORDERLY = frozenset({b"subscribe", b"unsubscribe"})
"""Messages that are the replies to commands of ours, and come in their turn."""

Push = Callable[[bytes, bytes], None]
Lost = Callable[["Stream", str, bool], None]


class Stream(asyncio.Protocol):
    """``on_push(channel, data)`` and ``on_lost(stream, reason, whether replies were due)`` are called at once."""

    def __init__(self, where: str, timeout: float, on_push: Push, on_lost: Lost) -> None:
        self.where, self._timeout = where, timeout
        self._on_push, self._on_lost = on_push, on_lost
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=MISSING)
        self._pending: deque[tuple[float, asyncio.Future[Reply]]] = deque()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._probe: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._room: asyncio.Future[None] | None = None
        self.lost = False
        self.reason = ""

    @property
    def full(self) -> bool:
        """The server reads more slowly than we write: wait for ``room``."""
        return self._room is not None

    async def room(self) -> None:
        if self._room is not None:
            await asyncio.wait((self._room,))

    def send(self, packed: bytes) -> asyncio.Future[Reply]:
        """Send a request with one reply."""
        future = self._expect()
        if self._transport is not None:
            self._transport.write(packed)
        return future

    async def ask(self, request: Request) -> list[Reply]:
        """Send a request with any number of replies, in one write, and wait for all of them."""
        futures = [self._expect() for _ in range(request.replies)]
        if self._transport is not None:
            self._transport.write(request.packed)
        return [await future for future in futures]

    def _expect(self) -> asyncio.Future[Reply]:
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self._transport is None:
            future.set_result(errors.lost(self.where, self.reason))
            return future
        now = self._loop.time()
        self._pending.append((now, future))
        if self._deadline is None:
            self._deadline = self._loop.call_at(now + self._timeout, self._check_oldest)
        return future

    def keep_alive(self, interval: float | None) -> None:
        """Ping after each ``interval`` of silence, so that a dead peer is noticed; None stops that."""
        if self._probe is not None:
            self._probe.cancel()
            self._probe = None
        if interval is not None and not self.lost:
            self._probe = self._loop.call_at(self._heard + interval, self._check_silence, interval)

    def drop(self, reason: str) -> None:
        """Give the connection up: who waits is told at once, and nothing more is sent or heard."""
        if self.lost:
            return
        self.lost, self.reason = True, reason
        self._stop_timers()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        pending, self._pending = self._pending, deque()
        for _, future in pending:
            if not future.done():
                future.set_result(errors.lost(self.where, reason))
        self.resume_writing()
        self._on_lost(self, reason, bool(pending))

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._probe):
            if timer is not None:
                timer.cancel()
        self._deadline = self._probe = None

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.lost:  # given up while it was being made
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = cast(asyncio.Transport, transport)
        self._heard = self._loop.time()
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self.lost:
            return
        self._reader.feed(data)
        gets, pending = self._reader.gets, self._pending
        try:
            while (reply := gets()) is not MISSING:
                if type(reply) is hiredis.PushNotification and reply[0] not in ORDERLY:
                    self._push(reply)
                    continue
                future = pending.popleft()[1]
                if not future.done():  # nobody may wait for it any more
                    future.set_result(reply)
        except (hiredis.ProtocolError, IndexError) as error:
            self.drop(f"it sent what is not the Redis protocol ({error})")

    def _push(self, message: list[Any]) -> None:
        if message[0] == b"message":
            try:
                self._on_push(message[1], message[2])
            except Exception:
                log.exception("a message from %s could not be taken in", self.where)

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop(str(exc) if exc else "the server closed it")

    def eof_received(self) -> None:
        self.drop("the server closed it")

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._room is not None:
            self._room.set_result(None)
            self._room = None

    # -- called by timers

    def _check_oldest(self) -> None:
        """One timer for all calls: replies come in order, so that only the oldest can be the first to be late."""
        self._deadline = None
        if not self._pending:
            return
        due = self._pending[0][0] + self._timeout
        if due > self._loop.time():
            self._deadline = self._loop.call_at(due, self._check_oldest)
        else:
            # The late reply would be taken for that of the next call: the connection cannot be used any more.
            self.drop(f"no answer within {self._timeout:g} s")

    def _check_silence(self, interval: float) -> None:
        silent_since = self._heard
        if silent_since + interval <= self._loop.time():
            if not self._pending:  # else the oldest call finds out
                self.send(PING)
            silent_since = self._loop.time()
        self._probe = self._loop.call_at(silent_since + interval, self._check_silence, interval)
