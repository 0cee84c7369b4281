"""Wake-ups and news by datagrams: one socket per listening name, one for sending. They know no SQL.

A wake-up may be dropped when the receiver's buffer is full, since it then has something to read anyway. News of
finished jobs may not: it waits here and is sent again. What cannot be delivered because nobody has the socket open is
reported, so that the name can be forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import stat
import tempfile
import time
from pathlib import Path

import msgspec

from windlass.core.job import Finished
from windlass.errors import StoreError
from windlass.store.jobs import Deliver

MESSAGE_MAX = 100_000
"""Datagrams stay below this, well within the send buffer Linux gives a socket."""

PATH_MAX = 100
"""Socket addresses hold 104 to 108 bytes, depending on the system."""

GIVE_UP = 10.0
"""Seconds after which undelivered news is dropped; clients watch again by themselves after a while."""

HAVE_SOCKETS = hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")
"""Without them (Windows) nobody is woken: workers find work at their next beat, clients at their next look."""

FULL = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})
GONE = frozenset({errno.ECONNREFUSED, errno.ENOENT})

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Finished]).decode
_WAKE = _encode([])


def socket_folder() -> Path:
    """A folder only this user can reach into: whoever can write to a socket can wake its owner."""
    name = f"windlass-{os.getuid()}"
    for base in (tempfile.gettempdir(), "/tmp"):  # a temporary directory may be too deep for a socket's address
        folder = Path(base, name)
        if len(os.fsencode(folder)) + 30 <= PATH_MAX:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise StoreError(f"{folder} must be a directory that only this user may enter; remove it")
            return folder
    raise StoreError(f"no temporary directory has a path short enough for a socket (tried {tempfile.gettempdir()})")


class Mailbox:
    """The receiving end of one name, read on the loop that listens."""

    def __init__(self, deliver: Deliver) -> None:
        self.deliver = deliver
        self.loop = asyncio.get_running_loop()
        self.path = str(socket_folder() / f"{secrets.token_hex(8)}.sock")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        self.sock.bind(self.path)
        self.loop.add_reader(self.sock.fileno(), self._read)

    def _read(self) -> None:
        items: list[Finished] = []
        heard = False
        with contextlib.suppress(BlockingIOError, InterruptedError):
            while True:
                data = self.sock.recv(2 * MESSAGE_MAX)
                heard = True
                with contextlib.suppress(msgspec.MsgspecError):  # not ours
                    items.extend(_decode(data))
        if heard:
            self.deliver(items)

    def close(self) -> None:
        """On the loop that listens."""
        if self.sock.fileno() >= 0:
            self.loop.remove_reader(self.sock.fileno())
            # The file first: a file without a socket behind it would prove that this process has died.
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            self.sock.close()

    def abandon(self) -> None:
        """In a forked child: let go of the descriptor only. The socket, its file and the loop are the parent's."""
        self.sock.close()


class Outbox:
    """The sending end, used by the database thread after each commit."""

    def __init__(self) -> None:
        self._sock: socket.socket | None = None
        if HAVE_SOCKETS:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sock.setblocking(False)
        self._waiting: dict[str, tuple[float, list[bytes]]] = {}
        self.gone: list[str] = []

    @property
    def pending(self) -> bool:
        return bool(self._waiting)

    def post(self, path: str, items: list[Finished]) -> None:
        """Send news, or a wake-up when there are none."""
        if path in self._waiting:
            if items:
                self._waiting[path][1].extend(pack(items))
            return
        unsent = self._send(path, pack(items) if items else [_WAKE])
        if unsent and items:
            self._waiting[path] = (time.monotonic() + GIVE_UP, unsent)

    def again(self) -> None:
        """Another try for what did not fit before."""
        for path, (until, messages) in list(self._waiting.items()):
            unsent = self._send(path, messages)
            if unsent and time.monotonic() < until:
                self._waiting[path] = (until, unsent)
            else:
                del self._waiting[path]

    def _send(self, path: str, messages: list[bytes]) -> list[bytes]:
        """Send in order; what did not fit into the receiver's buffer."""
        if self._sock is None:
            return []
        for sent, message in enumerate(messages):
            try:
                self._sock.sendto(message, path)
            except OSError as error:
                if error.errno in FULL:
                    return messages[sent:]
                if error.errno in GONE:
                    self.gone.append(path)
                return []
        return []

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()


def pack(items: list[Finished]) -> list[bytes]:
    """Messages of bounded size."""
    whole = _encode(items)
    if len(whole) <= MESSAGE_MAX or len(items) == 1:
        return [whole]
    half = len(items) // 2
    return pack(items[:half]) + pack(items[half:])


def remove_leftover(path: str) -> None:
    """The file of a socket whose owner died. Only in our own folder: the path is read from a shared database."""
    with contextlib.suppress(OSError, StoreError):
        if Path(path).parent == socket_folder():
            os.unlink(path)


def nobody_there(path: str) -> bool:
    """True only if the socket's file exists and no process has it open: whoever bound it is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno == errno.ECONNREFUSED
    return False
