"""The app's connection to its Redis for callers without an event loop: the same calls over a plain socket.

A thread that went through a loop would pay two thread switches for each call. Requests, remedies, routes and errors are
those of ``link.py``; only waiting is done differently here. One socket serves all threads, one call at a time, and no
forked child ever uses its parent's. It does not listen.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
import time
from typing import Any

import hiredis

from windlass.errors import StoreClosed, StoreUnavailable
from windlass.store.forks import lineage
from windlass.store.redis import errors
from windlass.store.redis.commands import MISSING, Calls, Library, Reply, Request, Word, pack
from windlass.store.redis.location import Address, Location
from windlass.store.redis.remedy import Drop, Remedy
from windlass.store.redis.route import Ask, Dial, Route, Step, Steps
from windlass.store.redis.tls import client_context

CHUNK = 65_536


class BlockingStream:
    """A connected socket. Whatever goes wrong on it comes out as ``OSError``; it must not be used any more then."""

    def __init__(self, address: Address, seconds: float, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self._reader = hiredis.Reader(notEnoughData=MISSING)
        self._seconds = seconds
        if address.path:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._sock.settimeout(seconds)
        else:
            self._sock = socket.create_connection((address.host, address.port), seconds)
        try:
            if address.path:
                self._sock.connect(address.path)
            else:
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._sock = tls.wrap_socket(self._sock, server_hostname=address.host)
            self._bound(seconds)
        except BaseException:
            self._sock.close()
            raise

    def _bound(self, seconds: float) -> None:
        """How long one send or receive may take. The system is told where it can be: Python's own timeout asks it
        twice for each."""
        self._seconds = seconds
        if sys.platform == "linux" and not isinstance(self._sock, ssl.SSLSocket):
            self._sock.settimeout(None)
            whole = int(seconds)
            packed = struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._sock.setsockopt(socket.SOL_SOCKET, option, packed)
        else:
            self._sock.settimeout(seconds)

    def ask(self, request: Request, seconds: float) -> list[Reply]:
        """Send a request and wait for its replies, no longer than that."""
        until = time.monotonic() + seconds
        if seconds != self._seconds:
            self._bound(seconds)
        try:
            self._sock.sendall(request.packed)
            replies: list[Reply] = []
            while len(replies) < request.replies:
                if time.monotonic() > until:  # it came in pieces
                    raise TimeoutError
                data = self._sock.recv(CHUNK)
                if not data:
                    raise ConnectionResetError("the server closed it")
                self._reader.feed(data)
                while (reply := self._reader.gets()) is not MISSING:
                    if type(reply) is not hiredis.PushNotification:  # nothing we asked for
                        replies.append(reply)
        except BlockingIOError as error:  # the system's word for late
            raise TimeoutError from error
        except (ssl.SSLError, hiredis.ProtocolError) as error:
            raise ConnectionResetError(str(error)) from error
        return replies

    def close(self) -> None:
        """Let go of this process's end only: nothing is sent, so that a forked child may do it to its parent's."""
        self._sock.close()


class Seat:
    """What belongs to one process: the socket, and the lock of the threads that share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stream: BlockingStream | None = None

    def drop(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()


class BlockingLink:
    """For any thread. It is connected by the first call, and again when the connection was lost."""

    def __init__(self, location: Location, library: Library) -> None:
        self.location = location
        self._calls = Calls(location, library)
        self._route = Route(location)
        self._remedy = Remedy(location, self._route, self._calls.load)
        self._tls = client_context(location.tls) if location.tls else None
        self._seats = {lineage.number: Seat()}
        self._closed = False

    def open(self) -> None:
        """Connect, or raise what is in the way of that. Calls connect by themselves; only ``close`` is undone by it."""
        self._closed = False
        self.command(b"PING")

    def close(self) -> None:
        """Let go of the connection. Closing twice is harmless; calls raise ``StoreClosed`` from now on."""
        self._closed = True
        seat = self._seat()
        if seat.lock.acquire(timeout=self.location.timeout):
            try:
                seat.drop()
            finally:
                seat.lock.release()

    def call(self, function: bytes, *args: Word, durable: bool = False) -> Any:
        """Call a function of the library; its reply. See ``Link.call``."""
        request = self._calls.request(function, args, durable)
        seat = self._taken()
        try:
            replies = self._exchange(seat, request)
            if len(replies) == 1 and not isinstance(replies[0], Exception):
                return replies[0]
            return self._heal(seat, request, replies)
        finally:
            seat.lock.release()

    def command(self, *words: Word) -> Any:
        """Any other command that has one reply and may be sent twice, such as INFO."""
        seat = self._taken()
        try:
            (reply,) = self._exchange(seat, Request(pack(words), 1))
            if isinstance(reply, Exception):
                if errors.drops(reply):
                    seat.drop()
                raise errors.explain(reply, self.location)
            return reply
        finally:
            seat.lock.release()

    # -- whose turn it is

    def _seat(self) -> Seat:
        """This process's own: a child that forked has a new one, whatever its parent's threads were doing."""
        mine = lineage.number
        seat = self._seats.get(mine)
        if seat is None:
            fresh = Seat()
            seat = self._seats.setdefault(mine, fresh)  # one step: threads of the child may race for it
            if seat is fresh:
                for other in [other for other in self._seats if other != mine]:
                    self._seats.pop(other).drop()
        return seat

    def _taken(self) -> Seat:
        seat = self._seat()
        if not seat.lock.acquire(timeout=self.location.timeout):
            raise StoreUnavailable(
                f"other threads have kept the connection to {self.location.shown} busy for {self.location.timeout:g} s"
            )
        if self._closed:
            seat.lock.release()
            raise StoreClosed(f"the connection to {self.location.shown} was closed")
        return seat

    # -- sending

    def _exchange(self, seat: Seat, request: Request) -> list[Reply]:
        """Send and wait. A connection that turns out to be closed is replaced, once.

        Nobody watches an idle socket: the server may have closed it long ago, and only sending tells. All our calls
        are safe to send twice.
        """
        if seat.stream is not None:
            try:
                return self._ask(seat, seat.stream, request)
            except ConnectionError:
                pass
            except OSError as error:
                raise self._lost(error) from error
        seat.stream = self._walk(self._route.steps())
        try:
            return self._ask(seat, seat.stream, request)
        except OSError as error:
            raise self._lost(error) from error

    def _ask(self, seat: Seat, stream: BlockingStream, request: Request) -> list[Reply]:
        try:
            return stream.ask(request, self.location.timeout)
        except BaseException:  # an interrupt too: the reply under way would be taken for the next one
            seat.drop()
            raise

    def _lost(self, error: OSError) -> StoreUnavailable:
        late = f"no answer within {self.location.timeout:g} s"
        return errors.lost(self.location.shown, late if isinstance(error, TimeoutError) else str(error))

    def _heal(self, seat: Seat, request: Request, replies: list[Reply]) -> Any:
        """Judge the replies to a call, and do what can be done about an error, as the remedy says."""
        cure = self._remedy.steps(request, replies)
        outcome: list[Reply] | None = None
        while True:
            try:
                step = cure.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Drop):
                seat.drop()
                outcome = None
            else:
                outcome = self._exchange(seat, step)

    # -- connecting

    def _walk(self, steps: Steps) -> BlockingStream:
        """Take the steps of a route; the connection dialled last is the one."""
        stream: BlockingStream | None = None
        replies: list[Reply] = []
        try:
            step = next(steps)
            while True:
                try:
                    stream, replies = self._take(step, stream)
                except StoreUnavailable as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(replies)
        except StopIteration:
            assert stream is not None
            return stream
        except BaseException:
            if stream is not None:
                stream.close()
            raise

    def _take(self, step: Step, stream: BlockingStream | None) -> tuple[BlockingStream | None, list[Reply]]:
        try:
            if isinstance(step, Dial):
                if stream is not None:
                    stream.close()
                return BlockingStream(step.address, step.seconds, self._tls), []
            if isinstance(step, Ask):
                assert stream is not None
                return stream, stream.ask(step.request, step.seconds)
        except OSError as error:
            where = step.address if isinstance(step, Dial) else self.location.shown
            raise errors.unreachable(where, error) from error
        time.sleep(step.seconds)
        return stream, []
