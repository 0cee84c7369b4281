"""Dead letters by fault: those with the same error through the same functions are one row."""

from __future__ import annotations

from windlass.console import job_rows, show
from windlass.console.desk import MOST_ROWS, Desk
from windlass.console.replies import FaultList, FaultRow
from windlass.console.search import LOOKED, plan_search, search
from windlass.console.store_state import store_state
from windlass.core.filters import quoted
from windlass.core.job import Job
from windlass.store.reads import Fault


async def fault_list(desk: Desk, queue: str, task: str) -> FaultList:
    """The most frequent faults first. If a condition leaves out some dead letters, only the newest ones are
    looked at.
    """
    desk.need("read")
    if desk.scoped or queue or task:
        return await _looked_at(desk, queue, task)

    async def read() -> list[Fault]:
        return await (await desk.store()).faults(MOST_ROWS)

    found = await desk.shared.ask("faults", read)
    samples = await (await desk.store()).get([fault.newest for fault in found]) if found else []
    total = sum(info.counts.get("failed", 0) for info in (await store_state(desk)).queues)
    made = [
        _row(desk, fault.fingerprint, fault.count, [job] if job is not None else [])
        for fault, job in zip(found, samples, strict=True)
    ]
    return FaultList(faults=made, total=total, looked=total)


async def _looked_at(desk: Desk, queue: str, task: str) -> FaultList:
    filter = "state:failed" + (f" queue:{quoted(queue)}" if queue else "") + (f" task:{quoted(task)}" if task else "")
    plan = plan_search(desk, filter)
    groups: dict[str, list[Job]] = {}
    looked, cursor = 0, ""
    while True:
        page = await search(desk, plan, cursor, min(LOOKED - looked, 1_000))
        for job in page.jobs:
            groups.setdefault(job.fingerprint, []).append(job)
        looked, cursor = looked + len(page.jobs), page.cursor
        if not cursor or page.partial or looked >= LOOKED:
            break
    made = [_row(desk, fingerprint, len(alike), alike) for fingerprint, alike in groups.items()]
    made.sort(key=lambda row: (-row.count, -row.last_at))
    return FaultList(faults=made[:MOST_ROWS], total=looked, partial=bool(cursor), looked=looked)


def _row(desk: Desk, fingerprint: str, count: int, jobs: list[Job]) -> FaultRow:
    """The row of one fault; ``jobs`` are those that were looked at, the newest first."""
    newest = jobs[0] if jobs else None
    error = job_rows.error_of(newest) if newest is not None else None
    reason = newest.reason if newest is not None else ""
    return FaultRow(
        fingerprint=fingerprint, count=count, error=show.one_line(error.type) if error else show.one_line(reason),
        message=show.one_line(error.message, 500) if error and desk.values else "",
        tasks=sorted({job.task for job in jobs}), queues=sorted({job.queue for job in jobs}),
        sample=newest.id if newest is not None else "", last_at=newest.finished_at if newest is not None else 0,
    )  # fmt: skip
