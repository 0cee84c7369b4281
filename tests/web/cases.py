"""Each operation of the API once: how it is asked, what rights it takes in all, and whose queue it is about."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.web.kit import World
from windlass.web.api import TABLE
from windlass.web.operation import Operation


class Case(NamedTuple):
    """``needs``: all rights it takes. ``queue``: whose it is, empty where it is nobody's."""

    operation: Operation
    path: str
    body: dict[str, Any] | None
    needs: frozenset[str]
    queue: str = "mail"
    label: str = ""

    @property
    def id(self) -> str:
        return f"{self.operation.name}{f'-{self.label}' if self.label else ''}"

    def url(self, world: World) -> str:
        return "/api" + self.path.replace("FLOW", world.flow).replace("BROKEN", world.broken)


BY_NAME = {operation.name: operation for operation in TABLE}


def case(
    name: str, path: str, body: dict[str, Any] | None = None, needs: str = "", queue: str = "mail", label: str = ""
) -> Case:  # fmt: skip
    operation = BY_NAME[name]
    return Case(operation, path, body, frozenset(needs.split() or [operation.right]), queue, label)


def by_id(id: str, action: str, right: str, **params: Any) -> Case:
    body = {"action": action, "ids": [id], "params": params}
    return case("act_on_jobs", "/jobs/actions", body, f"read {right}", label=action)


def by_filter(filter: str, action: str, right: str, **params: Any) -> Case:
    body = {"action": action, "filter": filter, "params": params}
    return case("act_on_jobs", "/jobs/actions", body, f"read {right}", label=f"bulk-{action}")


MUTE = {"code": "no_worker", "where": "mail"}
MUTED = {"code": "stuck", "where": "mail"}

WRITES = (
    case("enqueue", "/jobs", {"task": "mail.send", "args": {"to": "bob"}}),
    by_id("failed-1", "retry", "retry"),
    by_id("ready-1", "cancel", "cancel", reason="why"),
    by_id("done-1", "delete", "delete"),
    by_id("later-1", "promote", "promote"),
    by_id("ready-1", "reprioritise", "promote", priority=9),
    by_id("later-1", "reschedule", "promote", delay="2h"),
    by_id("ready-1", "move", "move", queue="mail.slow"),
    by_filter("state:failed", "retry", "retry"),
    by_filter("queue:mail", "cancel", "cancel"),
    by_filter("id:done-1", "delete", "purge"),
    by_filter("task:mail.*", "promote", "promote"),
    by_filter("state:ready", "reprioritise", "promote", priority=9),
    by_filter("state:scheduled", "reschedule", "promote", delay="2h"),
    by_filter("state:ready", "move", "move", queue="mail.slow"),
    case("edit_job", "/jobs/failed-1/edit", {"args": {"to": "eve"}}, "edit values read retry"),
    case("edit_job", "/jobs/ready-1/edit", {"args": {"to": "eve"}, "requeue": False}, "edit values read", label="only"),
    case("pause_queue", "/queues/mail/pause", needs="pause read"),
    case("resume_queue", "/queues/mail/resume", needs="pause read"),
    case("drain_queue", "/queues/mail/drain", needs="pause read"),
    case("tune_queue", "/queues/mail/tune", {"limit": 3, "rate": "5/s"}, needs="tune read"),
    case("untune_queue", "/queues/bill/untune", needs="tune read", queue="bill"),
    case("purge_queue", "/queues/mail/purge", {"confirm": "mail"}, needs="purge"),
    case("move_queue", "/queues/mail/move", {"to": "mail.slow"}, needs="move"),
    case("pause_task", "/tasks/mail.send/pause", needs="pause read"),
    case("resume_task", "/tasks/mail.send/resume", needs="pause read"),
    case("tune_task", "/tasks/mail.send/tune", {"limit": 3}, needs="tune read"),
    case("untune_task", "/tasks/mail.send/untune", needs="tune read"),
    case("quiet_worker", "/workers/worker-1/quiet", {"reason": "slow"}, needs="workers read", queue=""),
    case("resume_worker", "/workers/worker-1/resume", {}, needs="workers read", queue=""),
    case("stop_worker", "/workers/worker-1/stop", {}, needs="workers read", queue=""),
    case("open_breaker", "/breakers/smtp/open", {"seconds": 60}, needs="tune read"),
    case("close_breaker", "/breakers/smtp/close", needs="tune read"),
    case("auto_breaker", "/breakers/smtp/auto", needs="tune read"),
    case("pause_schedule", "/schedules/hourly/pause", {"reason": "quiet"}, needs="schedules read"),
    case("resume_schedule", "/schedules/hourly/resume", needs="schedules read"),
    case("run_schedule", "/schedules/hourly/run", needs="schedules read"),
    case("edit_schedule", "/schedules/hourly/edit", {"spec": "every 5m"}, needs="schedules read"),
    case("remove_schedule", "/schedules/hourly/remove", needs="schedules read"),
    case("cancel_workflow", "/workflows/FLOW/cancel", {"reason": "no"}, needs="cancel read", queue="bill"),
    case("retry_workflow", "/workflows/BROKEN/retry", needs="retry read", queue="bill"),
    case("mute_warning", "/warnings/mute", MUTE | {"lasts": "2h", "reason": "a deployment"}, needs="mute read"),
    case("unmute_warning", "/warnings/unmute", MUTED, needs="mute read"),
    case("save_view", "/views", {"name": "mine", "filter": "state:failed"}, needs="views read", queue=""),
    case("drop_view", "/views/fresh", needs="views read", queue=""),
)

READS = (
    case("me", "/me", queue=""),
    case("overview", "/overview", queue=""),
    case("chart", "/chart?span=15m&queue=mail", queue=""),
    case("list_warnings", "/warnings", queue=""),
    case("store_info", "/store", queue=""),
    case("follow_events", "/events?since=0", queue=""),
    case("count_jobs", "/count?filter=state:failed", queue=""),
    case("suggest_filter", "/suggest?filter=sta", queue=""),
    case("export_jobs", "/export?filter=state:failed", needs="read values", queue=""),
    case("list_jobs", "/jobs?filter=state:failed&limit=5", queue=""),
    case("job_logs", "/jobs/running-1/logs", needs="read values"),
    case("follow_job", "/jobs/done-1/events"),
    case("get_job", "/jobs/failed-1?whole=true"),
    case("list_queues", "/queues", queue=""),
    case("get_queue", "/queues/mail"),
    case("list_workers", "/workers", queue=""),
    case("get_worker", "/workers/worker-1", queue=""),
    case("list_schedules", "/schedules", queue=""),
    case("get_schedule", "/schedules/hourly"),
    case("list_workflows", "/workflows?state=failed", queue=""),
    case("get_workflow", "/workflows/FLOW", queue="bill"),
    case("list_faults", "/faults", queue=""),
    case("list_limits", "/limits", queue=""),
    case("list_breakers", "/breakers", queue=""),
    case("list_tasks", "/tasks", queue=""),
    case("task_schema", "/tasks/mail.send/schema"),
    case("get_task", "/tasks/mail.send"),
    case("list_audit", "/audit", queue=""),
    case("list_views", "/views", queue=""),
)

PAGES = (
    "/", "/jobs", "/jobs/failed-1", "/jobs/running-1", "/jobs/later-1", "/queues", "/queues/mail", "/workers",
    "/schedules", "/workflows", "/workflows/FLOW", "/workflows/BROKEN", "/dead", "/dead?queue=mail", "/limits",
    "/tasks", "/tasks/mail.send", "/audit", "/api",
)  # fmt: skip
"""Every page, with something on it."""

PROBES = ("/health", "/ready", "/autoscale?queue=mail", "/api/openapi.json")
