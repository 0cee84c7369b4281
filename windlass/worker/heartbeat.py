"""The heartbeat: a thread with its own loop and connection, so that user code cannot keep it from beating.

It presents the worker, reconciles the claims it holds with the store's view, sweeps when there is something to sweep,
and watches the worker's loop: a blocked loop is reported with the stack of the code that blocks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from windlass.errors import StoreError, StoreOutdated
from windlass.store.base import Store
from windlass.store.jobs import BeatReply, Presence, SweepReply
from windlass.support.failpoints import failpoint
from windlass.support.logs import Steady
from windlass.support.portal import new_event_loop

log = Steady(logging.getLogger("windlass.worker"))

EXIT_STALLED = 70
LAGS = 10
"""So many knocks are remembered: they come twice in the time after which a blocked loop is told of."""


class Watched:
    """What the heartbeat needs from its worker; every call is thread-safe."""

    def __init__(
        self,
        presence: Callable[[], Presence],
        acked: Callable[[], int],
        held: Callable[[], list[str]],
        on_beat: Callable[[str, BeatReply], None],
        on_silence: Callable[[], None],
        on_outdated: Callable[[], None],
        on_sweep: Callable[[SweepReply], None],
    ) -> None:
        self.presence, self.acked, self.held, self.on_beat, self.on_silence = presence, acked, held, on_beat, on_silence
        self.on_outdated, self.on_sweep = on_outdated, on_sweep


class Heartbeat:
    """Beats every ``beat`` ms, for a lease of ``lease`` ms; ``start`` returns once the first beat is answered."""

    def __init__(
        self, new_store: Callable[[], Store], watched: Watched, *, beat: int, lease: int, stall_warning: float,
        stall_limit: float,
    ) -> None:  # fmt: skip
        self._new_store, self._watched, self._beat, self._lease = new_store, watched, beat / 1000, lease / 1000
        self._stall_warning, self._stall_limit = stall_warning, stall_limit
        self._worker_loop = asyncio.get_running_loop()
        self._worker_thread = threading.get_ident()
        self._started: Future[None] = Future()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._main, name="windlass-heartbeat", daemon=True)
        self._again = asyncio.Event()
        self._stopping = False
        self._ticked = time.monotonic()
        self._answered = time.monotonic()
        self._lags: deque[float] = deque(maxlen=LAGS)
        self.repaired = 0
        self.gap = 0.0
        """Seconds between the last two answered beats."""

    @property
    def lag(self) -> float:
        """The longest time, in seconds, that the worker's loop recently took to answer."""
        unanswered = time.monotonic() - self._ticked - self._stall_warning / 2
        return max(0.0, unanswered, *self._lags)

    @property
    def silence(self) -> float:
        """Seconds since the store last answered a beat."""
        return time.monotonic() - self._answered

    async def start(self) -> None:
        self._thread.start()
        await asyncio.wrap_future(self._started)

    def poke(self) -> None:
        """Beat now."""
        self._loop.call_soon_threadsafe(self._again.set)

    async def stop(self) -> None:
        self._stopping = True
        self.poke()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    # -- in the thread

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        finally:
            self._loop.close()

    async def _live(self) -> None:
        store = self._new_store()
        try:
            await store.open()
            await self._beat_once(store)
        except BaseException as error:
            with contextlib.suppress(StoreError):  # the first error is the one to report
                await store.close()
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        watchdog = asyncio.create_task(self._watch_loop())
        try:
            await self._beat_on(store)
        finally:
            watchdog.cancel()
            await store.close()

    async def _beat_on(self, store: Store) -> None:
        wait = self._beat
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._again.wait()
            self._again.clear()
            if self._stopping:
                return
            wait = await self._beat_and_sweep(store)

    async def _beat_and_sweep(self, store: Store) -> float:
        """Seconds until the next beat or sweep is due."""
        try:
            async with asyncio.timeout(self._lease / 2):
                await self._beat_once(store)
                failpoint("before_sweep")
                reply = await store.sweep()
        except Exception as error:
            # Any error is survived: a heartbeat that ends would leave its worker running without a lease.
            silent = self.silence
            if isinstance(error, StoreOutdated):
                self._worker_loop.call_soon_threadsafe(self._watched.on_outdated)
            bug = not isinstance(error, (StoreError, TimeoutError))
            log.warning("no heartbeat for %.1f s: %s", silent, str(error) or type(error).__name__, exc_info=bug)
            if silent > max(self._lease - 2, self._lease * 0.6):
                # Other workers may take our jobs any moment now: stop them before they run twice.
                self._worker_loop.call_soon_threadsafe(self._watched.on_silence)
            return min(self._beat, 1.0)
        self._tell_of(reply)
        self._worker_loop.call_soon_threadsafe(self._watched.on_sweep, reply)
        if reply.more:
            return 0.0
        return self._beat if reply.next_check < 0 else min(self._beat, (reply.next_check + 1) / 1000)

    def _tell_of(self, reply: SweepReply) -> None:
        if reply.dead_workers:
            log.warning(
                "recovered %d jobs of dead workers %s (%d quarantined)",
                reply.recovered + reply.quarantined, ", ".join(reply.dead_workers), reply.quarantined,
            )  # fmt: skip
        if reply.repaired:
            self.repaired += len(reply.repaired)
            log.warning(
                "put workflows right that had neither a live job nor an end (a bug, or lost data): %s",
                ", ".join(reply.repaired),
            )

    async def _beat_once(self, store: Store) -> None:
        watched = self._watched
        # The order matters: a claim acknowledged before this moment is in the list that is read after it.
        presence, acked = watched.presence(), watched.acked()
        failpoint("before_beat")
        reply = await store.beat(presence, acked, watched.held())
        self.gap, self._answered = self.silence, time.monotonic()
        self._worker_loop.call_soon_threadsafe(watched.on_beat, presence.id, reply)

    # -- the worker's loop

    async def _watch_loop(self) -> None:
        """Ask the worker's loop to answer; if it does not, report what blocks it."""
        warned = False
        while True:
            asked = time.monotonic()
            self._worker_loop.call_soon_threadsafe(self._tick, asked)
            await asyncio.sleep(self._stall_warning / 2)
            stalled = time.monotonic() - self._ticked
            paused = time.monotonic() - asked > self._stall_warning  # the whole process was, with this thread
            if stalled < self._stall_warning or paused:
                warned = False
                continue
            if not warned:
                warned = True
                log.warning("the event loop has been blocked for %.1f s by:\n%s", stalled, self._stack())
            if self._stall_limit and stalled > self._stall_limit:
                log.critical("the event loop has been blocked for %.0f s, ending this process", stalled)
                logging.shutdown()
                os._exit(EXIT_STALLED)

    def _tick(self, asked: float) -> None:
        self._ticked = time.monotonic()
        self._lags.append(self._ticked - asked)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._worker_thread)
        return "".join(traceback.format_stack(frame)) if frame else "(no stack)"
