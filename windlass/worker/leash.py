"""A worker process's ties to its supervisor: it tells who and how it is, and hears when the supervisor is gone.

Two descriptors come in the environment. On one the worker writes a JSON line per report; the other ends when the
supervisor does, however it died. Must not decide what the worker does then.
"""

from __future__ import annotations

import asyncio
import os
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


class Report(msgspec.Struct):
    """One line to the supervisor, with any of these: the id the store knows this process by, that jobs may come now,
    how busy it is (about once a second), and why it cannot start.
    """

    worker: str = ""
    ready: bool = False
    load: Load | None = None
    error: str = ""


class Leash:
    """The worker's end. Reports never block or fail: a supervisor that is slow or gone is no reason to stop work."""

    def __init__(self, report_fd: int, parent_fd: int) -> None:
        self._report_fd = report_fd
        self._parent_fd = parent_fd
        for fd in (report_fd, parent_fd):
            # What jobs start must not hold the pipes open in this process's name.
            os.set_inheritable(fd, False)
        os.set_blocking(report_fd, False)

    @classmethod
    def from_environment(cls) -> Leash | None:
        """The leash of this process, taken out of the environment so that nothing it starts takes it for its own."""
        report_fd, parent_fd = os.environ.pop(REPORT_FD, ""), os.environ.pop(PARENT_FD, "")
        return cls(int(report_fd), int(parent_fd)) if report_fd and parent_fd else None

    def report(self, message: Mapping[str, Any]) -> None:
        """Say any of the fields of a ``Report``."""
        with suppress(OSError):
            os.write(self._report_fd, msgspec.json.encode(message) + b"\n")

    def failed(self, text: str) -> None:
        """Why this process cannot start; the supervisor says it once for all. Exit with ``EXIT_CONFIG`` then."""
        self.report({"error": text})

    def on_orphaned(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Call back, once, when the supervisor is gone: drain and exit."""

        def orphaned() -> None:
            loop.remove_reader(self._parent_fd)
            callback()

        loop.add_reader(self._parent_fd, orphaned)
