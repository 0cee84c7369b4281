"""Server processes that never outlive the tests, however those end, and the two things every server needs: a port
that is free and a wait with a deadline.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"

# Below Linux's range for outgoing connections: a server restarted on its port must find it free, and a client that
# calls a dead port of that range over and over is some day connected to itself.
PORTS = range(20_000, 32_000)

# The guard reads from a pipe that only the test process holds. The end of the pipe is the end of the tests, also
# when they were killed; a line means the server was stopped in an orderly way.
GUARD = 'read done || { kill -9 "$1"; rm -rf "$2"; }'


class ServerFailed(Exception):
    """A server did not start or did not answer in time; says what it logged last."""


def free_port() -> int:
    """A port nobody listens on. Another process may still be quicker: a start that fails takes another."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ServerFailed(f"no free port in {PORTS}")


def wait_until(check: Callable[[], Any], what: str, timeout: float = 10.0, every: float = 0.01) -> Any:
    """The first true answer of ``check``, or ServerFailed that names what did not happen."""
    deadline = time.monotonic() + timeout
    while not (answer := check()):
        if time.monotonic() > deadline:
            raise ServerFailed(f"not within {timeout} s: {what} (last: {answer!r})")
        time.sleep(every)
    return answer


class GuardedProcess:
    """One run of a server, with a guard beside it that kills it and removes its folder when the tests are gone.

    A guard instead of PR_SET_PDEATHSIG, because that one fires when the *thread* that started the child ends.
    """

    def __init__(self, command: Sequence[str], folder: Path, log: Path) -> None:
        with log.open("ab") as out:
            # A session of its own: the terminal's Ctrl-C goes to the tests, which then stop their servers.
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self.process.pid), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, timeout: float = 10.0) -> None:
        """Ask it to stop, kill it if it does not, and dismiss the guard."""
        self.send(number)
        self.send(signal.SIGCONT)
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            self.process.wait(timeout)
        self._guard.communicate(b"done\n", timeout)
