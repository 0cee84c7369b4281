"""The reads of the JSON API: each asks the console and returns its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from windlass.console.console import Console
from windlass.console.replies import (
    AuditList,
    Chart,
    Count,
    FaultList,
    JobDetail,
    JobList,
    LogRow,
    Overview,
    QueueRow,
    ScheduleRow,
    TaskRow,
    View,
    Warn,
    WorkerRow,
)
from windlass.console.workflow_replies import WorkflowDetail, WorkflowList
from windlass.core.filter_suggest import Suggestion
from windlass.core.job import Job
from windlass.handles.gates import LimitInfo
from windlass.limits.breakers import BreakerInfo
from windlass.store.reads import StoreInfo
from windlass.web import request_structs as ask
from windlass.web.jobfeed import JobState, job_stream, state_of
from windlass.web.live import EventsQuery, events
from windlass.web.operation import LINES
from windlass.web.site import site_of
from windlass.web.streams import EventStream


async def me(console: Console) -> ask.Me:
    """Who the server takes you for, and what you may do."""
    access = console.access
    return ask.Me(user=access.user, rights=sorted(access.rights), queues=list(access.queues))


async def overview(console: Console, asked: ask.OverviewQuery) -> Overview:
    """The numbers of the first page."""
    return await console.overview(asked.span)


async def chart(console: Console, asked: ask.ChartQuery) -> Chart:
    """What became of jobs over a span of time, and how long they waited and ran."""
    return await console.chart(asked.span, asked.queue, asked.task)


async def list_jobs(console: Console, asked: ask.JobsQuery) -> JobList:
    """Jobs that a filter finds, the newest first."""
    return await console.jobs(asked.filter, asked.after, asked.limit)


async def get_job(console: Console, asked: ask.JobQuery, id: str) -> JobDetail:
    """One job."""
    return await console.job(id, asked.whole)


async def job_logs(console: Console, asked: ask.LogsQuery, id: str) -> list[LogRow]:
    """A job's log lines."""
    return await console.logs(id, asked.after, asked.limit)


async def follow_job(console: Console, request: Request, id: str) -> Response:
    """One job's events: ``state``, ``log``, ``end``. Resumes by Last-Event-ID."""
    await console.job(id)  # raises if the user may not see the job
    access, feeds = console.access, site_of(request).feeds
    values = "values" in access.rights

    def show(job: Job) -> JobState | None:
        if not access.sees(job.queue):
            return None
        state = state_of(job, ("progress",))
        return state.redacted(access) if values else state.bare()

    once = not site_of(request).streams
    return job_stream(request, feeds.watches.here(), feeds.gauge, id, show, values, once)


async def list_queues(console: Console) -> list[QueueRow]:
    """Every queue."""
    return await console.queues()


async def get_queue(console: Console, name: str) -> QueueRow:
    """One queue."""
    return await console.queue(name)


async def list_workers(console: Console) -> list[WorkerRow]:
    """Every worker with the jobs it runs."""
    return await console.workers()


async def get_worker(console: Console, id: str) -> WorkerRow:
    """One worker."""
    return await console.worker(id)


async def list_schedules(console: Console) -> list[ScheduleRow]:
    """Every schedule."""
    return await console.schedules()


async def get_schedule(console: Console, name: str) -> ScheduleRow:
    """One schedule."""
    return await console.schedule(name)


async def list_workflows(console: Console, asked: ask.WorkflowsQuery) -> WorkflowList:
    """Workflows, the newest first."""
    return await console.workflows(asked.state, asked.after, asked.limit)


async def get_workflow(console: Console, id: str) -> WorkflowDetail:
    """One workflow with its picture."""
    return await console.workflow(id)


async def list_faults(console: Console, asked: ask.FaultsQuery) -> FaultList:
    """Dead letters by fault, the most frequent first."""
    return await console.faults(asked.queue, asked.task)


async def list_limits(console: Console) -> list[LimitInfo]:
    """Every gate that says something."""
    return await console.limits()


async def list_breakers(console: Console) -> list[BreakerInfo]:
    """Every circuit breaker."""
    return await console.breakers()


async def list_tasks(console: Console, asked: ask.TasksQuery) -> list[TaskRow]:
    """Every task that this app or a live worker declares, with how often it runs and fails, and how long it takes."""
    return await console.tasks(asked.span)


async def get_task(console: Console, name: str) -> TaskRow:
    """One task with the fields of its form."""
    return await console.task(name)


async def task_schema(console: Console, name: str) -> dict[str, Any]:
    """JSON Schema of one task, for every version."""
    return await console.schema(name)


async def list_audit(console: Console, asked: ask.AuditQuery) -> AuditList:
    """Who did what, the newest first."""
    return await console.audit(asked.after, asked.limit)


async def list_views(console: Console) -> list[View]:
    """Saved filters."""
    return await console.views()


async def list_warnings(console: Console) -> list[Warn]:
    """What an operator should look at."""
    return await console.warnings()


async def store_info(console: Console) -> StoreInfo:
    """The store."""
    return await console.info()


async def count_jobs(console: Console, asked: ask.FilterQuery) -> Count:
    """How many jobs a filter finds: look here before acting on it."""
    return await console.count(asked.filter)


async def suggest_filter(console: Console, asked: ask.SuggestQuery) -> list[Suggestion]:
    """Suggestions for a filter that is being written: each is the whole filter, and the new part of it."""
    return await console.suggest(asked.filter, asked.at)


async def export_jobs(console: Console, request: Request, asked: ask.ExportQuery) -> Response:
    """The jobs that a filter finds, as lines of JSON, to be kept as a file."""
    headers = {"content-disposition": 'attachment; filename="jobs.jsonl"'}
    lines = console.export(asked.filter, 1 if request.method == "HEAD" else asked.limit)
    # Read the first line now: an error of the filter or the store is then an answer, not the end of a started one.
    first = await anext(lines, b"")
    return StreamingResponse(begun(first, lines), headers=headers, media_type=LINES)


async def begun(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same lines, of which the first has been read already."""
    yield first
    async for line in rest:
        yield line


async def follow_events(console: Console, request: Request, asked: EventsQuery) -> Response:
    """What happens, as it happens. ``kind``: one or some, with commas. Resumes by Last-Event-ID."""
    site = site_of(request)
    last = request.headers.get("last-event-id", "")
    source = events(console.app, console.access, site.feeds.pulses.here(), asked, last, not site.streams)
    return EventStream(source, site.feeds.gauge)
