"""Tells the store which workers have died, in a thread of its own: a slow store must not hold up the supervisor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

# How long the supervisor's end waits for this. A death not told by then is found when the lease ends.
_LAST_WAIT = 5.0


class Obituaries:
    """Calls ``report_dead`` once for each dead worker, in order."""

    def __init__(self, report_dead: Callable[[str], None], log: logging.Logger) -> None:
        self._report_dead = report_dead
        self._log = log
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="windlass-obituaries", daemon=True)
        self._thread.start()

    def tell(self, worker_id: str) -> None:
        self._queue.put(worker_id)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(_LAST_WAIT)

    def _work(self) -> None:
        while (worker_id := self._queue.get()) is not None:
            try:
                self._report_dead(worker_id)
            except Exception:
                self._log.exception("the store could not be told that worker %s is dead; its lease will", worker_id)
