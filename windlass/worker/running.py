"""How a worker runs: inside a program, or as a process of its own that signals stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from windlass.support.portal import new_event_loop
from windlass.worker.process_end import Ending, end_process
from windlass.worker.service import SETTLE_SECONDS, Companion, Report, Worker, log

if TYPE_CHECKING:
    from windlass.app import Windlass


@asynccontextmanager
async def embedded(app: Windlass, options: Mapping[str, Any]) -> AsyncIterator[Worker]:
    """A worker inside a program, which handles its signals itself."""
    worker = Worker(app, options)
    await worker.start()
    stopping = asyncio.create_task(_stop_when_asked(worker))
    try:
        yield worker
    finally:
        worker.stop_requested.set()
        await stopping


async def _stop_when_asked(worker: Worker) -> None:
    """Wait until the program is done with the worker or the worker stops itself: a broken one must not keep
    its jobs.
    """
    await worker.stop_requested.wait()
    await worker.stop()


def run_worker(
    app: Windlass, options: Mapping[str, Any], *, report: Report | None = None, companion: Companion | None = None,
    last: Callable[[int], object] = end_process,
) -> int:  # fmt: skip
    """Be this process's worker: block until told to stop, and answer the exit code.

    The process is to end then: ``last`` is called with the code if a task has left a thread that would keep the
    process.
    """
    # The database thread must not wait long for the interpreter while user code is busy.
    sys.setswitchinterval(0.001)
    # Imported objects stay, and batches of jobs are no garbage: collecting through both cost a seventh of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        code = runner.run(_run_until_stopped(app, options, report, companion))
        Ending(last, runner.get_loop()).begin(code)
    return code


async def _run_until_stopped(
    app: Windlass, options: Mapping[str, Any], report: Report | None, companion: Companion | None
) -> int:
    worker = Worker(app, options, report, companion)
    second = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        (second if worker.stop_requested.is_set() else worker.stop_requested).set()

    # Before the worker starts: a signal during the start must not leave half a worker behind.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await worker.start()
    await worker.stop_requested.wait()
    stopping = asyncio.create_task(worker.stop())
    hurry = asyncio.create_task(second.wait())
    await asyncio.wait([stopping, hurry], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        log.warning("second signal: stopping at once")
        worker.executor.hand_back_running()
        worker.pump.nudge()
        await asyncio.wait([stopping], timeout=SETTLE_SECONDS)
        return 1
    hurry.cancel()
    stopping.result()
    await app.close()
    return worker.exit_code
