"""A worker's own metrics: its tracker's counts and histograms, its state, and what the user's code measures.

None of this runs per job: about once a second a snapshot is made of what the worker counts anyway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry

from windlass.observe.families import Family, add_up, read_registry
from windlass.observe.names import ERRORS, LOST
from windlass.observe.snapshots import Gathered, Snapshot, describe, encode
from windlass.worker.memory import resident_bytes
from windlass.worker.process_metrics import Measures
from windlass.worker.service import Worker

log = logging.getLogger("windlass.metrics")

EVERY = 1.0
"""Seconds between two snapshots; longer where taking one is slow."""
SHARE = 20
"""Taking snapshots takes the one part in so many of the time, at most."""
IN_CHILD = "windlass.observe.child:measure"


def measure(worker: Worker) -> Snapshot:
    """The worker's own numbers. Call it on the worker's loop."""
    executor = worker.executor
    gauges: dict[str, float] = {
        "windlass_worker_processes": 1,
        "windlass_worker_slots": executor.concurrency,
        "windlass_worker_running": executor.active,
        "windlass_worker_held": len(executor.held),
        "windlass_worker_stuck_threads": executor.stuck,
        "windlass_worker_loop_lag_seconds": worker.lag,
        "windlass_worker_memory_bytes": resident_bytes(),
    }
    counts: dict[str, float] = {LOST: executor.tracker.lost, ERRORS: worker.pump.store_errors}
    return Snapshot(executor.tracker.whole(), counts, gauges)


def worker_metrics(worker: Worker, registry: CollectorRegistry | None = REGISTRY) -> bytes:
    """An embedded worker's numbers in Prometheus's text format. Call it on the worker's loop.

    ``registry``: a registry whose metrics are added; None if the program already serves its own.
    """
    families = read_registry(registry) if registry is not None else []
    return describe(msgspec.structs.replace(measure(worker), families=families))


class Meter:
    """Lives with a worker and sends its snapshot to ``tell``, about once a second and once more at its end."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        self._tell = tell
        self._children = Gathered()
        self.measures = Measures(IN_CHILD, self._children)
        self._families: list[Family] = []
        self._failing = False
        # In a thread of its own: collectors are user code and may be slow.
        self._thread = ThreadPoolExecutor(1, "windlass-metrics")

    async def start(self, worker: Worker) -> None:
        self._worker = worker
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(EVERY):
                await self._tell_once()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            spent = await self._tell_once()
            await asyncio.sleep(max(EVERY, spent * SHARE))

    async def _tell_once(self) -> float:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        families = await loop.run_in_executor(self._thread, self._collect)
        spent = time.monotonic() - began
        own = measure(self._worker)
        self._tell(encode(msgspec.structs.replace(own, families=families)))
        return spent

    def _collect(self) -> list[Family]:
        """What the user's code measures, here and in children. If that fails, the last measurement is kept."""
        try:
            self._families = read_registry(REGISTRY)
            self._failing = False
        except Exception:
            if not self._failing:
                log.exception("a collector of the app's metrics fails; its last numbers are told")
            self._failing = True
        return add_up([self._families, self._children.total().families])
