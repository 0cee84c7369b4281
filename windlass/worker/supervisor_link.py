"""A worker process's ties to its supervisor: it tells who and how it is, and hears when the supervisor is gone.

Two descriptors come in the environment. On one the worker writes a JSON line per report; the other ends when the
supervisor does, however it died. Must not decide what the worker does then.
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

# Exit codes a supervisor understands: replace me, I have drained; and: no restart will help, see the message.
EXIT_RECYCLE = 75
EXIT_CONFIG = 2

MOST_WAITING = 1_000_000
"""Bytes of reports that wait for a supervisor; more are not worth keeping."""
LAST_SECONDS = 1.0


class Report(msgspec.Struct):
    """One line to the supervisor, with any of these: the id the store knows this process by, that jobs may come now,
    how busy it is (about once a second), what it measured of itself, why it cannot start, and that an operator told it
    to stop, so that none is to come in its place.
    """

    worker: str = ""
    ready: bool = False
    load: Load | None = None
    error: str = ""
    measured: bytes = b""
    dismissed: bool = False


class SupervisorLink:
    """The worker's end. Reports never block or fail: a supervisor that is slow or gone is no reason to stop work.

    What a full pipe does not take waits here, so that no line arrives in half: of measurements the latest one, of other
    reports as many as have room.
    """

    def __init__(self, report_fd: int, parent_fd: int) -> None:
        self._report_fd = report_fd
        self._parent_fd = parent_fd
        for fd in (report_fd, parent_fd):
            # What jobs start must not hold the pipes open in this process's name.
            os.set_inheritable(fd, False)
        os.set_blocking(report_fd, False)
        self._rest = bytearray()
        self._measured = b""
        self._waits: asyncio.AbstractEventLoop | None = None

    @classmethod
    def from_environment(cls) -> SupervisorLink | None:
        """The leash of this process, taken out of the environment so that nothing it starts takes it for its own."""
        report_fd, parent_fd = os.environ.pop(REPORT_FD, ""), os.environ.pop(PARENT_FD, "")
        return cls(int(report_fd), int(parent_fd)) if report_fd and parent_fd else None

    def report(self, message: Mapping[str, Any]) -> None:
        """Say any of the fields of a ``Report``."""
        line = msgspec.json.encode(message) + b"\n"
        if "measured" in message:
            self._measured = line
        elif len(self._rest) < MOST_WAITING:
            self._rest += line
        self._write()

    def failed(self, text: str) -> None:
        """Why this process cannot start; the supervisor says it once for all. Exit with ``EXIT_CONFIG`` then."""
        self.report({"error": text})
        self.finish()

    def finish(self, seconds: float = LAST_SECONDS) -> None:
        """Wait until all is said, for so long at most: the process is about to end."""
        end = time.monotonic() + seconds
        while not self._write() and (left := end - time.monotonic()) > 0:
            select.select([], [self._report_fd], [], left)

    def _write(self) -> bool:
        """What the pipe takes now; whether that is all."""
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
        with suppress(RuntimeError):  # no loop runs: before the worker, or after it
            if self._waits is None:
                loop = asyncio.get_running_loop()
                loop.add_writer(self._report_fd, self._write)
                self._waits = loop

    def on_orphaned(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call back, once, when the supervisor is gone: drain and exit."""

        def orphaned() -> None:
            loop.remove_reader(self._parent_fd)
            callback()

        loop.add_reader(self._parent_fd, orphaned)
