"""One process child as its worker sees it: started, spoken to, killed, and its death reported exactly once.

A child is gone when its process has ended and everything it had sent is read. The pool decides which job gets which
child.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from windlass.errors import WindlassError, WorkerCrashed
from windlass.worker.child_messages import FromChild, NotReady, Ready, Setup, ToChild, Unpacker, decode_from_child, pack

# A death has two signs: the process ends and its socket closes. When one is missing for this long, it is forced.
_APART = 2.0
# The supervisor's pipes, which only the worker may hold.
_PRIVATE = ("WINDLASS_SUPERVISOR_FD", "WINDLASS_PARENT_FD")


class ChildDied(WorkerCrashed):
    """The child process running the job died."""


class PoolClosed(WindlassError):
    """The process pool is closed."""


class ChildStartFailed(WindlassError):
    """A process child could not be started: the app cannot be imported there."""


class ChildProcess(asyncio.Protocol):
    """A child process and the socket to it. ``on_gone`` is called once, after everything else, with the cause
    of death.
    """

    def __init__(
        self, on_frame: Callable[[ChildProcess, FromChild], None], on_gone: Callable[[ChildProcess], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._unpacker = Unpacker()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._pidfd = -1
        self._exited = self._closed = True
        self._told = False
        self._complaint = ""
        self.killed = ""
        self.jobs = 0
        self.job_id = ""

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def gone(self) -> bool:
        return self._exited and self._closed

    async def start(self, command: Sequence[str], setup: Setup) -> None:
        """Start the process and wait until it has imported the app; raises ``ChildStartFailed`` or ``OSError``."""
        ours, theirs = socket.socketpair()
        try:
            self._spawn(command, theirs)
            ours.setblocking(False)
            self._closed = False
            await self._loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            self._closed = True
            self._ready.cancel()
            raise
        finally:
            theirs.close()
        self.send(setup)
        await self._ready

    def _spawn(self, command: Sequence[str], sock: socket.socket) -> None:
        # Started in this very thread: the kernel ties the child's life to the thread that starts it.
        # Its own process group: Ctrl-C in a terminal reaches only the worker, and a kill reaches what the job started.
        self._process = subprocess.Popen(
            [*command, "--fd", str(sock.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=(sock.fileno(),),
            process_group=0,
            env={name: value for name, value in os.environ.items() if name not in _PRIVATE},
        )
        self._exited = False
        self._pidfd = open_pidfd(self._process.pid)
        if self._pidfd >= 0:
            self._loop.add_reader(self._pidfd, self._on_exit)
        else:
            threading.Thread(target=self._wait, args=(self._process,), name="windlass-wait", daemon=True).start()

    def send(self, message: ToChild) -> None:
        """Queue a message. Without effect on a child that is going."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(message))

    def kill(self, why: str) -> None:
        """End the process and the programs it started, now. The first reason is kept."""
        self.killed = self.killed or why
        if self._process is not None and self._process.returncode is None:
            # The child has not been waited for, so its process id is still its own.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def death(self) -> str:
        """The cause of death, in words."""
        if self.killed:
            return f"killed: {self.killed}"
        return describe_exit(self._process.returncode if self._process else None)

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, not a check: uvloop's transports are not subclasses of asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._unpacker.feed(data):
                self._hear(decode_from_child(body))
        except msgspec.MsgspecError as error:
            # User code wrote into the socket: nothing that follows can be trusted.
            self.kill(f"it sent a broken message ({error})")

    def _hear(self, frame: FromChild) -> None:
        if isinstance(frame, NotReady):
            self._complaint = frame.text
        elif isinstance(frame, Ready):
            if not self._ready.done():
                self._ready.set_result(None)
        else:
            self._on_frame(self, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._process is not None and self._process.returncode is None:
            self._loop.call_later(_APART, self._kill_deaf)
        self._closed = True
        self._tell_if_gone()

    def _kill_deaf(self) -> None:
        if not self.gone:
            self.kill("it closed its connection to the worker")

    # -- the process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop is closed, and no one waits for the news
            self._loop.call_soon_threadsafe(self._on_exit)

    def _on_exit(self) -> None:
        assert self._process is not None
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
            # Before the child is waited for: programs the job started must not go on beside its next attempt.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._transport is not None:
            self._loop.call_later(_APART, self._transport.abort)
        self._exited = True
        self._tell_if_gone()

    def _tell_if_gone(self) -> None:
        if self.gone and not self._told:
            self._told = True
            if not self._ready.done():
                self._ready.set_exception(ChildStartFailed(self._start_complaint()))
            self._on_gone(self)

    def _start_complaint(self) -> str:
        if self._complaint:
            return f"a process child could not import the app:\n{self._complaint.rstrip()}"
        return f"a process child died while it was starting: {self.death()}"


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends, or -1 where the system has none."""
    if sys.platform == "linux":
        with suppress(OSError):
            return os.pidfd_open(pid)
    return -1


def describe_exit(code: int | None) -> str:
    """An exit code as people name it: "exit code 3", "signal SIGSEGV"."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"signal {name}" + (" (killed from outside, perhaps for lack of memory)" if name == "SIGKILL" else "")
