"""The app's connection to its Redis on an event loop: calls of our functions, and messages to the names we listen to.

One connection carries both. It is made when first needed, and again when it was lost; a link that listens does so by
itself, since nobody would call to have it made. What was sent when the connection broke is not sent again here: that
is for the caller to decide, who gets ``StoreUnavailable``. It knows nothing of jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from windlass.errors import StoreClosed, StoreError, StoreUnavailable
from windlass.store.redis import errors
from windlass.store.redis.commands import Calls, Library, Reply, Request, Word, pack
from windlass.store.redis.location import Location
from windlass.store.redis.outage import Outage
from windlass.store.redis.protocol import Stream
from windlass.store.redis.remedy import Drop, Remedy
from windlass.store.redis.route import Ask, Dial, Route, Step, Steps
from windlass.store.redis.tls import client_context

log = logging.getLogger("windlass.redis")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

Deliver = Callable[[bytes], None]


class Link:
    """For one loop. ``on_return`` is called when a link that listens is connected again: messages may be missing."""

    def __init__(self, location: Location, library: Library, on_return: Callable[[], None] | None = None) -> None:
        self.location, self.on_return = location, on_return
        self._calls = Calls(location, library)
        self._route = Route(location)
        self._remedy = Remedy(location, self._route, self._calls.load)
        self._outage = Outage(location.shown)
        self._tls = client_context(location.tls) if location.tls else None
        self._stream: Stream | None = None
        self._connecting: asyncio.Task[Stream] | None = None
        self._returning: asyncio.Task[None] | None = None
        self._delivers: dict[bytes, Deliver] = {}
        self._met = False
        self._closed = False

    # -- for the store

    async def open(self) -> None:
        """Connect, or raise what is in the way of that. Opening twice is harmless, also after ``close``."""
        self._closed = False
        await self._ready()

    async def close(self) -> None:
        """Let go of the connection. Closing twice, or without opening, is harmless."""
        self._closed = True
        self._delivers.clear()
        self._met = False
        tasks = [task for task in (self._connecting, self._returning) if task is not None]
        for task in tasks:
            task.cancel()
        if self._stream is not None:
            self._stream.drop("we closed it")
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)  # the loop lets go of the socket in its next turn

    async def call(self, function: bytes, *args: Word, durable: bool = False) -> Any:
        """Call a function of the library; its reply. Several calls may be under way.

        ``durable``: the call counts as done only when as many replicas have its writes as the URL asks for.
        """
        request = self._calls.request(function, args, durable)
        stream = self._stream
        if stream is None or stream.full:
            stream = await self._ready()
        if request.replies == 1:
            reply = await stream.send(request.packed)
            if not isinstance(reply, Exception):
                return reply
            return await self._heal(stream, request, [reply])
        return await self._heal(stream, request, await stream.ask(request))

    async def command(self, *words: Word) -> Any:
        """Any other command that has one reply, such as INFO."""
        stream = await self._ready()
        reply = await stream.send(pack(words))
        if isinstance(reply, Exception):
            raise self._explained(stream, reply)
        return reply

    async def subscribe(self, name: str, deliver: Deliver) -> None:
        """Have ``deliver`` called with every message to ``name``, from when this returns, also after reconnecting."""
        channel = self._channel(name)
        self._delivers[channel] = deliver
        try:
            stream = await self._ready()
            reply = await stream.send(pack((b"SUBSCRIBE", channel)))
            if isinstance(reply, Exception):
                raise self._explained(stream, reply)
        except BaseException:
            if self._delivers.get(channel) is deliver:
                del self._delivers[channel]
            raise
        stream.keep_alive(self.location.keepalive)

    async def unsubscribe(self, name: str) -> None:
        """Stop that. A name nobody listens to is fine."""
        channel = self._channel(name)
        stream = self._stream
        if self._delivers.pop(channel, None) is None or stream is None:
            return
        if not self._delivers:
            stream.keep_alive(None)
        reply = await stream.send(pack((b"UNSUBSCRIBE", channel)))
        if isinstance(reply, Exception) and not isinstance(reply, StoreUnavailable):
            raise self._explained(stream, reply)

    # -- errors

    async def _heal(self, stream: Stream, request: Request, replies: list[Reply]) -> Any:
        """Judge the replies to a call, and do what can be done about an error, as the remedy says."""
        cure = self._remedy.steps(request, replies)
        outcome: list[Reply] | None = None
        while True:
            try:
                step = cure.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Drop):
                stream.drop(step.reason)
                outcome = None
            else:
                if stream.lost:
                    stream = await self._ready()
                outcome = await stream.ask(step)

    def _explained(self, stream: Stream, error: Exception) -> StoreError:
        if errors.drops(error):
            stream.drop(f"the server answered {error}")
        return errors.explain(error, self.location)

    # -- connecting

    def _channel(self, name: str) -> bytes:
        return f"{self.location.tag}to:{name}".encode()

    async def _ready(self) -> Stream:
        """A stream with room; one attempt to connect is shared by all who wait for it."""
        while True:
            if self._closed:
                raise StoreClosed(f"the connection to {self.location.shown} was closed")
            stream = self._stream
            if stream is None:
                stream = await self._attempt()
            if not stream.full:
                return stream
            await stream.room()

    async def _attempt(self) -> Stream:
        task = self._connecting
        if task is None:
            task = self._connecting = asyncio.get_running_loop().create_task(self._connect())
            task.add_done_callback(self._attempted)
        await asyncio.wait((task,))  # a caller that is cancelled must not cancel it for the others
        if task.cancelled():
            raise StoreClosed(f"the connection to {self.location.shown} was closed")
        return task.result()

    def _attempted(self, task: asyncio.Task[Stream]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # heard: those who wait have it, and those who listen try again

    async def _connect(self) -> Stream:
        channels = list(self._delivers)
        try:
            stream = await self._walk(self._route.steps(channels))
        except StoreError as error:
            if self._met:
                self._outage.began(str(error))
            raise
        self._stream = stream
        self._outage.ended()
        if self._delivers:
            stream.keep_alive(self.location.keepalive)
        if self._met and channels and self.on_return is not None:
            try:
                self.on_return()
            except Exception:
                log.exception("what was missed on %s could not be made up for", self.location.shown)
        self._met = True
        return stream

    async def _walk(self, steps: Steps) -> Stream:
        """Take the steps of a route; the connection dialled last is the one."""
        stream: Stream | None = None
        replies: list[Reply] = []
        try:
            step = next(steps)
            while True:
                try:
                    stream, replies = await self._take(step, stream)
                except StoreUnavailable as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(replies)
        except StopIteration:
            assert stream is not None
            return stream
        except BaseException:
            if stream is not None:
                stream.drop("it is not fit for use")
            raise

    async def _take(self, step: Step, stream: Stream | None) -> tuple[Stream | None, list[Reply]]:
        if isinstance(step, Dial):
            if stream is not None:
                stream.drop("it was only asked for the way")
            return await self._dial(step), []
        if isinstance(step, Ask):
            assert stream is not None
            return stream, await self._ask(stream, step)
        await asyncio.sleep(step.seconds)
        return stream, []

    async def _dial(self, step: Dial) -> Stream:
        address = step.address
        where = self.location.shown if self.location.kind == "single" else str(address)
        stream = Stream(where, self.location.timeout, self._pushed, self._lost)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(step.seconds):
                if address.path:
                    await loop.create_unix_connection(lambda: stream, address.path)
                else:
                    name = address.host if self._tls else None
                    await loop.create_connection(
                        lambda: stream, address.host, address.port, ssl=self._tls, server_hostname=name
                    )
        except OSError as error:
            stream.drop("it was not made in time")
            raise errors.unreachable(address, error) from error
        return stream

    @staticmethod
    async def _ask(stream: Stream, step: Ask) -> list[Reply]:
        try:
            async with asyncio.timeout(step.seconds):
                replies = await stream.ask(step.request)
        except TimeoutError as error:
            raise errors.unreachable(stream.where, error) from error
        if stream.lost:
            raise errors.unreachable(stream.where, ConnectionResetError(stream.reason))
        return replies

    # -- called by the stream

    def _pushed(self, channel: bytes, data: bytes) -> None:
        deliver = self._delivers.get(channel)
        if deliver is not None:
            deliver(data)

    def _lost(self, stream: Stream, reason: str, hurts: bool) -> None:
        if stream is not self._stream:
            return
        self._stream = None
        if self._closed:
            return
        if self._delivers or hurts:  # else it was idle, and the next call makes a new one
            self._outage.began(reason)
        if self._delivers and self._returning is None:
            self._returning = asyncio.get_running_loop().create_task(self._return())

    async def _return(self) -> None:
        """Connect again, for the sake of those who listen; nobody else may be calling."""
        pause, told = FIRST_PAUSE, False
        try:
            while self._stream is None and self._delivers and not self._closed:
                try:
                    await self._attempt()
                except StoreError as error:
                    if not isinstance(error, StoreUnavailable) and not told:
                        log.error("cannot return to %s, will go on trying: %s", self.location.shown, error)
                        told = True
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._returning = None
