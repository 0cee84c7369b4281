"""The table of the JSON API: method, path, function, right. Everything else follows from it: routes, documentation, and
the test that nothing changes without the right.
"""

from __future__ import annotations

from windlass.core.event import Event
from windlass.web import reads, writes
from windlass.web.jobfeed import JobState
from windlass.web.operation import EVENTS, LINES, Operation

# Specific paths before those with a name at their end: a name may have slashes in it.
TABLE: tuple[Operation, ...] = (
    Operation("GET", "/me", reads.me),
    Operation("GET", "/overview", reads.overview),
    Operation("GET", "/chart", reads.chart),
    Operation("GET", "/warnings", reads.list_warnings),
    Operation("POST", "/warnings/mute", writes.mute_warning, "mute"),
    Operation("POST", "/warnings/unmute", writes.unmute_warning, "mute"),
    Operation("GET", "/store", reads.store_info),
    Operation("GET", "/events", reads.follow_events, sends=EVENTS, each=Event),
    Operation("GET", "/count", reads.count_jobs),
    Operation("GET", "/suggest", reads.suggest_filter),
    Operation("GET", "/export", reads.export_jobs, "values", sends=LINES),
    Operation("GET", "/jobs", reads.list_jobs),
    Operation("POST", "/jobs", writes.enqueue, "enqueue", status=201),
    Operation("POST", "/jobs/actions", writes.act_on_jobs),
    Operation("POST", "/jobs/{id}/edit", writes.edit_job, "edit"),
    Operation("GET", "/jobs/{id}/logs", reads.job_logs, "values"),
    Operation("GET", "/jobs/{id}/events", reads.follow_job, sends=EVENTS, each=JobState),
    Operation("GET", "/jobs/{id}", reads.get_job),
    Operation("GET", "/queues", reads.list_queues),
    Operation("POST", "/queues/{name}/pause", writes.pause_queue, "pause"),
    Operation("POST", "/queues/{name}/resume", writes.resume_queue, "pause"),
    Operation("POST", "/queues/{name}/drain", writes.drain_queue, "pause"),
    Operation("POST", "/queues/{name}/tune", writes.tune_queue, "tune"),
    Operation("POST", "/queues/{name}/untune", writes.untune_queue, "tune"),
    Operation("POST", "/queues/{name}/purge", writes.purge_queue, "purge"),
    Operation("POST", "/queues/{name}/move", writes.move_queue, "move"),
    Operation("GET", "/queues/{name}", reads.get_queue),
    Operation("GET", "/workers", reads.list_workers),
    Operation("POST", "/workers/{id}/quiet", writes.quiet_worker, "workers"),
    Operation("POST", "/workers/{id}/resume", writes.resume_worker, "workers"),
    Operation("POST", "/workers/{id}/stop", writes.stop_worker, "workers"),
    Operation("GET", "/workers/{id}", reads.get_worker),
    Operation("GET", "/schedules", reads.list_schedules),
    Operation("POST", "/schedules/{name}/pause", writes.pause_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/resume", writes.resume_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/run", writes.run_schedule, "schedules", status=201),
    Operation("POST", "/schedules/{name}/edit", writes.edit_schedule, "schedules"),
    Operation("POST", "/schedules/{name}/remove", writes.remove_schedule, "schedules"),
    Operation("GET", "/schedules/{name}", reads.get_schedule),
    Operation("GET", "/workflows", reads.list_workflows),
    Operation("POST", "/workflows/{id}/cancel", writes.cancel_workflow, "cancel"),
    Operation("POST", "/workflows/{id}/retry", writes.retry_workflow, "retry"),
    Operation("GET", "/workflows/{id}", reads.get_workflow),
    Operation("GET", "/faults", reads.list_faults),
    Operation("GET", "/limits", reads.list_limits),
    Operation("GET", "/breakers", reads.list_breakers),
    Operation("POST", "/breakers/{name}/open", writes.open_breaker, "tune"),
    Operation("POST", "/breakers/{name}/close", writes.close_breaker, "tune"),
    Operation("POST", "/breakers/{name}/auto", writes.auto_breaker, "tune"),
    Operation("GET", "/tasks", reads.list_tasks),
    Operation("GET", "/tasks/{name}/schema", reads.task_schema),
    Operation("POST", "/tasks/{name}/pause", writes.pause_task, "pause"),
    Operation("POST", "/tasks/{name}/resume", writes.resume_task, "pause"),
    Operation("POST", "/tasks/{name}/tune", writes.tune_task, "tune"),
    Operation("POST", "/tasks/{name}/untune", writes.untune_task, "tune"),
    Operation("GET", "/tasks/{name}", reads.get_task),
    Operation("GET", "/audit", reads.list_audit, "audit"),
    Operation("GET", "/views", reads.list_views),
    Operation("POST", "/views", writes.save_view, "views", status=201),
    Operation("DELETE", "/views/{name}", writes.drop_view, "views"),
)
