"""Jobs as they are read: lists, and one job in full."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.console import job_rows, show
from windlass.console.desk import Desk, now_ms, page_size
from windlass.console.replies import JobDetail, JobList, LogRow
from windlass.console.search import plan_search, search
from windlass.core.access import Access
from windlass.core.job import Job, LogLine, State
from windlass.core.trace import trace_id
from windlass.errors import JobLost
from windlass.handles.handle import job_info
from windlass.handles.why import Reason, explain, read_facts
from windlass.operate.admin import JobPage
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Action
from windlass.store.shared import ALLOWED

LOGS = 200
RELATIVES = 20
JOINS = 50
"""Records that are looked at to find what a job of a workflow comes after and before."""

RIGHTS = {
    "retry": "retry",
    "edit": "edit",
    "cancel": "cancel",
    "delete": "delete",
    "promote": "promote",
    "reprioritise": "promote",
    "reschedule": "promote",
    "move": "move",
}
"""Actions on jobs and the right each needs."""


async def job_list(desk: Desk, filter: str, after: str, limit: int) -> JobList:
    plan = plan_search(desk, filter)
    found = await search(desk, plan, after, page_size(limit))
    return JobList(
        jobs=[job_rows.job_row(desk.access, job) for job in found.jobs], cursor=found.cursor, partial=found.partial,
        looked=found.looked, indexed=plan.indexed,
    )  # fmt: skip


async def record_page(desk: Desk, filter: str, after: str, limit: int) -> JobPage:
    """A page of jobs in the form handles show them; nothing is redacted."""
    desk.need("values")
    found = await search(desk, plan_search(desk, filter), after, page_size(limit, MAX_BATCH))
    return JobPage([job_info(job) for job in found.jobs], found.cursor, found.partial)


async def one_job(desk: Desk, id: str) -> Job:
    """The record of a job that the user may see. A job they may not see looks like one that does not exist."""
    desk.need("read")
    (job,) = await (await desk.store()).get([id])
    if job is None or not job.task or not desk.access.sees(job.queue):
        raise JobLost(f"there is no job {id!r}: it was never accepted, was deleted, or its retention has passed")
    return job


async def job_detail(desk: Desk, id: str, whole: bool) -> JobDetail:
    job, store, access = await one_job(desk, id), await desk.store(), desk.access
    meta, progress = job_rows.meta_of(job), job_rows.progress_of(job)
    why = explain(await read_facts(store, id, now_ms())).reasons
    parents, children = await relatives(desk, store, job)
    headers = {
        show.one_line(name): show.one_line(str(text), 1_000) for name, text in access.clean(meta.headers).items()
    }
    return JobDetail(
        row=job_rows.job_row(access, job), args=show.value(access, job.payload, whole),
        result=show.value(access, job.result, whole), error=job_rows.error_value(access, job_rows.error_of(job)),
        attempts=job_rows.attempts_of(access, job), why=[plain_reason(desk, reason) for reason in why],
        headers=headers if desk.values else {}, logs=await log_rows(desk, store, id, -1, LOGS),
        progress_text=show.one_line(progress.message, 1_000) if progress and desk.values else "", run=job.run,
        crashes=job.crashes, snoozes=job.snoozes, version=job.version, cancel_requested=job.cancel_requested,
        source=show.one_line(meta.source), correlation_id=show.one_line(meta.correlation_id),
        schedule=show.one_line(job_rows.schedule_of(job)),
        unique_key=job.terms.unique if job.terms is not None and desk.values else "", expires_at=job.expires_at,
        trace_id=trace_id(meta.headers.get("traceparent", "")), parents=parents, children=children,
        actions=actions_of(access, job),
    )  # fmt: skip


def plain_reason(desk: Desk, reason: Reason) -> Reason:
    """The reason of a job, without its key if the user may not see values."""
    if desk.values or reason.code not in ("key_limited", "lane_gap", "lane_held"):
        return reason
    return msgspec.structs.replace(reason, text="it waits for its turn among the jobs of its key", by="")


def actions_of(access: Access, job: Job) -> tuple[str, ...]:
    """The actions this user may take on a job in its state."""
    found = [
        action.value for action in Action if job.state in ALLOWED[action] and access.may(RIGHTS[action], job.queue)
    ]
    if "edit" in found and not access.may("values"):
        found.remove("edit")
    if job.cancel_requested and job.state is State.RUNNING and "cancel" in found:
        found.remove("cancel")
    return tuple(found)


# -- logs


async def job_logs(desk: Desk, id: str, after: int, limit: int) -> list[LogRow]:
    await one_job(desk, id)
    desk.need("values")
    return await log_rows(desk, await desk.store(), id, after, page_size(limit, MAX_BATCH))


async def log_rows(desk: Desk, store: Store, id: str, after: int, limit: int) -> list[LogRow]:
    return [_log_row(line) for line in await store.lines(id, after, limit)] if desk.values else []


def _log_row(line: LogLine) -> LogRow:
    return LogRow(line.n, line.at, line.level, show.safe(line.text[: show.MOST_TEXT]))


# -- neighbours in a workflow


async def relatives(desk: Desk, store: Store, job: Job) -> tuple[list[str], list[str]]:
    """The jobs directly before and after a job, across joins. A workflow the job started comes after it too."""
    if job.links is None:
        return [], [job.awaits] if job.awaits else []
    before = await _through(desk, store, [edge.source for edge in job.links.ins], back=True)
    behind = await _through(desk, store, [edge.target for edge in job.links.outs], back=False)
    return before, [*([job.awaits] if job.awaits else []), *behind]


async def _through(desk: Desk, store: Store, ids: Iterable[str], back: bool) -> list[str]:
    wanted, seen, found = list(ids), set[str](), list[str]()
    while wanted and len(seen) < JOINS and len(found) < RELATIVES:
        page = [id for id in dict.fromkeys(wanted) if id not in seen][: JOINS - len(seen)]
        seen.update(page)
        wanted = []
        for one in await store.get(page) if page else []:
            if one is None:
                continue
            if one.task:
                found += [one.id] if desk.access.sees(one.queue) else []
            elif one.links is not None:
                wanted += [edge.source for edge in one.links.ins] if back else [edge.target for edge in one.links.outs]
    return found[:RELATIVES]
