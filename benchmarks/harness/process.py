"""Runs client operations and worker processes in a peer's environment, and reads what they use."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.apps import marks
from benchmarks.harness import paths
from benchmarks.harness.envs import Environment
from benchmarks.harness.space import Space
from benchmarks.peers.model import Contender


class Failure(Exception):
    """A trial did not come to an end; the message says why."""


@dataclass(frozen=True)
class Usage:
    """What a worker's processes hold and have used."""

    rss_mb: float
    pss_mb: float
    cpu_seconds: float


def variables(environment: Environment, contender: Contender, space: Space, **changes: str) -> dict[str, str]:
    """The environment variables of one process of a trial."""
    own = {**contender.variables(), **space.variables(), **environment.variables()}
    return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "", **changes}


def ask(
    environment: Environment,
    contender: Contender,
    space: Space,
    operation: str,
    arguments: Mapping[str, float],
    timeout: float = 600,
    **changes: str,
) -> dict[str, Any]:
    """One operation of the contender's client, and its answer."""
    command = [*environment.client(contender.peer.app), operation, json.dumps(dict(arguments))]
    return answer_of(command, variables(environment, contender, space, **changes), timeout)


def answer_of(command: list[str], env: dict[str, str], timeout: float) -> dict[str, Any]:
    """The JSON in the last line a command prints."""
    try:
        done = subprocess.run(
            command,
            env=env,
            cwd=paths.REPOSITORY,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"no answer within {timeout:.0f} s") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise Failure(_tail(done.stderr))
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


class Worker:
    """A contender's worker: one session of processes per copy, stopped as a whole."""

    def __init__(self, environment: Environment, contender: Contender, space: Space) -> None:
        command = [part.format(**environment.places, **space.variables()) for part in contender.peer.command]
        command += contender.pool.arguments
        self._log = space.path / "worker.log"
        self.reader = marks.Reader(space.marks)
        self.started_ns = time.monotonic_ns()
        self._processes: list[subprocess.Popen[bytes]] = []
        env = variables(environment, contender, space)
        for _ in range(contender.pool.copies):
            if environment.modules:
                env = {**env, "BENCH_SLOT": str(self.reader.reserve())}
            self._processes.append(_start(command, env, self._log))

    @property
    def pids(self) -> list[int]:
        """The processes that were started, without their children."""
        return [process.pid for process in self._processes]

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.reader.close()

    def wait_for(self, count: int, stall: float = 30, watch: Callable[[], object] | None = None) -> marks.Totals:
        """Waits until `count` jobs ran, calling `watch` meanwhile; gives up when none ran for `stall` seconds."""
        seen, moved = -1, time.monotonic()
        while True:
            totals = self.reader.totals()
            if totals.count >= count:
                return totals
            if totals.count != seen:
                seen, moved = totals.count, time.monotonic()
            elif time.monotonic() - moved > stall:
                raise Failure(f"stalled at {seen} of {count} jobs: {self._last_words()}")
            elif all(process.poll() is not None for process in self._processes):
                raise Failure(f"worker ended at {seen} of {count} jobs: {self._last_words()}")
            if watch:
                watch()
            time.sleep(0.02)

    def usage(self) -> Usage:
        """Memory and processor time of all processes, from /proc."""
        sessions = {process.pid for process in self._processes}
        found = [Path(f"/proc/{pid}") for pid in _in_sessions(sessions)]
        return Usage(
            rss_mb=sum(_kilobytes(folder, "Rss") for folder in found) / 1024,
            pss_mb=sum(_kilobytes(folder, "Pss") for folder in found) / 1024,
            cpu_seconds=sum(_cpu_seconds(folder) for folder in found),
        )

    def stop(self) -> None:
        """Asks politely, waits, then kills the session."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pid in _in_sessions({process.pid}):
                _kill(pid)

    def _last_words(self) -> str:
        return _tail(self._log.read_text(errors="replace"))


def _start(command: list[str], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with open(log, "ab") as output:
        try:
            return subprocess.Popen(
                command,
                env=env,
                cwd=paths.REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise Failure(f"the worker did not start: {error.strerror}: {Path(command[0]).name}") from None


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1].replace(str(paths.REPOSITORY), ".")[:300] if lines else "no message"


def _in_sessions(sessions: set[int]) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(folder)
        if fields and fields[0] != "Z" and int(fields[3]) in sessions:
            found.append(int(folder.name))
    return found


def _stat(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat after the command: state, ppid, pgrp, session, ..."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_seconds(folder: Path) -> float:
    fields = _stat(folder)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _kilobytes(folder: Path, name: str) -> int:
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
