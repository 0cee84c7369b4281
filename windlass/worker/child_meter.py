"""A process child's meter: it sends what the child has measured, about once a second while there is something new.

It has a thread of its own, so that the end of a job does not wait for it. It does not know what is measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from windlass.worker.child_functions import load_object

EVERY = 1.0
"""Seconds between two messages, at least."""


class ChildMeter:
    """``function`` names the function that measures. Its answer goes to ``send`` if it differs from the one before."""

    def __init__(self, function: str, send: Callable[[bytes], None]) -> None:
        self._measure: Callable[[], bytes] = load_object(function)
        self._send = send
        self._last = b""
        self._busy = False
        self._due = threading.Event()
        self._telling = threading.Lock()
        self._leaving = threading.Event()
        threading.Thread(target=self._run, name="windlass-meter", daemon=True).start()

    def begin(self) -> None:
        """Note that a job starts: it may count things for a long time."""
        self._busy = True
        self._due.set()

    def end(self) -> None:
        self._busy = False
        self._due.set()

    def leave(self) -> None:
        """Send the last measurement."""
        self._leaving.set()
        self._tell()

    def _run(self) -> None:
        while not self._leaving.is_set():
            self._due.wait(EVERY if self._busy else None)
            self._due.clear()
            self._tell()
            self._leaving.wait(EVERY)

    def _tell(self) -> None:
        # The user's collectors may raise anything, and the socket may be gone: neither may disturb the job.
        with suppress(Exception), self._telling:
            words = self._measure()
            if words and words != self._last:
                self._send(words)
                self._last = words
