"""``windlass top`` and ``windlass tail`` in a real terminal, with real workers."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.fixtures import NewRedis, new_redis
from tests.servers.redis import fresh_prefix
from tests.worker.helpers import ROOT, SHORT, Fleet, eventually
from windlass import Windlass, chain
from windlass.console import Console
from windlass.errors import JobError
from windlass.workflows.work import Chain

__all__ = ["new_redis"]

APP = "tests.worker.watched:app"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOME, LEFT_SCREEN, SHOWN_CURSOR = "\x1b[H", "\x1b[?1049l", "\x1b[?25h"


_AT_TERMINAL = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):  # whoever runs the tests may ignore these, and programs inherit that
    signal.signal(number, signal.SIG_DFL)
tty = os.open(sys.argv[1], os.O_RDWR)  # the first one a session opens is the one whose keys signal to it
for number in (0, 1, 2):
    os.dup2(tty, number)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, *args: str, env: dict[str, str], size: tuple[int, int] = (100, 30)) -> None:
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        self._slave, self.raw = slave, ""
        known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _AT_TERMINAL, os.ttyname(slave), sys.executable, "-m", "windlass", *args],
            cwd=ROOT, env={**known, "TERM": "xterm-256color", **env}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def seen(self) -> str:
        """All that was written."""
        while True:
            try:
                data = os.read(self._master, 1 << 16)
            except (BlockingIOError, OSError):
                return self.raw
            self.raw += data.decode(errors="replace")

    @property
    def screen(self) -> str:
        """The screen as it was drawn last."""
        return _CODES.sub("", self.seen.rpartition(HOME)[2]).replace("\r", "")

    async def shows(self, *texts: str) -> str:
        await eventually(lambda: all(text in self.screen for text in texts), 40)
        return self.screen

    async def ends(self) -> str:
        return await eventually(lambda: None if self.process.poll() is None else str(self.process.returncode), 20)

    def is_restored(self) -> bool:
        """The screen of before is back, the cursor too, and keys are echoed again."""
        end = self.seen
        left = end.rfind(LEFT_SCREEN)
        shown = end.rfind(SHOWN_CURSOR)
        return left > end.rfind(HOME) and shown > 0 and termios.tcgetattr(self._slave) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    url = f"sqlite:///{tmp_path}/watched.db?durability=normal"
    if request.param == "redis":
        url = request.getfixturevalue("redis7").url
    return {"E2E_URL": url, "E2E_NAME": fresh_prefix(), "E2E_LEDGER": str(tmp_path / "mended")}


@pytest.fixture
def workers(place: dict[str, str], tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(APP, tmp_path, place)
    yield fleet
    fleet.end()


@pytest.fixture
async def caller(place: dict[str, str]) -> AsyncIterator[Windlass]:
    app = Windlass(place["E2E_NAME"], place["E2E_URL"], **SHORT)
    yield app
    await app.close()


@pytest.fixture
def open_top(place: dict[str, str]) -> Iterator[Any]:
    opened: list[Terminal] = []

    def start(*args: str, **options: Any) -> Terminal:
        words = args or ("top", APP, "--every", "0.3")
        opened.append(Terminal(*words, **{"env": place, **options}))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.close()


async def add(app: Windlass, task: str, **options: Any) -> str:
    return (await app.queue("work").add(task, options.pop("args", {}), **options)).id


def failing_chain(app: Windlass) -> Chain[Any]:
    return chain(app.sig("fails", {"n": 2}, queue="work"), app.sig("counts", queue="work", immutable=True))


def mend(place: dict[str, str]) -> None:
    """From now on the task ``fails`` does not."""
    Path(place["E2E_LEDGER"]).touch()


async def test_every_table_and_every_action(
    caller: Windlass, workers: Fleet, open_top: Any, place: dict[str, str]
) -> None:
    workers.start()
    await eventually(lambda: caller.workers())
    waits, fails = await add(caller, "waits"), await add(caller, "fails", args={"n": 1})
    later = await add(caller, "counts", delay="1h")
    flow = await failing_chain(caller).enqueue()
    await eventually(lambda: is_state(caller, fails, "failed"), 20)
    top = open_top()
    await top.shows("1 queues", "work", "flowing", "q quit")

    top.type("p")
    await top.shows("paused queue work")
    assert (await caller.queue("work").info()).limits.paused
    top.type("p")
    await top.shows("resumed queue work")

    top.type("2/")
    top.type("state:running\r")
    await top.shows("state:running", f"{waits}  running")
    top.type("c")
    await top.shows(f"cancel {waits}? y/n")
    top.type("n")
    await top.shows("left alone")
    top.type("cy")
    await eventually(lambda: is_state(caller, waits, "cancelled"), 30)

    top.type("/")
    top.type("\x7f" * 20 + f"id:{later}\r")
    await top.shows(f"{later}  scheduled")
    top.type("\r")
    await top.shows(f"─ {later} ─", "arguments")
    top.type("P")
    await top.shows("promote: 1 job")
    await eventually(lambda: is_state(caller, later, "succeeded"))

    top.type("\x1b")
    await top.shows("1 queues")
    top.type("4")
    await top.shows("OSError", "number")
    mend(place)
    top.type("r")
    await top.shows("retry: 2 dead letters")
    await eventually(lambda: is_state(caller, fails, "succeeded"))

    top.type("5")
    await top.shows("hourly", "every 1h")
    top.type("R")
    await top.shows("schedule hourly runs now")
    top.type("p")
    await top.shows("paused schedule hourly")

    top.type("6")
    await top.shows(flow.id)
    top.type("3")
    await top.shows("yes", "work")
    top.type("?")
    await top.shows("any key goes back")
    top.type("?q")
    assert await top.ends() == "0"
    assert top.is_restored()
    done = {row.action: row for row in (await Console(caller).audit()).rows}
    assert done.keys() == {
        "pause_queue", "resume_queue", "cancel", "promote", "bulk retry", "run_schedule", "pause_schedule",
    }  # fmt: skip
    assert {(row.via, row.outcome) for row in done.values()} == {("top", "done")}


async def is_state(app: Windlass, id: str, state: str) -> bool:
    return await app.job(id).state() == state


async def test_workflows_are_retried_and_cancelled(
    caller: Windlass, workers: Fleet, open_top: Any, place: dict[str, str]
) -> None:
    flow = await failing_chain(caller).enqueue()
    workers.start()
    with pytest.raises(JobError):
        await flow.result(timeout=30)
    top = open_top()
    await top.shows("q quit")
    top.type("6")
    await top.shows(flow.id)
    mend(place)
    top.type("r")
    await top.shows(f"retried workflow {flow.id}")
    await top.shows(flow.id, "succeeded")
    top.type("cy")
    await top.shows("not done: ", "it is succeeded")


@pytest.mark.parametrize("how", ["ctrl-c", "term", "hang up"])
async def test_the_terminal_is_as_it_was_however_it_ends(open_top: Any, how: str) -> None:
    top = open_top()
    await top.shows("q quit")
    assert not top.is_restored()
    if how == "ctrl-c":
        top.type("\x03")
    else:
        top.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGHUP)
    code = await top.ends()
    assert code == {"ctrl-c": "130", "term": "0", "hang up": "-1"}[how], top.seen.rpartition(LEFT_SCREEN)[2]
    assert top.is_restored() or how == "hang up"


async def test_another_size_is_drawn_at_once(open_top: Any) -> None:
    top = open_top("top", APP, "--every", "60", size=(160, 50))
    await top.shows("q quit")
    assert len(top.screen.splitlines()) == 50
    top.resize(70, 20)
    await eventually(lambda: len(top.screen.splitlines()) == 20 and "q quit" in top.screen)
    assert max(map(len, top.screen.splitlines())) <= 70


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_store_that_is_away_is_said_and_keeps_nobody_from_leaving(
    place: dict[str, str], open_top: Any, new_redis: NewRedis
) -> None:
    server = new_redis()
    top = open_top(env={**place, "E2E_URL": server.url})
    await top.shows("q quit")
    server.stop()
    await eventually(lambda: "q quit" not in top.screen and "windlass top" in top.screen, 60)
    top.type("5")
    await eventually(lambda: "reading" in top.screen, 10)
    server.restart()
    await top.shows("q quit", "nothing here")
    server.stop()
    top.type("q")
    assert await top.ends() == "0"
    assert top.is_restored()


def windlass(*args: str, place: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windlass", *args], cwd=ROOT, env={**os.environ, **place}, capture_output=True,
        text=True, timeout=60, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


async def test_without_a_terminal(caller: Windlass, place: dict[str, str]) -> None:
    await add(caller, "counts")
    found = await asyncio.to_thread(windlass, "top", APP, place=place)
    assert found.returncode == 2
    assert "needs a terminal; --once prints one look" in found.stderr
    once = await asyncio.to_thread(windlass, "top", APP, "--once", place=place)
    assert once.returncode == 0
    assert "no worker" in once.stdout
    assert "\x1b" not in once.stdout


async def test_tail_tells_all_kinds_and_goes_on_behind_a_cursor(
    caller: Windlass, workers: Fleet, place: dict[str, str]
) -> None:
    workers.start()
    await eventually(lambda: caller.workers())
    first = await add(caller, "counts", args={"n": 1})
    await caller.job(first).result(timeout=20)
    found = await asyncio.to_thread(windlass, "tail", APP, "--no-follow", "--json", place=place)
    events = [json.loads(line) for line in found.stdout.splitlines()]
    assert {"worker_up", "enqueued", "started", "succeeded"} <= {event["kind"] for event in events}
    await caller.queue("work").pause()
    await caller.schedules.run("hourly")
    more = await asyncio.to_thread(windlass, "tail", APP, "--no-follow", "--since", events[-1]["cursor"], place=place)
    lines = [line.split()[1] for line in more.stdout.splitlines()]
    assert lines == ["gate_changed", "enqueued"]
