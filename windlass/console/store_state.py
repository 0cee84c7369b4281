"""The state of the store now: queues, workers, gates. Requests within one second share a read."""

from __future__ import annotations

from typing import NamedTuple

from windlass.console.desk import Desk, now_ms
from windlass.core.job import Job, State
from windlass.core.limits import Limits
from windlass.core.terms import queue_gate
from windlass.store.flow import GateInfo
from windlass.store.jobs import Query
from windlass.store.reads import QueueInfo, StoreInfo, WorkerInfo

RUNNING = 500
"""Running jobs that are listed with their workers."""


class StoreState(NamedTuple):
    """``at``: when it was read. ``gates`` are by name."""

    at: int
    queues: list[QueueInfo]
    workers: list[WorkerInfo]
    gates: dict[str, GateInfo]

    def limits(self, queue: str) -> Limits:
        gate = self.gates.get(queue_gate(queue))
        return gate.limits if gate is not None else Limits()

    def serving(self, queue: str) -> list[WorkerInfo]:
        """The live workers of a queue."""
        return [worker for worker in self.workers if worker.alive and queue in worker.presence.queues]


async def store_state(desk: Desk) -> StoreState:
    async def read() -> StoreState:
        store = await desk.store()
        gates = {gate.name: gate for gate in await store.gates()}
        return StoreState(now_ms(), await store.queues(), await store.workers(), gates)

    return await desk.shared.ask("snapshot", read)


async def running_jobs(desk: Desk) -> list[Job]:
    """The running jobs, the newest first; the number is bounded."""

    async def read() -> list[Job]:
        page = await (await desk.store()).find(Query(states=(State.RUNNING,), limit=RUNNING))
        return page.jobs

    return await desk.shared.ask("running", read)


async def store_info(desk: Desk) -> StoreInfo:
    async def read() -> StoreInfo:
        return await (await desk.store()).info()

    return await desk.shared.ask("info", read, 30)
