"""The pages: each asks the console and renders its answer. Pages decide, keep and change nothing: actions go to the
JSON API.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from windlass.console.console import Console
from windlass.console.replies import JobList, QueueRow
from windlass.core.access import Access
from windlass.core.chart import OTHER
from windlass.core.filters import COMPARED, NAMES, Filter, parse_filter
from windlass.errors import ConfigError
from windlass.web import svg
from windlass.web.api import TABLE
from windlass.web.filter_bar import chips, picked, with_term
from windlass.web.site import render
from windlass.web.sorting import Sort
from windlass.web.template_filters import FILTERS, a_minute, now_ms, part

SPANS = ("15m", "1h", "4h", "24h", "7d")
TARGET = "module:app"
"""Stands for the app in commands that empty pages teach."""

MOST_NAMES = 500
"""Names in a list to pick from."""

MOST_OPEN = 20
"""Groups of a workflow that one page unfolds."""

TALLIED = ("ready", "running", "scheduled", "waiting", "succeeded", "failed", "cancelled", "skipped")


class Bulk(msgspec.Struct, frozen=True):
    """An action on many jobs. ``dialog``: the dialog that asks for its parameters."""

    name: str
    text: str
    right: str
    dialog: str = ""
    danger: bool = False


BULK = (
    Bulk("retry", "Retry", "retry"),
    Bulk("promote", "Run now", "promote"),
    Bulk("reprioritise", "Priority", "promote", "ask-reprioritise"),
    Bulk("reschedule", "Reschedule", "promote", "ask-reschedule"),
    Bulk("move", "Move", "move", "ask-move"),
    Bulk("cancel", "Cancel", "cancel", danger=True),
    Bulk("delete", "Delete", "delete", danger=True),
)


def console_of(request: Request) -> Console:
    console: Console = request.state.console
    return console


async def page(request: Request, name: str, **context: Any) -> Response:
    """Render a page, with the counts beside the navigation that every page shows."""
    console = console_of(request)
    rows = await console.queues()
    heard = [warn for warn in await console.warnings() if not warn.muted_until]
    tallies = {"failed": tally(rows, "failed"), "warnings": len(heard)}
    names = [row.name for row in rows][:MOST_NAMES]
    return await render(request, name, tallies=tallies, **{"queues": names, "target": TARGET, **context})


def tally(rows: list[QueueRow], state: str) -> int:
    return sum(row.counts.get(state, 0) for row in rows)


async def task_names(console: Console) -> list[str]:
    return [row.name for row in await console.tasks()][:MOST_NAMES]


async def overview(request: Request) -> Response:
    span = request.query_params.get("span", "1h")
    span = span if span in SPANS else "1h"
    view = await console_of(request).overview(span)
    return await page(request, "overview.html", view=view, span=span, spans=SPANS, rate=a_minute(view.chart))


# -- jobs


async def job_list(request: Request) -> Response:
    asked, console = request.query_params, console_of(request)
    text = asked.get("filter", "").strip()
    changed = text
    for name in ("queue", "task"):
        if name in asked and asked[name] != asked.get(f"was_{name}", ""):
            changed = with_term(changed, name, asked[name])
    if changed != text or asked.keys() & {"queue", "task"}:
        query = f"?{urlencode({'filter': changed})}" if changed else ""
        return RedirectResponse(f"{request.scope.get('root_path', '')}/jobs{query}", 303)
    wrong, place, filter, found = "", "", Filter(), JobList(jobs=[])
    try:
        filter = parse_filter(text, now_ms())
        found = await console.jobs(text, asked.get("after", ""))
    except ConfigError as error:
        wrong, place = str(error), getattr(error, "shown", "")
    rows = await console.queues()
    response = await page(
        request, "jobs.html", filter=text, after=asked.get("after", ""), found=found, wrong=wrong, place=place,
        chips=chips(text, filter, rows), picked=picked(filter), tasks=await task_names(console),
        views=await console.views(), names=[f"{name}:" for name in NAMES], compared=COMPARED,
        actions=bulk_actions(console.access), total=sum(tally(rows, state) for state in TALLIED),
    )  # fmt: skip
    response.status_code = 422 if wrong else 200
    return response


def bulk_actions(access: Access) -> list[Bulk]:
    return [action for action in BULK if access.may(action.right)]


async def one_job(request: Request) -> Response:
    view = await console_of(request).job(request.path_params["id"])
    row = view.row
    drawn = svg.timeline(view.attempts, row.enqueued_at, row.finished_at or now_ms())
    return await page(request, "job.html", view=view, drawn=drawn)


# -- queues, workers, schedules


async def queue_list(request: Request) -> Response:
    return await page(request, "queues.html", rows=await console_of(request).queues())


async def one_queue(request: Request) -> Response:
    console, name = console_of(request), request.path_params["name"]
    row = await console.queue(name)
    newest = await console.jobs(with_term("", "queue", name), limit=10)
    return await page(request, "queue.html", row=row, points=await console.chart("1h", queue=name), newest=newest)


async def worker_list(request: Request) -> Response:
    return await page(request, "workers.html", rows=await console_of(request).workers())


async def schedule_list(request: Request) -> Response:
    return await page(request, "schedules.html", rows=await console_of(request).schedules())


# -- workflows and dead letters


async def workflow_list(request: Request) -> Response:
    state, after = request.query_params.get("state", ""), request.query_params.get("after", "")
    found = await console_of(request).workflows(state, after)
    return await page(request, "workflows.html", found=found, picked=state, after=after)


async def one_workflow(request: Request) -> Response:
    shown = WorkflowView.read(request.query_params)
    view = await console_of(request).workflow(request.path_params["id"], shown.open)
    here = f"{request.scope.get('root_path', '')}/workflows/{part(view.row.id)}"
    return await page(request, "workflow.html", view=view, shown=shown, here=here)


class WorkflowView(msgspec.Struct, frozen=True):
    """How a workflow is shown, as the page's address says: over ``time`` or as a graph, with some groups unfolded."""

    time: bool
    open: tuple[str, ...]

    @classmethod
    def read(cls, asked: QueryParams) -> WorkflowView:
        return cls(asked.get("view") == "time", tuple(dict.fromkeys(asked.getlist("open")))[:MOST_OPEN])

    def over_time(self, time: bool) -> str:
        return WorkflowView(time, self.open).query()

    def turned(self, key: str) -> str:
        """The same view with one group folded if it was unfolded, and the reverse."""
        rest = tuple(name for name in self.open if name != key)
        return WorkflowView(self.time, rest if key in self.open else (*rest, key)).query()

    def query(self) -> str:
        asked = [("view", "time")] if self.time else []
        return f"?{urlencode([*asked, *(('open', key) for key in self.open)])}"


async def dead_letters(request: Request) -> Response:
    console = console_of(request)
    chosen = {name: request.query_params.get(name, "") for name in ("queue", "task")}
    found = await console.faults(**chosen)
    return await page(request, "dead.html", found=found, picked=chosen, tasks=await task_names(console))


# -- limits, tasks, audit, API


async def limit_list(request: Request) -> Response:
    console = console_of(request)
    return await page(request, "limits.html", rows=await gates(console), breakers=await console.breakers())


async def gates(console: Console) -> list[Any]:
    """The gates without breakers, which are listed by themselves."""
    return [row for row in await console.limits() if row.kind != "breaker"]


async def task_list(request: Request) -> Response:
    asked = request.query_params
    span = asked.get("span", "1h") if asked.get("span") in SPANS else "1h"
    sort = Sort.read(asked.get("sort", ""))
    rows = await console_of(request).tasks(span)
    return await page(request, "tasks.html", rows=sort.put(rows), sort=sort, span=span, spans=SPANS, other=OTHER)


async def one_task(request: Request) -> Response:
    console, name = console_of(request), request.path_params["name"]
    row = await console.task(name)
    limits = next((one for one in await console.limits() if (one.kind, one.name) == ("task", name)), None)
    newest = await console.jobs(with_term("", "task", name), limit=10)
    points = await console.chart("1h", task=name)
    return await page(request, "task.html", row=row, points=points, newest=newest, limits=limits)


async def audit_log(request: Request) -> Response:
    after = request.query_params.get("after", "")
    return await page(request, "audit.html", found=await console_of(request).audit(after), after=after)


async def api_page(request: Request) -> Response:
    operations = [
        {
            "tag": one.path.strip("/").partition("/")[0], "method": one.method.lower(), "path": f"/api{one.path}",
            "text": one.says.partition("\n\n")[0].replace("\n", " ").replace("``", ""), "right": one.right,
        }
        for one in TABLE
    ]  # fmt: skip
    return await page(request, "api.html", operations=operations)


# Ids and names may have slashes in them, so they are the last part of a path.
ROUTES = [
    Route("/", overview),
    Route("/jobs", job_list),
    Route("/jobs/{id:path}", one_job),
    Route("/queues", queue_list),
    Route("/queues/{name:path}", one_queue),
    Route("/workers", worker_list),
    Route("/schedules", schedule_list),
    Route("/workflows", workflow_list),
    Route("/workflows/{id:path}", one_workflow),
    Route("/dead", dead_letters),
    Route("/limits", limit_list),
    Route("/tasks", task_list),
    Route("/tasks/{name:path}", one_task),
    Route("/audit", audit_log),
    Route("/api", api_page),
]

__all__ = ["FILTERS", "ROUTES"]
