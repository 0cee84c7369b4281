"""A worker process's link to its supervisor: the worker reports how it is, and notices when the supervisor is gone.

Two descriptors come in the environment. On one the worker writes a JSON line per report; the other ends when the
supervisor does, however it died. The worker decides what to do then.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from windlass.worker.scaling import Load

REPORT_FD = "WINDLASS_SUPERVISOR_FD"
PARENT_FD = "WINDLASS_PARENT_FD"

# Exit codes for the supervisor: drained, start a replacement; and: no restart will help, see the message.
EXIT_RECYCLE = 75
EXIT_CONFIG = 2

MOST_WAITING = 1_000_000
"""Bytes of reports that wait for a supervisor; more are not worth keeping."""
LAST_SECONDS = 1.0


class Report(msgspec.Struct):
    """One line to the supervisor, with any of these: the worker's id in the store, that jobs may come now, its load
    (about once a second), what it measured of itself, why it cannot start, and that an operator stopped it, so that no
    other is started in its place.
    """

    worker: str = ""
    ready: bool = False
    load: Load | None = None
    error: str = ""
    measured: bytes = b""
    dismissed: bool = False


class SupervisorLink:
    """The worker's end. Reports never block or fail: work must not stop because the supervisor is slow or gone.

    What a full pipe does not take waits here, so that no line arrives in half: the latest measurement, and as many
    other reports as there is room for.
    """

    def __init__(self, report_fd: int, parent_fd: int) -> None:
        self._report_fd = report_fd
        self._parent_fd = parent_fd
        for fd in (report_fd, parent_fd):
            # Programs that jobs start must not keep the pipes open.
            os.set_inheritable(fd, False)
        os.set_blocking(report_fd, False)
        self._rest = bytearray()
        self._measured = b""
        self._waits: asyncio.AbstractEventLoop | None = None

    @classmethod
    def from_environment(cls) -> SupervisorLink | None:
        """The link of this process. It is removed from the environment, so that no program started here uses it."""
        report_fd, parent_fd = os.environ.pop(REPORT_FD, ""), os.environ.pop(PARENT_FD, "")
        return cls(int(report_fd), int(parent_fd)) if report_fd and parent_fd else None

    def report(self, message: Mapping[str, Any]) -> None:
        """Send any of the fields of a ``Report``."""
        line = msgspec.json.encode(message) + b"\n"
        if "measured" in message:
            self._measured = line
        elif len(self._rest) < MOST_WAITING:
            self._rest += line
        self._write()

    def failed(self, text: str) -> None:
        """Say why this process cannot start. The supervisor logs it once for all; exit with ``EXIT_CONFIG`` then."""
        self.report({"error": text})
        self.finish()

    def finish(self, seconds: float = LAST_SECONDS) -> None:
        """Wait, at most so many seconds, until all reports are sent: the process is about to end."""
        end = time.monotonic() + seconds
        while not self._write() and (left := end - time.monotonic()) > 0:
            select.select([], [self._report_fd], [], left)

    def _write(self) -> bool:
        """Write as much as the pipe takes now. Answers whether that is all."""
        try:
            while self._rest or self._measured:
                if not self._rest:
                    self._rest, self._measured = bytearray(self._measured), b""
                del self._rest[: os.write(self._report_fd, self._rest)]
        except BlockingIOError:
            self._go_on_later()
            return False
        except OSError:  # the supervisor is gone
            self._rest.clear()
            self._measured = b""
        if self._waits is not None:
            self._waits.remove_writer(self._report_fd)
            self._waits = None
        return True

    def _go_on_later(self) -> None:
        with suppress(RuntimeError):  # no loop runs yet, or none any more
            if self._waits is None:
                loop = asyncio.get_running_loop()
                loop.add_writer(self._report_fd, self._write)
                self._waits = loop

    def on_orphaned(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call back once when the supervisor is gone: the worker should drain and exit."""

        def orphaned() -> None:
            loop.remove_reader(self._parent_fd)
            callback()

        loop.add_reader(self._parent_fd, orphaned)
