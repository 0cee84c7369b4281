"""What wakes the supervisor's loop: signals, and the reload watcher's thread.

Signal handlers do nothing themselves; Python writes each signal's number into a socket, and the loop reads them in the
order they came, at a moment of its own choosing. Must not know what a signal means.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress

RELOAD = 0
_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Bell:
    """Takes the signals over until it is closed. Only for the main thread."""

    def __init__(self, on_ring: Callable[[int], None]) -> None:
        self._on_ring = on_ring
        self.socket, self._send = socket.socketpair()
        self.socket.setblocking(False)
        self._send.setblocking(False)
        self._earlier_fd = signal.set_wakeup_fd(self._send.fileno(), warn_on_full_buffer=False)
        # What the parent shell or nohup had ignored stays ignored.
        mine = [number for number in _HEARD if signal.getsignal(number) is not signal.SIG_IGN]
        self._earlier = {number: signal.signal(number, _heard) for number in mine}

    def ring(self) -> None:
        """Hand on what has come in."""
        with suppress(BlockingIOError):
            for number in self.socket.recv(1024):
                self._on_ring(number)

    def ask_for_reload(self) -> None:
        """May be called in any thread."""
        with suppress(OSError):
            self._send.send(bytes([RELOAD]))

    def close(self) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_fd)
        self.socket.close()
        self._send.close()


def _heard(_number: int, _frame: object) -> None:
    """Only so that the signal has a handler; its number is on its way to the loop."""
