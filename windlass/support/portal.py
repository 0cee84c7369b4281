"""One background thread with an event loop per process, through which sync callers use the async client.

There are no sync twins anywhere: ``call`` runs a coroutine there and waits. After ``fork`` the child abandons the
parent's loop and makes its own; it must not touch what the parent still uses.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from windlass.errors import WindlassError

T = TypeVar("T")

DRAIN_SECONDS = 5.0


class Portal:
    """The thread starts with the first call and ends with the process."""

    _lock: threading.Lock
    _loop: asyncio.AbstractEventLoop | None
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self.forget()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``make()`` on the portal's loop and wait for it. KeyboardInterrupt cancels it."""
        future = self.submit(make)
        self._pending.discard(future)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            raise WindlassError("a sync call from inside Windlass's own loop would wait for itself; use the async form")
        future = asyncio.run_coroutine_threadsafe(make(), loop)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """At the end of the process: let what nobody waits for (``task.send``) reach the store."""
        if self._loop is not None and self._pending:
            concurrent.futures.wait(list(self._pending), seconds)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-portal", daemon=True)
                self._thread.start()
            return self._loop

    def owns(self, loop: asyncio.AbstractEventLoop) -> bool:
        return loop is self._loop

    def forget(self) -> None:
        """Start anew. After fork, in the child: the thread is gone and the parent's loop must not be closed."""
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._pending: set[concurrent.futures.Future[Any]] = set()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where the platform has it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


portal = Portal()

# Before the interpreter stops its executors, which is earlier than ``atexit``: opening a store may need one. The last
# to register is the first to be called, so theirs must be there already: hence the import of that very module above.
getattr(threading, "_register_atexit", atexit.register)(portal.drain)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=portal.forget)
