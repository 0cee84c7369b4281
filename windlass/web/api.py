"""The table of the JSON API: method, path, function, right. Everything else follows from it: routes, documentation, and
the test that nothing changes without the right.
"""

from __future__ import annotations

from windlass.core.event import Event
from windlass.web import api_reads, api_writes
from windlass.web.jobfeed import JobState
from windlass.web.operation import EVENTS, LINES, Operation

# Fixed paths come before those that end in a name, as a name may have slashes in it.
TABLE: tuple[Operation, ...] = (
    Operation("GET", "/me", api_reads.me),
    Operation("GET", "/overview", api_reads.overview),
    Operation("GET", "/chart", api_reads.chart),
    Operation("GET", "/warnings", api_reads.list_warnings),
    Operation("POST", "/warnings/mute", api_writes.mute_warning, "mute"),
    Operation("POST", "/warnings/unmute", api_writes.unmute_warning, "mute"),
    Operation("GET", "/store", api_reads.store_info),
    Operation("GET", "/events", api_reads.follow_events, sends=EVENTS, each=Event),
    Operation("GET", "/count", api_reads.count_jobs),
    Operation("GET", "/suggest", api_reads.suggest_filter),
    Operation("GET", "/export", api_reads.export_jobs, "values", sends=LINES),
    Operation("GET", "/jobs", api_reads.list_jobs),
    Operation("POST", "/jobs", api_writes.enqueue, "enqueue", status=201),
    Operation("POST", "/jobs/actions", api_writes.act_on_jobs),
    Operation("POST", "/jobs/{id}/edit", api_writes.edit_job, "edit"),
    Operation("GET", "/jobs/{id}/logs", api_reads.job_logs, "values"),
    Operation("GET", "/jobs/{id}/events", api_reads.follow_job, sends=EVENTS, each=JobState),
    Operation("GET", "/jobs/{id}", api_reads.get_job),
    Operation("GET", "/queues", api_reads.list_queues),
    Operation("POST", "/queues/{name}/pause", api_writes.pause_queue, "pause"),
    Operation("POST", "/queues/{name}/resume", api_writes.resume_queue, "pause"),
    Operation("POST", "/queues/{name}/drain", api_writes.drain_queue, "pause"),
    Operation("POST", "/queues/{name}/tune", api_writes.tune_queue, "tune"),
    Operation("POST", "/queues/{name}/untune", api_writes.untune_queue, "tune"),
    Operation("POST", "/queues/{name}/purge", api_writes.purge_queue, "purge"),
    Operation("POST", "/queues/{name}/move", api_writes.move_queue, "move"),
    Operation("GET", "/queues/{name}", api_reads.get_queue),
    Operation("GET", "/workers", api_reads.list_workers),
    Operation("POST", "/workers/{id}/quiet", api_writes.quiet_worker, "workers"),
    Operation("POST", "/workers/{id}/resume", api_writes.resume_worker, "workers"),
    Operation("POST", "/workers/{id}/stop", api_writes.stop_worker, "workers"),
    Operation("GET", "/workers/{id}", api_reads.get_worker),
    Operation("GET", "/schedules", api_reads.list_schedules),
    Operation("POST", "/schedules/{name}/pause", api_writes.pause_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/resume", api_writes.resume_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/run", api_writes.run_schedule, "schedules", status=201),
    Operation("POST", "/schedules/{name}/edit", api_writes.edit_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/remove", api_writes.remove_schedule, "schedules"),
    Operation("GET", "/schedules/{name}", api_reads.get_schedule),
    Operation("GET", "/workflows", api_reads.list_workflows),
    Operation("POST", "/workflows/{id}/cancel", api_writes.cancel_workflow, "cancel"),
    Operation("POST", "/workflows/{id}/retry", api_writes.retry_workflow, "retry"),
    Operation("GET", "/workflows/{id}", api_reads.get_workflow),
    Operation("GET", "/faults", api_reads.list_faults),
    Operation("GET", "/limits", api_reads.list_limits),
    Operation("GET", "/breakers", api_reads.list_breakers),
    Operation("POST", "/breakers/{name}/open", api_writes.open_breaker, "tune"),
    Operation("POST", "/breakers/{name}/close", api_writes.close_breaker, "tune"),
    Operation("POST", "/breakers/{name}/auto", api_writes.auto_breaker, "tune"),
    Operation("GET", "/tasks", api_reads.list_tasks),
    Operation("GET", "/tasks/{name}/schema", api_reads.task_schema),
    Operation("POST", "/tasks/{name}/pause", api_writes.pause_task, "pause"),
    Operation("POST", "/tasks/{name}/resume", api_writes.resume_task, "pause"),
    Operation("POST", "/tasks/{name}/tune", api_writes.tune_task, "tune"),
    Operation("POST", "/tasks/{name}/untune", api_writes.untune_task, "tune"),
    Operation("GET", "/tasks/{name}", api_reads.get_task),
    Operation("GET", "/audit", api_reads.list_audit, "audit"),
    Operation("GET", "/views", api_reads.list_views),
    Operation("POST", "/views", api_writes.save_view, "views", status=201),
    Operation("DELETE", "/views/{name}", api_writes.drop_view, "views"),
)
