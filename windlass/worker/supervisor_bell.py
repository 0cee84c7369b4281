"""What wakes the supervisor's loop: signals, and the reload watcher's thread.

Signal handlers do nothing themselves: Python writes each signal's number into a socket, and the loop reads the numbers
in order when it is ready. The bell does not know what a signal means.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress

RELOAD = 0
_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Bell:
    """Takes over the signals until it is closed. Only for the main thread."""

    def __init__(self, on_ring: Callable[[int], None]) -> None:
        self._on_ring = on_ring
        self.socket, self._send = socket.socketpair()
        self.socket.setblocking(False)
        self._send.setblocking(False)
        self._earlier_fd = signal.set_wakeup_fd(self._send.fileno(), warn_on_full_buffer=False)
        # A signal that the parent shell or nohup ignored stays ignored.
        mine = [number for number in _HEARD if signal.getsignal(number) is not signal.SIG_IGN]
        self._earlier = {number: signal.signal(number, _heard) for number in mine}

    def ring(self) -> None:
        """Hand on the signals that have come in."""
        with suppress(BlockingIOError):
            for number in self.socket.recv(1024):
                self._on_ring(number)

    def ask_for_reload(self) -> None:
        """Ask for a reload. Any thread may call this."""
        with suppress(OSError):
            self._send.send(bytes([RELOAD]))

    def close(self) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_fd)
        self.socket.close()
        self._send.close()


def _heard(_number: int, _frame: object) -> None:
    """A handler that does nothing: it makes Python write the signal's number into the socket."""
