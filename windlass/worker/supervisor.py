"""``windlass worker --processes N``: one parent that keeps N worker processes alive.

It starts clean interpreters, restarts those that die, tells the store at once which worker is dead, and passes signals
on. It imports no user code, runs no jobs and holds no connection, so that no user code can bring it down.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windlass.errors import ConfigError
from windlass.worker.obituaries import Obituaries
from windlass.worker.process_metrics import MetricsReceiver
from windlass.worker.reload import Watcher
from windlass.worker.scaling import Autoscaler
from windlass.worker.supervisor_bell import RELOAD, Bell
from windlass.worker.supervisor_link import EXIT_CONFIG, EXIT_RECYCLE
from windlass.worker.worker_process import WorkerProcess

# Added to the worker's own grace: it needs a moment to hand jobs back and sign off.
_EXTRA_GRACE = 2.0
_TICK = 1.0


@dataclass(frozen=True, kw_only=True)
class SupervisorOptions:
    """What to keep alive, and how patiently. ``burst``: workers end when there is no work left, and are not
    replaced.
    """

    processes: int = 1
    autoscale: tuple[int, int] | None = None
    grace: float = 30.0
    burst: bool = False
    reload: bool = False
    reload_paths: tuple[str, ...] = ()
    first_delay: float = 1.0
    longest_delay: float = 30.0
    steady_after: float = 60.0
    scale_up_after: float = 3.0
    scale_down_after: float = 30.0


def run_supervisor(
    argv: Sequence[str], options: SupervisorOptions, report_dead: Callable[[str], None], log: logging.Logger,
    gather: MetricsReceiver | None = None,
) -> int:  # fmt: skip
    """Keep worker processes running ``argv`` alive until told to stop; answers the exit code.

    0: all drained. 1: some had to be killed. 2: they cannot start. Call it in the main thread, whose signals it takes
    over meanwhile. ``report_dead`` is called in another thread and may block. ``gather``: takes in what the workers
    measure of themselves.
    """
    if sys.platform == "win32":
        raise ConfigError("--processes needs Linux or macOS")
    return Supervisor(argv, options, report_dead, log, gather).run()


@dataclass
class _Start:
    """A worker process that is to start at an instant."""

    at: float
    crashes: int = 0


class Supervisor:
    """The loop: start what is due, hear signals and reports, reap, scale, kill what is overdue."""

    def __init__(
        self, argv: Sequence[str], options: SupervisorOptions, report_dead: Callable[[str], None], log: logging.Logger,
        gather: MetricsReceiver | None = None,
    ) -> None:  # fmt: skip
        self._argv = list(argv)
        self._options = options
        self._log = log
        self._gather = gather
        self._scaler = (
            Autoscaler(options.autoscale, options.scale_up_after, options.scale_down_after)
            if options.autoscale
            else None
        )
        self._wanted = max(1, self._scaler.low if self._scaler else options.processes)
        self._starts = [_Start(0.0) for _ in range(self._wanted)]
        self._members: list[WorkerProcess] = []
        self._old: deque[WorkerProcess] = deque()
        self._successor: WorkerProcess | None = None
        self._exit_code = 0
        self._stopping = self._forced = False
        self._ever_ready = False
        self._failed_starts = 0
        self._errors_told: set[str] = set()
        self._dead = Obituaries(report_dead, log)
        self._selector = selectors.DefaultSelector()
        # The children hold the reading end, which ends with this process, however it dies.
        self._life_read, self._life_write = os.pipe()

    def run(self) -> int:
        """Supervise until everything has stopped."""
        bell = Bell(self._hear)
        self._selector.register(bell.socket, selectors.EVENT_READ, bell.ring)
        watcher = Watcher(self._options.reload_paths, bell.ask_for_reload) if self._options.reload else None
        if watcher is not None:
            watcher.start()
        try:
            while self._members or self._starts:
                self._turn()
        finally:
            if watcher is not None:
                watcher.stop()
            bell.close()
            self._dead.close()
            self._selector.close()
            os.close(self._life_read)
            os.close(self._life_write)
        return self._exit_code

    def _turn(self) -> None:
        now = time.monotonic()
        self._start_due(now)
        for key, _ in self._selector.select(self._pause(now)):
            key.data()
        now = time.monotonic()
        for member in list(self._members):
            if (code := member.exit_code()) is not None:
                self._bury(member, code, now)
            elif member.kill_at is not None and now >= member.kill_at:
                self._log.warning("worker process %d did not stop in time and is killed", member.pid)
                member.kill()
        if not self._stopping:
            self._roll_on(now)
            self._rescale(now)

    def _pause(self, now: float) -> float:
        times = [start.at for start in self._starts] + [m.kill_at for m in self._members if m.kill_at is not None]
        return max(0.0, min([now + _TICK, *times]) - now)

    # -- starting

    def _start_due(self, now: float) -> None:
        due = [start for start in self._starts if start.at <= now]
        self._starts = [start for start in self._starts if start.at > now]
        for start in due:
            try:
                self._start(start.crashes, now)
            except OSError as error:
                self._log.error("a worker process cannot be started: %s", error)
                self._restart(start.crashes, lived=0.0, unready=True, code=EXIT_CONFIG, now=now)

    def _start(self, crashes: int, now: float) -> WorkerProcess:
        member = WorkerProcess(self._argv, self._life_read, crashes, now)
        self._log.info("worker process %d started", member.pid)
        self._members.append(member)
        self._selector.register(member.fd, selectors.EVENT_READ, lambda: self._listen(member))
        return member

    def _listen(self, member: WorkerProcess) -> None:
        if not member.listen():
            self._selector.unregister(member.fd)
        self._ever_ready = self._ever_ready or member.ready
        if member.error and member.error not in self._errors_told:
            self._errors_told.add(member.error)
            self._log.error("%s", member.error)
        if self._gather is not None and member.measured:
            self._gather.heard(member.pid, member.measured)
            member.measured = b""
        if member.dismissed and not member.leaving:
            self._log.warning("worker process %d was told to stop and is not replaced", member.pid)
            self._wanted -= 1
            member.let_go(time.monotonic() + self._options.grace + _EXTRA_GRACE)

    # -- stopping

    def _hear(self, number: int) -> None:
        now = time.monotonic()
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stop(now)
        elif number == signal.SIGHUP and not self._stopping:
            self._log.info("replacing the worker processes one by one")
            self._old = deque(self._active())
        elif number == RELOAD and not self._stopping:
            self._log.info("files have changed: restarting the worker processes")
            self._reload(now)

    def _stop(self, now: float) -> None:
        self._starts.clear()
        if self._forced:
            for member in self._members:
                member.kill()
        elif self._stopping:
            self._log.warning("second signal: stopping %d worker processes now", len(self._members))
            self._forced = True
            for member in self._members:
                member.tell_to_quit(now)
        else:
            self._log.info("stopping %d worker processes; they have %g s", len(self._members), self._options.grace)
            self._stopping = True
            for member in self._members:
                self._ask_to_stop(member, now)

    def _ask_to_stop(self, member: WorkerProcess, now: float) -> None:
        member.ask_to_stop(now + self._options.grace + _EXTRA_GRACE)

    def _reload(self, now: float) -> None:
        self._errors_told.clear()
        self._old.clear()
        self._successor = None
        self._starts = [_Start(now) for _ in self._starts]
        for member in self._active():
            member.again = True
            self._ask_to_stop(member, now)

    # -- replacing

    def _bury(self, member: WorkerProcess, code: int, now: float) -> None:
        if member.fd in self._selector.get_map():
            self._listen(member)
        if member.fd in self._selector.get_map():
            self._selector.unregister(member.fd)
        member.close()
        self._members.remove(member)
        # A process that was still importing when asked to stop dies of the signal, and leaves nothing behind.
        clean = code in (0, EXIT_RECYCLE) or (member.leaving and not member.ready)
        if not clean:
            self._log.warning("worker process %d died: %s", member.pid, member.death())
        if not clean and member.worker:
            self._dead.tell(member.worker)
        if self._gather is not None:
            self._gather.gone(member.pid, died=not clean)
        if self._stopping:
            self._exit_code = self._exit_code if clean else 1
        elif member.again:
            self._starts.append(_Start(now))
        elif member is self._successor:
            self._stop_rolling()
        elif not member.leaving:
            self._restart(member.crashes, now - member.started_at, not member.ready, code, now)

    def _restart(self, crashes: int, lived: float, unready: bool, code: int, now: float) -> None:
        options = self._options
        if code == 0 and options.burst:
            self._wanted -= 1
            return
        if unready and code == EXIT_CONFIG and crashes == 0 and not self._ever_ready and not options.reload:
            self._failed_starts += 1
            if self._failed_starts >= self._wanted:
                self._give_up(now)
                return
        if (code == EXIT_RECYCLE and not unready) or lived >= options.steady_after:
            self._starts.append(_Start(now))
            return
        delay = min(options.first_delay * 2.0**crashes, options.longest_delay)
        self._log.warning("the next worker process starts in %g s", delay)
        self._starts.append(_Start(now + delay, crashes + 1))

    def _give_up(self, now: float) -> None:
        self._log.error("no worker process can start; see the message above")
        self._exit_code = EXIT_CONFIG
        self._stop(now)

    # -- rolling and scaling

    def _active(self) -> list[WorkerProcess]:
        return [member for member in self._members if not member.leaving]

    def _roll_on(self, now: float) -> None:
        """Start the next successor and, when it is ready, let one old process go. The first successor that fails stops
        the rolling.
        """
        if self._successor is not None and self._successor.ready:
            self._successor = None
            while self._old:
                old = self._old.popleft()
                if old in self._members and not old.leaving:
                    self._ask_to_stop(old, now)
                    break
        if self._successor is None and any(old in self._members and not old.leaving for old in self._old):
            try:
                self._successor = self._start(0, now)
            except OSError:
                self._stop_rolling()

    def _stop_rolling(self) -> None:
        self._log.error("the new worker process did not start; the old ones go on")
        self._successor = None
        self._old.clear()

    def _rescale(self, now: float) -> None:
        if self._scaler is None or self._old or self._successor is not None:
            return
        active = self._active()
        wanted = self._scaler.decide([m.load for m in active if m.load is not None], self._wanted, now)
        if wanted > self._wanted:
            self._log.info("all worker processes are full: adding one")
            self._starts.append(_Start(now))
        elif wanted < self._wanted:
            self._log.info("the worker processes have little to do: retiring one")
            self._ask_to_stop(min(active, key=lambda m: m.load.running if m.load else 0), now)
        self._wanted = wanted
