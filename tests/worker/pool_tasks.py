"""What the pool's children run in the tests: a small app, a body that stands in for the runner, and nasty tasks."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from windlass.core.job import ErrorInfo
from windlass.core.lifecycle import Failed, Outcome, Snoozed, Stopped, Succeeded
from windlass.errors import SoftTimeout
from windlass.worker.child_messages import RunRequest
from windlass.worker.child_run import here

app = {"name": "an app"}

Emit = Callable[[str, Any], None]


def body(app: Any, request: RunRequest, emit: Emit) -> Outcome:
    """Call the function named by the task with the arguments in the payload."""
    function = globals()[request.task]
    args = msgspec.json.decode(request.payload)
    try:
        with here.user_code():
            result = function(emit, *args)
    except SoftTimeout as error:
        return Failed(ErrorInfo("SoftTimeout", str(error)))
    return result if isinstance(result, Snoozed | Stopped) else Succeeded(msgspec.json.encode(result))


def echo(emit: Emit, value: Any) -> Any:
    return value


def pid(emit: Emit) -> int:
    return os.getpid()


def app_name(emit: Emit) -> str:
    return app["name"]


def where(emit: Emit) -> list[Any]:
    return [os.getcwd(), sys.path, sys.argv]


def snooze(emit: Emit) -> Snoozed:
    return Snoozed(1234)


def say(emit: Emit, count: int) -> int:
    for n in range(count):
        emit("progress", {"percent": n, "message": "going on"})
    return count


def say_and_die(emit: Emit, count: int) -> None:
    say(emit, count)
    os._exit(9)


def say_much(emit: Emit, size: int) -> None:
    """Never stops sending big messages: a soft timeout mostly meets it inside a send."""
    while True:
        emit("log", "x" * size)


def wait(emit: Emit) -> None:
    emit("up", os.getpid())
    time.sleep(60)


def wait_for_file(emit: Emit, path: str) -> str:
    emit("up", os.getpid())
    while not Path(path).exists():
        time.sleep(0.005)
    return "seen"


def wait_for_cancel(emit: Emit) -> Stopped:
    emit("up", os.getpid())
    while not here.cancelled:
        time.sleep(0.005)
    return Stopped("was asked to")


def is_cancelled(emit: Emit) -> bool:
    return here.cancelled


def spin(emit: Emit) -> None:
    emit("up", os.getpid())
    n = 0
    while True:
        n += 1


def cleans_up(emit: Emit) -> str:
    emit("up", os.getpid())
    try:
        time.sleep(60)
    except SoftTimeout:
        return "cleaned up"
    return "slept"


def hold_the_gil(emit: Emit) -> None:
    """Native code that never lets another Python thread run."""
    emit("up", os.getpid())
    ctypes.PyDLL(None).sleep(60)


def segfault(emit: Emit) -> None:
    ctypes.string_at(0)


def os_exit(emit: Emit, code: int) -> None:
    os._exit(code)


def sys_exit(emit: Emit, code: int) -> None:
    sys.exit(code)


def kill_myself(emit: Emit) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def raises(emit: Emit) -> None:
    raise LookupError("a bug in the body")


def eat(emit: Emit, size: int) -> int:
    global _eaten
    _eaten = b"x" * size
    return os.getpid()


def close_descriptors(emit: Emit) -> None:
    os.closerange(3, 256)


def hang_up(emit: Emit) -> None:
    """Close the connection, then keep the reader thread from noticing."""
    ctypes.PyDLL(None).shutdown(int(sys.argv[2]), socket.SHUT_RDWR)
    ctypes.PyDLL(None).sleep(60)


def write_garbage(emit: Emit) -> None:
    os.write(int(sys.argv[2]), b"\x00\x00\x00\x04 hi!")
    time.sleep(60)


def start_program(emit: Emit) -> None:
    """A job that started a program, the way a transcoder would, and waits for it."""
    program = subprocess.Popen(["sleep", "60"])
    emit("up", program.pid)
    program.wait()


def start_program_and_exit(emit: Emit) -> None:
    emit("up", subprocess.Popen(["sleep", "60"]).pid)
    os._exit(4)


def program_hears_sigterm(emit: Emit) -> int:
    program = subprocess.Popen(["sleep", "60"])
    program.terminate()
    return program.wait()


def fork_hears_sigterm(emit: Emit) -> int:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hear_signals(emit: Emit) -> str:
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    return "still here"


def stray_soft_signal(emit: Emit) -> str:
    """SIGUSR1 that no soft timeout sent."""
    os.kill(os.getpid(), signal.SIGUSR1)
    return "still here"


def threads(emit: Emit) -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


# -- called by name: current().in_process(fn, ...)


@dataclasses.dataclass
class Point:
    x: int
    at: datetime


def move(point: Point, by: int = 1) -> Point:
    assert isinstance(point, Point)
    return dataclasses.replace(point, x=point.x + by)


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value + 1


def fails() -> None:
    raise ValueError("no luck")


class Box:
    @staticmethod
    def static(value: int) -> int:
        return value * 2

    def method(self) -> None: ...


def closure() -> Callable[[], None]:
    def inner() -> None: ...

    return inner
