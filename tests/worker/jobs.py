"""The app that worker processes of the tests serve: tasks of every kind that leave their trace in the ledger."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import Any

from tests.worker.helpers import SHORT, Ledger
from windlass import Windlass, current, once
from windlass.calls.task import Task
from windlass.errors import Retry, SoftTimeout

app = Windlass("e2e", os.environ.get("E2E_URL", "memory://"), **SHORT)
ledger = Ledger(os.environ.get("E2E_LEDGER", os.devnull))
log = logging.getLogger("e2e")


def adopt(other: Windlass, *tasks: Task[Any, Any], **options: Any) -> list[Task[Any, Any]]:
    """Declare tasks of this module in another app, which runs them in its own workers and its own children."""
    own = {task.name: {"name": task.name, "queue": task.queue, "runs_in": task.runs_in, **task.layer} for task in tasks}
    return [other.declared.add_task(task.fn, {**own[task.name], **options}) for task in tasks]


def caller(url: str) -> Windlass:
    """The same app as the worker processes have, in the test's process."""
    other = Windlass("e2e", url, **SHORT)
    adopt(other, *app.tasks.values())
    return other


def note(what: str) -> None:
    ledger.write(what, current().id, current().attempt)


@app.task
async def quick(n: int = 0, pause: float = 0.0) -> int:
    note("start")
    await asyncio.sleep(pause)
    note("end")
    return n


@app.task
def threaded(n: int = 0, pause: float = 0.0) -> int:
    note("start")
    time.sleep(pause)
    note("end")
    return n


@app.task(runs_in="process")
def in_child(n: int = 0, pause: float = 0.0) -> int:
    note("start")
    time.sleep(pause)
    note("end")
    return n


@app.task(runs_in="process")
async def in_child_async(n: int = 0, pause: float = 0.0) -> list[Any]:
    job = current()
    job.progress(50, "half", n=n)
    job.log("from the child")
    await asyncio.sleep(pause)
    return [n, os.getpid(), job.id, job.attempt, job.headers, job.correlation_id]


@app.task(runs_in="process")
async def soft_in_child_async() -> str:
    try:
        await asyncio.sleep(60)
    except SoftTimeout:
        return "cleaned up"
    return "slept"


@app.task(runs_in="process")
def soft_in_child() -> str:
    try:
        time.sleep(60)
    except SoftTimeout:
        return "cleaned up"
    return "slept"


@app.task(runs_in="process")
def child_facts() -> list[Any]:
    job = current()
    job.progress(50, "half")
    job.log("from the child", "warning")
    log.warning("logged in a child")
    return [os.getpid(), job.id, job.attempt, job.headers, job.correlation_id]


@app.task(runs_in="process")
def until_cancelled(path: str) -> str:
    Ledger(path).write("start")
    while not current().cancelled:
        time.sleep(0.005)
    return "saw it"


@app.task(runs_in="process")
def until_stopping(path: str) -> str:
    Ledger(path).write("start")
    while not current().stopping:
        time.sleep(0.005)
    return "finished early"


@app.task(runs_in="process")
def deaf_child(path: str) -> None:
    Ledger(path).write("start", current().id, current().attempt)
    time.sleep(60)


@app.task(runs_in="process")
def child_retries() -> int:
    if current().attempt < 3:
        raise Retry(delay=0.01)
    return current().attempt


@app.task(runs_in="process")
def child_fails() -> None:
    raise ValueError("no such address\nand more")


@app.task(runs_in="process")
def child_dies() -> None:
    note("start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def kills_its_worker() -> None:
    note("start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(on_crash="fail")
async def once_only() -> None:
    note("start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
async def blocks_the_loop(seconds: float) -> str:
    note("start")
    time.sleep(seconds)  # noqa: ASYNC251 - on purpose
    note("end")
    return "done"


@app.task
def leaves_a_thread(seconds: float) -> None:
    threading.Thread(target=time.sleep, args=(seconds,), name="left-behind", daemon=False).start()
    note("start")


@app.task
async def leaves_an_executor_busy(seconds: float) -> None:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds)
    note("start")


@app.task
async def never_stops() -> None:
    note("start")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("stopped")


@app.task(timeout=0.2)
def stuck_thread(seconds: float) -> None:
    note("start")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            time.sleep(0.05)
        except SoftTimeout:
            continue
    note("end")


@app.task
async def swallows_the_stop() -> str:
    note("start")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note("stopped")
        raise
    return "slept"


@app.task(queue="second")
async def elsewhere(n: int) -> int:
    return n


@app.task(batch=3, batch_wait="300ms")
async def index_slowly(docs: list[int]) -> list[int]:
    for job in current().batch:
        ledger.write("start", job)
    await asyncio.sleep(float(os.environ.get("E2E_PAUSE", "60")))
    for job in current().batch:
        ledger.write("end", job)
    return docs


@app.task(runs_in="process")
def pay_in_child(order: int) -> Any:
    with once() as block:
        if not block.done:
            note("charged")
            block.result = 2 * order
    if current().attempt == 1:
        raise ConnectionError("after the charge")
    return block.result


@app.task(runs_in="process")
async def pay_in_child_async(order: int) -> Any:
    async with once() as block:
        if not block.done:
            note("charged")
            block.result = 2 * order
    if current().attempt == 1:
        raise ConnectionError("after the charge")
    return block.result


class Down(Exception):
    """What a breaker counts."""


app.breaker("stripe", errors=2, trip_on=Down, open_for="1h")


@app.task(runs_in="process", breaker="stripe")
def fails_in_child(kind: str) -> None:
    raise Down if kind == "down" else ValueError(kind)


@app.task(breaker="probed")
async def probes(n: int) -> int:
    note("start")
    await asyncio.sleep(float(os.environ.get("E2E_PAUSE", "60")))
    return n


def double(n: int) -> int:
    return 2 * n


def sleep_and_tell(path: str) -> None:
    Ledger(path).write("start")
    time.sleep(60)
