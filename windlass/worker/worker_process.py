"""One worker process as its supervisor sees it: started, listened to, asked to stop, and killed if it does not.

The supervisor decides whether it is replaced.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from windlass.worker.process import describe_exit
from windlass.worker.scaling import Load
from windlass.worker.supervisor_link import PARENT_FD, REPORT_FD, Report

_decode = msgspec.json.Decoder(Report).decode
# How long a worker may take to obey "now".
_QUIT_TIME = 2.0
# No report is as long as this; a longer line came from user code that found the descriptor.
_LONGEST_LINE = 64_000_000
# How much is read at once: a worker that never stops reporting must not keep its supervisor from the others.
_READS, _READ_SIZE = 64, 65536


class WorkerProcess:
    """A running worker process. ``crashes``: how often in a row its predecessors in this place have crashed."""

    def __init__(self, argv: Sequence[str], life_fd: int, crashes: int, now: float) -> None:
        self.fd, theirs = os.pipe()
        try:
            # Its own process group: a Ctrl-C in the terminal reaches only the supervisor, as one graceful stop.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs, life_fd),
                process_group=0,
                env=os.environ | {REPORT_FD: str(theirs), PARENT_FD: str(life_fd)},
            )
        except BaseException:
            os.close(self.fd)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(self.fd, False)
        self._line = bytearray()
        self.crashes = crashes
        self.started_at = now
        self.kill_at: float | None = None
        self.leaving = False
        self.again = False
        self.ready = False
        self.worker = ""
        self.error = ""
        self.load: Load | None = None
        self.measured = b""
        self.dismissed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self) -> bool:
        """Take in what the worker has reported; False when there is nothing more to come."""
        with suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(self.fd, _READ_SIZE)
                if not data:
                    return False
                self._hear(data)
        return True

    def _hear(self, data: bytes) -> None:
        first, *more = data.split(b"\n")
        self._line += first
        for part in more:
            self._take_line(bytes(self._line))
            self._line = bytearray(part)
        if len(self._line) > _LONGEST_LINE:
            self._line.clear()

    def _take_line(self, line: bytes) -> None:
        # A line that is no report came from user code that found the descriptor; it is ignored.
        with suppress(msgspec.MsgspecError):
            self._take(_decode(line))

    def _take(self, report: Report) -> None:
        self.worker = report.worker or self.worker
        self.ready = self.ready or report.ready
        self.load = report.load or self.load
        self.error = report.error or self.error
        self.measured = report.measured or self.measured
        self.dismissed = self.dismissed or report.dismissed

    def ask_to_stop(self, kill_at: float) -> None:
        """Ask it to drain, and kill it at ``kill_at``."""
        if not self.leaving:
            self.let_go(kill_at)
            self._signal(signal.SIGTERM)

    def let_go(self, kill_at: float) -> None:
        """Note that it is leaving by itself; it is killed at ``kill_at``."""
        self.leaving, self.kill_at = True, kill_at

    def tell_to_quit(self, now: float) -> None:
        """Tell it to drop everything and go; it is killed if even that takes long."""
        self.leaving = True
        self.kill_at = now + _QUIT_TIME
        # The same signal again: a worker takes it as "hand back and go"; SIGQUIT would leave its jobs to the lease.
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and the programs it started. Its process children notice by themselves."""
        self.kill_at = None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def death(self) -> str:
        return describe_exit(self._process.returncode)

    def close(self) -> None:
        os.close(self.fd)
