"""The end of a worker's process, which no code of a task may delay.

Python waits at its end for every thread that is not a daemon and for the threads of the loop's executor, and the loop
waits for coroutines that ignore their cancellation. The worker has had its grace by then: the log names what is left,
and the process ends all the same. Not for a program that goes on after its worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable

log = logging.getLogger("windlass.worker")

LINGER_SECONDS = 2.0
"""What an orderly end may take: exit handlers, idle threads that are told to go, last reports to a supervisor."""


class Ending:
    """Armed with an exit code once a worker has stopped; ``last`` ends the process if nothing else does."""

    def __init__(self, last: Callable[[int], object], loop: asyncio.AbstractEventLoop) -> None:
        self._last, self._loop = last, loop

    def begin(self, code: int) -> None:
        """Give the process a bounded time to end by itself."""
        timer = threading.Timer(LINGER_SECONDS, self._see_to_it, (code,))
        timer.name, timer.daemon = "windlass-ending", True
        timer.start()

    def _see_to_it(self, code: int) -> None:
        left = threads_left() + self._coroutines_left()
        if not left:
            return  # Python runs its exit handlers, which must not be cut short
        log.warning("the worker has stopped; its process ends without waiting for %s", ", ".join(left))
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        self._last(code)

    def _coroutines_left(self) -> list[str]:
        """The coroutines the loop would wait for: it closes once all have taken their cancellation."""
        if self._loop.is_closed():
            return []
        return [f"coroutine {getattr(task.get_coro(), '__qualname__', '?')}" for task in asyncio.all_tasks(self._loop)]


def threads_left() -> list[str]:
    """The threads that Python would wait for."""
    return [f"thread {thread.name}" for thread in threading.enumerate() if not thread.daemon and thread is not _main]


_main = threading.main_thread()


def end_process(code: int) -> object:
    os._exit(code)
