"""Progress and log lines on their way to the store: gathered per job, sent at intervals and before every settle."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any

from windlass.core.job import Claim
from windlass.errors import StoreUnavailable
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Note
from windlass.support.logs import Steady

log = Steady(logging.getLogger("windlass.worker"))

INTERVAL = 0.1
MAX_LINES = 1_000

InProcess = Callable[[Claim, Callable[..., Any], tuple[Any, ...]], Coroutine[Any, Any, Any]]


def wait_in_thread(future: Future[Any]) -> Any:
    """Wait for the future in short steps, because a soft timeout or a cancel reaches a thread only between them."""
    try:
        while not wait([future], INTERVAL).done:
            pass
        return future.result()
    except BaseException:
        future.cancel()
        raise


class NoteBuffer:
    """Jobs write into it from the loop and from threads; it sends from the loop."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, in_process: InProcess) -> None:
        self._store, self._loop, self._in_process = store, loop, in_process
        self._lock = threading.Lock()
        self.pending: dict[str, Note] = {}
        self._sender: asyncio.Task[None] | None = None
        self.worker = ""
        self.stopping = False

    def progress(self, claim: Claim, data: bytes) -> None:
        with self._lock:
            self._note(claim).progress = data

    def log(self, claim: Claim, level: str, text: str) -> None:
        with self._lock:
            lines = self._note(claim).logs
            if len(lines) < MAX_LINES:
                lines.append((level, text))

    def in_process(self, claim: Claim, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The call's result: an awaitable for a coroutine, the value itself for a thread."""
        call, running = self._in_process(claim, fn, args), asyncio._get_running_loop()
        if running is self._loop:
            return call
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        return wait_in_thread(future) if running is None else asyncio.wrap_future(future)

    def _note(self, claim: Claim) -> Note:
        note = self.pending.get(claim.id)
        if note is None:
            note = self.pending[claim.id] = Note(claim.id, claim.fence, logs=[])
            if len(self.pending) == 1:
                self._loop.call_soon_threadsafe(self._start)
        return note

    def _start(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = self._loop.create_task(self._send_later())

    async def _send_later(self) -> None:
        while self.pending:
            await asyncio.sleep(INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Send what is there. Notes matter less than jobs: if the store fails, they are dropped and the log says so."""
        with self._lock:
            notes, self.pending = list(self.pending.values()), {}
        for start in range(0, len(notes), MAX_BATCH):
            batch = notes[start : start + MAX_BATCH]
            await self._send(batch)

    async def _send(self, batch: list[Note]) -> None:
        try:
            await self._store.note(self.worker, batch)
        except StoreUnavailable as error:
            log.warning("dropped progress and logs of %d jobs: %s", len(batch), error)
        except Exception as error:
            if len(batch) == 1:
                log.error("dropped progress and logs of job %s, which cannot be written: %r", batch[0].id, error)
            for note in batch if len(batch) > 1 else ():
                await self._send([note])  # one job's notes must not cost the others theirs

    def close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
