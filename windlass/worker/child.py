"""A process child: a clean interpreter that imports the app and runs one job at a time for the worker that started it.

The pool starts ``python -m windlass.worker.child --fd N``; people never do. The main thread runs jobs; a reader thread
receives cancels and soft timeouts meanwhile, and ends the process when the worker is gone. The child never touches the
store: its messages go to the worker, which settles its jobs.
"""

from __future__ import annotations

import contextvars
import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from queue import SimpleQueue
from typing import Any

from windlass.core.failure import describe
from windlass.core.lifecycle import Failed, Outcome
from windlass.support.logs import Steady
from windlass.worker.child_functions import load_object, run_function
from windlass.worker.child_messages import (
    CancelRun,
    FromChild,
    Leave,
    Measured,
    Note,
    NotReady,
    Ready,
    RunRequest,
    Setup,
    SoftTimeoutRun,
    ToChild,
    Unpacker,
    WorkerStops,
    decode_for_child,
    pack,
    reply_to,
)
from windlass.worker.child_meter import ChildMeter
from windlass.worker.child_run import here
from windlass.worker.logs import set_up_as_parent
from windlass.worker.memory import resident_bytes

log = Steady(logging.getLogger("windlass.worker"))

Emit = Callable[[str, Any], None]
Body = Callable[[Any, RunRequest, Emit], Outcome]

_READ_SIZE = 256 * 1024
_PR_SET_PDEATHSIG = 1


class Child:
    """The child's end of the socket, and the loop that serves it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._unpacker = Unpacker()
        self._sending = threading.Lock()
        self._inbox: SimpleQueue[Setup | RunRequest | None] = SimpleQueue()
        os.register_at_fork(before=_mute, after_in_parent=_unmute, after_in_child=self._after_fork)

    def serve(self) -> int:
        """Become the app's child, then run jobs until told to leave. Returns the exit code."""
        threading.Thread(target=self._read, name="windlass-reader", daemon=True).start()
        setup = self._inbox.get()
        if not isinstance(setup, Setup):
            return 0
        try:
            app, body = _prepare(setup)
            meter = ChildMeter(setup.measure, lambda words: self._send(Measured(words))) if setup.measure else None
        except BaseException:
            self._send(NotReady(traceback.format_exc()))
            return 1
        # Install the handlers again: modules of the user may have installed their own while they were imported.
        _install_signals()
        self._send(Ready())
        while isinstance(request := self._inbox.get(), RunRequest):
            if meter is not None:
                meter.begin()
            outcome = self._run(app, body, request)
            self._send(reply_to(request.id, outcome, resident_bytes() if setup.report_memory else 0))
            if meter is not None:
                meter.end()
        if meter is not None:
            meter.leave()
        return 0

    def _run(self, app: Any, body: Body, request: RunRequest) -> Outcome:
        def emit(kind: str, data: Any) -> None:
            frame = pack(Note(request.id, kind, data))
            with here.uninterrupted(), self._sending:
                self._sock.sendall(frame)

        try:
            # Each job has a context of its own, so that nothing received for it is left for the next.
            return contextvars.copy_context().run(_run_body, app, body, request, emit)
        except Exception as error:
            # The body makes outcomes of a task's errors. An error that gets here is its own and must not end the child.
            return Failed(describe(error))
        finally:
            here.end()

    def _send(self, message: FromChild) -> None:
        with self._sending:
            self._sock.sendall(pack(message))

    # -- the reader thread

    def _read(self) -> None:
        try:
            while data := self._sock.recv(_READ_SIZE):
                for body in self._unpacker.feed(data):
                    self._hear(decode_for_child(body))
        finally:
            # End of file, or user code closed the descriptor: no worker can settle this child's job any more.
            _die()

    def _hear(self, message: ToChild) -> None:
        if isinstance(message, CancelRun):
            here.cancel(message.id)
        elif isinstance(message, SoftTimeoutRun):
            here.soft_timeout(message.id)
        elif isinstance(message, WorkerStops):
            here.stopping = True
        elif isinstance(message, Leave):
            self._inbox.put(None)
        else:
            if isinstance(message, RunRequest):
                here.begin(message.id, message.cancelled)
            self._inbox.put(message)

    def _after_fork(self) -> None:
        """A process that user code forks is not a child of the pool: it drops the socket and the handlers that ignore
        signals.
        """
        self._sock.close()
        self._sending = threading.Lock()  # a thread that held the old one at the fork does not exist here
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        _unmute()


def _run_body(app: Any, body: Body, request: RunRequest, emit: Emit) -> Outcome:
    for path, what in request.carried.items():
        try:
            load_object(path)(what)
        except Exception:
            log.exception("a child process cannot receive what %s is for; the job runs without", path)
    return run_function(request) if request.kind == "function" else body(app, request, emit)


def _prepare(setup: Setup) -> tuple[Any, Body]:
    sys.path[:] = setup.path
    _die_with_parent(setup.parent)
    for name in setup.imports:
        import_module(name)
    set_up_as_parent()
    app = load_object(setup.target) if setup.target else None
    body: Body = load_object(setup.body)
    return app, body


def _install_signals() -> None:
    # Handlers that do nothing, instead of SIG_IGN, which the programs that a job starts would inherit.
    signal.signal(signal.SIGINT, _deaf)
    signal.signal(signal.SIGTERM, _deaf)
    signal.signal(signal.SIGUSR1, here.on_signal)


def _deaf(_signum: int, _frame: object) -> None:
    """Ignore the signal: the worker decides when to stop, as it knows which jobs still have time to finish."""


def _mute() -> None:
    # Around a fork, so that a signal for the new process is not lost to the handlers it still has from this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


def _unmute() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def _die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process together with its parent, in case native code keeps the reader thread from
    running.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            _die()


def _die() -> None:
    """End this process now, with the programs the job started; user code cannot prevent it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> int:
    """Serve on the descriptor named on the command line."""
    if len(sys.argv) != 3 or sys.argv[1] != "--fd":
        sys.stderr.write("windlass.worker.child is started by a Windlass worker\n")
        return 2
    _install_signals()
    sock = socket.socket(fileno=int(sys.argv[2]))
    sock.set_inheritable(False)
    return Child(sock).serve()


if __name__ == "__main__":
    sys.exit(main())
