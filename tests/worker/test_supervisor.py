"""The supervisor with real processes: crashes, signals, recycling, scaling, reloading, and its own death."""

from __future__ import annotations

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from windlass.worker.reload import Watcher, modified_times

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the supervisor needs POSIX")

QUICK = {"grace": 5.0, "first_delay": 0.1, "longest_delay": 0.4, "steady_after": 60.0}

SUPERVISOR = """
import json, logging, sys
from windlass.worker.supervisor import SupervisorOptions, run_supervisor

journal, options, *words = sys.argv[1:]
logging.basicConfig(level=logging.INFO, format="%(message)s")

def report_dead(worker):
    with open(journal, "a") as file:
        file.write(f"dead {worker}\\n")

options = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(options).items()}
argv = [sys.executable, "-m", "tests.worker.supervised", journal, *words]
if words == ["nonsense"]:
    argv = ["/no/such/command"]
sys.exit(run_supervisor(argv, SupervisorOptions(**options), report_dead, logging.getLogger("test")))
"""


def until(condition: Callable[[], Any], what: str = "it", timeout: float = 60) -> Any:
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in time"
        time.sleep(0.01)
    return result


def holds(condition: Callable[[], bool], seconds: float = 1.5) -> None:
    """For what must not happen, there is no event to wait for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition()
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Run:
    """A supervisor in a process of its own, its log and what its workers noted."""

    def __init__(self, folder: Path, words: tuple[str, ...], options: dict[str, Any], **popen: Any) -> None:
        self.journal = folder / "journal"
        self.journal.touch()
        self.errors = folder / "log"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR, str(self.journal), json.dumps(QUICK | options), *words],
                stderr=errors, **popen,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self.errors.read_text()

    def events(self, event: str) -> list[str]:
        lines = (line.split() for line in self.journal.read_text().splitlines())
        return [line[1] for line in lines if line[0] == event]

    def pids(self, event: str) -> list[int]:
        return [int(pid) for pid in self.events(event)]

    def living(self) -> list[int]:
        return [pid for pid in self.pids("ready") if alive(pid)]

    def wait_for(self, event: str, count: int) -> list[int]:
        until(lambda: len(self.events(event)) >= count, f"{count} x {event}")
        return self.pids(event)

    def wait(self, timeout: float = 60) -> int:
        return self.process.wait(timeout)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def tell_load(self, running: int, slots: int, waiting: str) -> None:
        """Every worker reports this from now on."""
        new = self.journal.with_suffix(".new")
        new.write_text(f"{running} {slots} {waiting}")
        new.rename(self.journal.with_suffix(".load"))

    def tell_to_exit(self, pid: int, code: int) -> None:
        new = self.journal.with_suffix(".new-code")
        new.write_text(str(code))
        new.rename(self.journal.with_suffix(f".exit-{pid}"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(*words: str, popen: dict[str, Any] | None = None, **options: Any) -> Run:
        runs.append(Run(tmp_path, words, options, **(popen or {})))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()
        for pid in run.pids("start"):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


# -- keeping alive


def test_it_keeps_the_number_and_drains_on_sigterm(start) -> None:
    run = start("slow", processes=3)
    pids = run.wait_for("ready", 3)
    assert len(set(pids)) == 3
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert sorted(run.pids("sigterm")) == sorted(run.pids("drained")) == sorted(pids)
    assert not run.events("dead")


def test_a_crash_is_told_at_once_and_the_process_replaced(start) -> None:
    run = start(processes=2)
    victim, other = run.wait_for("ready", 2)
    os.kill(victim, signal.SIGKILL)
    until(lambda: run.events("dead") == [f"w-{victim}"])
    run.wait_for("ready", 3)
    assert len(run.living()) == 2
    assert other in run.living(), "the neighbour was left alone"
    assert "signal SIGKILL" in run.log
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_a_crash_loop_is_slowed_down_and_said(start) -> None:
    run = start("dies", processes=1)
    run.wait_for("start", 5)
    delays = [line.split()[-2] for line in run.log.splitlines() if "starts in" in line]
    assert delays[:4] == ["0.1", "0.2", "0.4", "0.4"]
    assert "exit code 9" in run.log
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_a_long_life_forgives_earlier_crashes(start) -> None:
    run = start(processes=1, steady_after=0.0, first_delay=30.0)
    for count in range(1, 4):
        pid = run.wait_for("ready", count)[-1]
        os.kill(pid, signal.SIGKILL)
    run.wait_for("ready", 4)
    assert "starts in" not in run.log


def test_a_process_that_asks_to_be_replaced_is_replaced_at_once(start) -> None:
    run = start(processes=1, first_delay=30.0)
    for count in range(1, 4):
        run.tell_to_exit(run.wait_for("ready", count)[-1], 75)
    run.wait_for("ready", 4)
    assert "starts in" not in run.log
    assert not run.events("dead")


def test_a_process_that_stopped_by_itself_is_replaced_and_not_dead(start) -> None:
    run = start(processes=1)
    os.kill(run.wait_for("ready", 1)[0], signal.SIGTERM)
    run.wait_for("ready", 2)
    assert not run.events("dead")


def test_in_burst_the_work_is_done_when_the_workers_are(start) -> None:
    run = start("done", processes=3, burst=True)
    assert run.wait() == 0
    assert len(run.events("start")) == 3


# -- failing to start


@pytest.mark.parametrize("processes", [1, 3])
def test_if_none_can_start_it_says_why_once_and_exits_2(start, processes: int) -> None:
    run = start("misconfigured", processes=processes)
    assert run.wait() == 2
    assert run.log.count("the app has no tasks") == 1


def test_a_command_that_is_not_there_is_the_same(start) -> None:
    run = start("nonsense", processes=2)
    assert run.wait() == 2
    assert "/no/such/command" in run.log


def test_a_later_failure_to_start_is_retried(start) -> None:
    run = start(processes=1)
    pid = run.wait_for("ready", 1)[0]
    broken = run.journal.with_suffix(".broken")
    broken.touch()
    os.kill(pid, signal.SIGKILL)
    run.wait_for("start", 3)
    broken.unlink()
    run.wait_for("ready", 2)


# -- signals


def test_a_second_signal_does_not_wait(start) -> None:
    run = start("deaf", processes=2, grace=60)
    pids = run.wait_for("ready", 2)
    run.signal(signal.SIGINT)
    run.wait_for("sigterm", 2)
    run.signal(signal.SIGINT)
    run.wait_for("sigterm", 4)
    began = time.monotonic()
    assert run.wait() == 1
    assert time.monotonic() - began < 5
    assert sorted(run.events("dead")) == sorted(f"w-{pid}" for pid in pids)
    assert not any(alive(pid) for pid in pids)


def test_a_third_signal_kills(start) -> None:
    run = start("deaf", processes=1, grace=60)
    run.wait_for("ready", 1)
    for count in (1, 2):
        run.signal(signal.SIGTERM)
        run.wait_for("sigterm", count)
    began = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.wait() == 1
    assert time.monotonic() - began < 1.5


def test_what_does_not_drain_within_the_grace_is_killed(start) -> None:
    run = start("deaf", processes=1, grace=0.2)
    [pid] = run.wait_for("ready", 1)
    run.signal(signal.SIGTERM)
    assert run.wait() == 1
    assert run.events("dead") == [f"w-{pid}"]
    assert "did not stop in time" in run.log


def test_stopping_while_workers_still_import(start) -> None:
    run = start("forever-importing", processes=2)
    run.wait_for("start", 2)
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_stopping_between_two_starts(start) -> None:
    run = start("dies", processes=1, first_delay=60.0, longest_delay=60.0)
    until(lambda: "starts in" in run.log)
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_one_ctrl_c_in_a_terminal_is_one_graceful_stop(start) -> None:
    master, slave = pty.openpty()
    run = start("slow", processes=2, popen={"stdin": slave, "start_new_session": True, "preexec_fn": _take_terminal})
    os.close(slave)
    run.wait_for("ready", 2)
    os.write(master, b"\x03")
    assert run.wait() == 0
    os.close(master)
    assert len(run.events("sigterm")) == 2
    assert not run.events("sigint")
    assert len(run.events("drained")) == 2


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_workers_drain_when_the_supervisor_is_killed(start) -> None:
    run = start(processes=2)
    pids = run.wait_for("ready", 2)
    run.process.kill()
    until(lambda: not any(alive(pid) for pid in pids))
    assert sorted(run.pids("orphaned")) == sorted(run.pids("drained")) == sorted(pids)


# -- rolling, reloading, scaling


def test_sighup_replaces_all_without_a_gap(start) -> None:
    run = start(processes=2)
    old = run.wait_for("ready", 2)
    run.signal(signal.SIGHUP)
    run.wait_for("ready", 4)
    run.wait_for("drained", 2)
    until(lambda: len(run.living()) == 2)
    assert not set(old) & set(run.living())
    events = [line.split()[0] for line in run.journal.read_text().splitlines()]
    assert events.index("sigterm") > [n for n, event in enumerate(events) if event == "ready"][2]
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_a_release_that_does_not_start_leaves_the_old_one_running(start) -> None:
    run = start(processes=2)
    old = run.wait_for("ready", 2)
    run.journal.with_suffix(".broken").touch()
    run.signal(signal.SIGHUP)
    until(lambda: "the old ones go on" in run.log)
    assert run.living() == old
    assert not run.events("sigterm")
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_a_changed_file_restarts_the_workers(start, tmp_path: Path) -> None:
    source = tmp_path / "src" / "tasks.py"
    source.parent.mkdir()
    source.write_text("x = 1")
    run = start(processes=2, reload=True, reload_paths=[str(source.parent)])
    old = run.wait_for("ready", 2)

    def noticed() -> bool:
        # Again and again: the watcher may not have looked before the first change.
        source.write_text(f"x = {time.monotonic()}")
        return "files have changed" in run.log

    until(noticed)
    until(lambda: len(run.living()) == 2 and not set(old) & set(run.living()))
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_with_reload_a_mistake_is_waited_out(start, tmp_path: Path) -> None:
    broken = tmp_path / "journal.broken"
    broken.touch()
    run = start(processes=1, reload=True, reload_paths=[str(tmp_path)])
    run.wait_for("start", 2)
    broken.unlink()
    run.wait_for("ready", 1)


@pytest.mark.parametrize("poll", [True, False])
def test_the_watcher_sees_changes_new_files_and_deletions(tmp_path: Path, poll: bool) -> None:
    changed = threading.Event()
    watcher = Watcher([str(tmp_path)], changed.set, poll=poll)
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "note.txt").write_text("1")
    watcher.start()
    count = itertools.count()

    def seen(act: Callable[[], object]) -> bool:
        act()
        return changed.wait(0.3)

    until(lambda: seen(lambda: (tmp_path / "a.py").write_text(f"{next(count)}")))
    changed.clear()
    until(lambda: seen(lambda: (tmp_path / f"new{next(count)}.py").write_text("1")))
    watcher.stop()


def test_a_snapshot_leaves_out_what_is_not_the_users(tmp_path: Path) -> None:
    for name in ("a.py", ".venv/b.py", "pkg/c.py", "pkg/__pycache__/d.py", "node_modules/e.py", "f.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = {str(Path(path).relative_to(tmp_path)) for path in modified_times([str(tmp_path)])}
    assert found == {"a.py", "pkg/c.py"}
    assert list(modified_times([str(tmp_path / "a.py")])) == [str(tmp_path / "a.py")]


def test_autoscale_adds_under_pressure_and_retires_when_idle(start) -> None:
    run = start(autoscale=[3, 1], scale_up_after=0.2, scale_down_after=0.4)
    run.wait_for("ready", 1)
    run.tell_load(4, 4, "yes")
    run.wait_for("ready", 3)
    holds(lambda: len(run.events("start")) == 3)
    run.tell_load(0, 4, "no")
    until(lambda: len(run.living()) == 1)
    holds(lambda: len(run.living()) == 1)
    assert len(run.events("drained")) == 2
    assert not run.events("dead")
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
