"""``windlass worker`` and its neighbours as real processes: banner, logs, signals, supervision and memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from windlass.cli.main import cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and several processes need POSIX")

ROOT = Path(__file__).parents[2]
SHOP = """
import asyncio, logging, os, signal, time
from windlass import Windlass
app = Windlass("shop", "sqlite:///shop.db?durability=normal")
log = logging.getLogger("shop")

@app.task
async def pid() -> int:
    log.info("telling", extra={"shelf": 7})
    return os.getpid()

@app.task
async def slow(seconds: float = 60) -> str:
    await asyncio.sleep(seconds)
    return "done"

@app.task(queue="stuck", timeout=0.2)
def stuck() -> None:
    time.sleep(600)

@app.task(queue="danger", max_crashes=100)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Shell:
    """Runs ``windlass`` in a folder, for a while or to the end, and leaves nothing behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        self.env["PYTHONPATH"] = str(ROOT)
        self._running: list[subprocess.Popen[bytes]] = []

    def __call__(self, *args: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "windlass", *args], cwd=self.folder, env=self.env | env, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def start(self, *args: str, out: str = "out") -> subprocess.Popen[bytes]:
        with open(self.folder / out, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "windlass", *args], cwd=self.folder, env=self.env, stdout=file, stderr=file
            )
        self._running.append(process)
        return process

    def output(self, out: str = "out") -> str:
        return (self.folder / out).read_text(encoding="utf-8")

    def call(self, task: str, *args: str) -> Any:
        return json.loads(self("enqueue", "shop:app", task, *args, "--wait", "20", "--json").stdout)["result"]

    def workers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("workers", "shop:app", "--json").stdout)
        return found

    def ask(self, *args: str) -> Any:
        """The JSON of a command that runs in this process: for questions that are put again and again."""
        done = CliRunner().invoke(cli, [*args, "--url", f"sqlite:///{self.folder}/shop.db", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def until_workers(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = soon(
            lambda: len(now := [one for one in self.ask("workers", "list") if one["alive"]]) == count and now
        )
        return found

    def until_mode(self, mode: str) -> None:
        soon(lambda: all(one["presence"]["load"]["mode"] == mode for one in self.ask("workers", "list")))

    def end(self) -> None:
        for process in self._running:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def soon(check: Callable[[], Any], timeout: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.05)
    return answer


def stop(process: subprocess.Popen[bytes], number: int = signal.SIGTERM, code: int = 0) -> None:
    process.send_signal(number)
    assert process.wait(60) == code


def test_a_worker_says_what_it_is_runs_jobs_and_drains(shell: Shell) -> None:
    worker = shell.start("worker", "shop:app", "-Q", "default", "-c", "7", "--grace", "20s")
    assert shell.call("pid") == worker.pid
    banner = shell.output()
    for part in ("shop", "sqlite:///shop.db", "queues      default\n", "4 (2 async, 2 thread)", "7 jobs at once",
                 f"pid         {worker.pid}"):  # fmt: skip
        assert part in banner
    assert re.search(r"INFO    shop: telling  \[shop\.pid [0-9A-Za-z_~]{20}\]", banner)
    (info,) = shell.workers()
    assert (info["presence"]["queues"], info["presence"]["concurrency"]) == (["default"], 7)
    shell("enqueue", "shop:app", "slow", "seconds=4", "--id", "last")
    soon(lambda: shell.ask("jobs", "show", "last")["state"] == "running")
    stop(worker, signal.SIGINT)
    assert json.loads(shell("jobs", "show", "shop:app", "last", "--json").stdout)["result"] == "done"
    assert shell.workers() == []
    assert "Traceback" not in shell.output()


def test_an_idle_worker_is_small(shell: Shell) -> None:
    worker = shell.start("worker", "shop:app")
    shell.call("pid")
    # What it takes for itself: pages of the interpreter and of libraries are shared, and how many are read in is the
    # kernel's choice.
    assert psutil.Process(worker.pid).memory_full_info().uss < 30 * 1024 * 1024
    stop(worker)


def test_json_logs_are_json_and_nothing_else(shell: Shell) -> None:
    worker = shell.start("worker", "shop:app", "--log-format", "json", "--log-level", "debug")
    shell.call("pid")
    stop(worker)
    lines = [json.loads(line) for line in shell.output().splitlines()]
    (start,) = [line for line in lines if line["message"] == "starting"]
    assert start["worker"]["queues"] == ["danger", "default", "stuck"]
    (told,) = [line for line in lines if line["message"] == "telling"]
    assert (told["task"], told["queue"], told["attempt"], told["shelf"]) == ("shop.pid", "default", 1, 7)
    assert told["job_id"]


def test_tasks_of_other_modules_are_imported(shell: Shell) -> None:
    (shell.folder / "more.py").write_text(
        "from shop import app\n@app.task(name='more.hello')\nasync def hello() -> str:\n    return 'hello'\n",
        encoding="utf-8",
    )
    worker = shell.start("worker", "shop:app", "--import", "more")
    text = shell("enqueue", "--url", "sqlite:///shop.db", "more.hello", "--wait", "20").stdout
    assert text == "hello\n"
    stop(worker)
    assert "no module 'mroe'" in shell("worker", "shop:app", "--import", "mroe", code=2).stderr


def test_several_processes_are_supervised(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--processes", "2")
    soon(lambda: len(shell.ask("workers", "list")) == 2)
    assert "100 jobs at once in each of 2 processes" in shell.output()
    pids = {info["presence"]["pid"] for info in shell.workers()}
    assert boss.pid not in pids
    # A worker that dies is replaced, and its job does not wait for the lease.
    shell("enqueue", "shop:app", "die", "--id", "killer", "--args", "{}")
    soon(lambda: shell.ask("jobs", "show", "killer")["crashes"] >= 1)
    shell("cancel", "shop:app", "killer")
    shell.until_workers(2)
    stop(boss)
    assert shell.workers() == []


def test_workers_end_when_their_supervisor_is_killed(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--processes", "2")
    soon(lambda: len(shell.ask("workers", "list")) == 2)
    family = psutil.Process(boss.pid).children()
    boss.kill()
    psutil.wait_procs(family, timeout=15)
    assert not [child for child in family if child.is_running()]
    assert shell.workers() == []


def test_a_process_is_replaced_after_its_jobs(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--max-jobs", "1")
    first = shell.call("pid")
    soon(lambda: (pids := [info["presence"]["pid"] for info in shell.ask("workers", "list")]) and first not in pids)
    assert shell.call("pid") != first
    stop(boss)


def test_a_lone_process_full_of_stuck_threads_begins_anew(shell: Shell) -> None:
    worker = shell.start("worker", "shop:app", "-c", "2", "--grace", "1s")
    shell("enqueue", "shop:app", "stuck", "--wait", "20", code=1)
    soon(lambda: shell.output().count("windlass 0.") == 2)
    assert shell.call("pid") == worker.pid
    assert "to be replaced" in shell.output()
    stop(worker)


def test_reload_starts_the_new_source(shell: Shell) -> None:
    boss = shell.start("worker", "shop:app", "--reload")
    assert isinstance(shell.call("pid"), int)
    source = (shell.folder / "shop.py").read_text(encoding="utf-8")
    (shell.folder / "shop.py").write_text(source + "\n@app.task\nasync def fresh() -> str:\n    return 'fresh'\n")
    assert shell.call("fresh") == "fresh"
    stop(boss)


def test_what_is_wrong_is_said_once_however_many_processes(shell: Shell) -> None:
    (shell.folder / "broken.py").write_text("import nothing_here\n", encoding="utf-8")
    for more in ([], ["--processes", "2"]):
        done = shell("worker", "broken:app", *more, code=2)
        assert done.stderr.count("No module named 'nothing_here'") == 2  # the traceback, and the error
        assert done.stdout == ""


def test_following_ends_cleanly(shell: Shell) -> None:
    tail = shell.start("tail", "shop:app", "--since", "0")
    shell("enqueue", "shop:app", "pid", "--id", "seen")
    soon(lambda: "seen" in shell.output())
    stop(tail, signal.SIGINT, code=130)
    assert re.search(r"resume with --since \d+-\d+", shell.output())
    assert "Traceback" not in shell.output()


def test_bench_gives_its_figures(shell: Shell) -> None:
    figures = json.loads(shell("bench", "-n", "300", "--json").stdout)
    assert figures["jobs"] == 300
    assert figures["drain_rate"] > 0
    assert figures["round_trip_p50"] > 0
    shell("bench", "--url", "sqlite:///shop.db", "-n", "100")
    assert json.loads(shell("jobs", "list", "shop:app", "--json").stdout)["jobs"] == []


def test_an_interrupt_while_waiting_is_clean(shell: Shell) -> None:
    waits = shell.start("enqueue", "shop:app", "slow", "--wait")
    soon(lambda: "no worker serves" in shell.output())
    stop(waits, signal.SIGINT, code=130)
    assert "Traceback" not in shell.output()
