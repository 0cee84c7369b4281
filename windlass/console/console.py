"""The console as one class: everything an operator sees and does. It is thin: each part of the work has a module of its
own, which checks rights and queues by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from windlass.app import Windlass
from windlass.console import (
    actions,
    audit,
    bulk,
    charts,
    controls,
    faults,
    filter_values,
    jobs,
    mutes,
    overview,
    queues,
    schedules,
    store_state,
    tasks,
    views,
    workflows,
)
from windlass.console.desk import Desk
from windlass.console.replies import (
    AuditList,
    Changed,
    Chart,
    Count,
    FaultList,
    Health,
    JobDetail,
    JobList,
    LogRow,
    Overview,
    QueueRow,
    Scale,
    ScheduleRow,
    TaskRow,
    View,
    Warn,
    WorkerRow,
)
from windlass.console.workflow_replies import WorkflowDetail, WorkflowList
from windlass.core.access import EVERYTHING, Access
from windlass.core.duration import Duration
from windlass.core.filter_suggest import Suggestion
from windlass.core.ids import check_name
from windlass.handles.gates import LimitInfo
from windlass.handles.handle import Handle
from windlass.limits.breakers import Breaker, BreakerInfo
from windlass.operate.admin import JobPage
from windlass.store.jobs import Action, Change
from windlass.store.reads import StoreInfo


class Console:
    """An app as one user may see and change it. Make one per request: it keeps nothing.

    Everything raises ``Forbidden`` without the right, ``NotFound`` or ``JobLost`` for what is not there or not in the
    user's queues, and ``ConfigError`` for input that makes no sense.
    """

    def __init__(self, app: Windlass, access: Access = EVERYTHING, via: str = "code") -> None:
        self.app, self.access, self.via = app, access, via
        self._desk = Desk(app, access, via)

    def acting(self, action: str, target: str, **details: Any) -> AbstractAsyncContextManager[audit.AuditedAction]:
        """A context around an action that is done by other means: it records the action and how it ended.

        It checks nothing. The caller asks ``deed.need(...)`` for the right and calls ``deed.begin(...)`` before the
        action.
        """
        return audit.act(self._desk, action, target, details)

    # -- looking

    async def overview(self, span: str = "1h") -> Overview:
        """The first page. ``span``: 15m, 1h, 4h, 24h or 7d."""
        return await overview.overview(self._desk, span)

    async def chart(self, span: str = "1h", queue: str = "", task: str = "") -> Chart:
        """What became of jobs over a span of time, and how long they waited and ran."""
        return await charts.chart(self._desk, span, queue, task)

    async def jobs(self, filter: str = "", after: str = "", limit: int = 50) -> JobList:
        """A page of the jobs that a filter finds, the newest first; ``after`` is the cursor of the page before."""
        return await jobs.job_list(self._desk, filter, after, limit)

    async def job(self, id: str, whole: bool = False) -> JobDetail:
        """One job. ``whole``: its values are not cut at 64 KB."""
        return await jobs.job_detail(self._desk, id, whole)

    async def logs(self, id: str, after: int = -1, limit: int = 200) -> list[LogRow]:
        """A job's log lines behind number ``after``."""
        return await jobs.job_logs(self._desk, id, after, limit)

    async def queues(self) -> list[QueueRow]:
        """Every queue."""
        return await overview.flowing_queues(self._desk)

    async def queue(self, name: str) -> QueueRow:
        """One queue."""
        return await overview.one_flowing(self._desk, name)

    async def workers(self) -> list[WorkerRow]:
        """Every worker with the jobs it runs."""
        return await queues.worker_rows(self._desk)

    async def worker(self, id: str) -> WorkerRow:
        """One worker."""
        return await queues.one_worker(self._desk, id)

    async def schedules(self) -> list[ScheduleRow]:
        """Every schedule."""
        return await schedules.schedule_rows(self._desk)

    async def schedule(self, name: str) -> ScheduleRow:
        """One schedule."""
        return await schedules.one_schedule(self._desk, name)

    async def workflows(self, state: str = "", after: str = "", limit: int = 50) -> WorkflowList:
        """A page of workflows, the newest first. ``state``: one or some, with commas."""
        return await workflows.workflow_list(self._desk, state, after, limit)

    async def workflow(self, id: str, open: Collection[str] = ()) -> WorkflowDetail:
        """One workflow with its picture. ``open``: keys of groups that are drawn job by job."""
        return await workflows.one_workflow(self._desk, id, open)

    async def faults(self, queue: str = "", task: str = "") -> FaultList:
        """Dead letters grouped by fault, the most frequent first."""
        return await faults.fault_list(self._desk, queue, task)

    async def limits(self) -> list[LimitInfo]:
        """Every gate that says something."""
        return await queues.limit_rows(self._desk)

    async def breakers(self) -> list[BreakerInfo]:
        """Every circuit breaker."""
        return await queues.breaker_rows(self._desk)

    async def tasks(self, span: str = "") -> list[TaskRow]:
        """Every task that this app or a live worker declares. ``span``: with numbers over 15m … 7d."""
        return await tasks.task_rows(self._desk, span)

    async def task(self, name: str) -> TaskRow:
        """One task with the fields of its form."""
        return await tasks.one_task(self._desk, name)

    async def schema(self, name: str) -> dict[str, Any]:
        """JSON Schema of one task, for every version."""
        return await tasks.one_schema(self._desk, name)

    async def audit(self, after: str = "", limit: int = 100) -> AuditList:
        """Who did what, the newest first."""
        return await audit.audit_list(self._desk, after, limit)

    async def views(self) -> list[View]:
        """Saved filters."""
        return await views.view_list(self._desk)

    async def health(self) -> Health:
        """Whether work is flowing. A store that cannot be reached is an answer here, not an error."""
        return await overview.health(self._desk)

    async def scale(self, queue: str) -> Scale:
        """One queue's numbers for an autoscaler. An unknown queue has nothing to do."""
        return await overview.scale(self._desk, queue)

    async def warnings(self) -> list[Warn]:
        """What an operator should look at."""
        return await overview.warnings(self._desk)

    async def info(self) -> StoreInfo:
        """The store."""
        self._desk.need("read")
        return await store_state.store_info(self._desk)

    async def count(self, filter: str = "", action: str = "") -> Count:
        """How many jobs a filter finds: the dry run of ``bulk``. ``action``: only those it applies to."""
        return await bulk.count(self._desk, filter, action)

    async def suggest(self, filter: str, at: int = -1) -> list[Suggestion]:
        """Suggestions for a filter that is being written. ``at``: the position of the cursor; by default the end."""
        return await filter_values.suggest(self._desk, filter, at if at >= 0 else len(filter))

    async def records(self, filter: str = "", after: str = "", limit: int = 50) -> JobPage:
        """A page of the jobs a filter finds, with all that is known of each: for code that may see everything."""
        return await jobs.record_page(self._desk, filter, after, limit)

    def export(self, filter: str = "", limit: int = 10_000) -> AsyncIterator[bytes]:
        """The jobs that a filter finds as lines of JSON."""
        return bulk.export(self._desk, filter, limit)

    # -- jobs

    async def enqueue(self, task: str, args: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Call a task; answers the id of its job. ``options`` are those of a call: queue, delay, priority, tags …"""
        return await actions.enqueue(self._desk, task, args, options)

    async def retry(self, ids: Sequence[str]) -> Changed:
        """Run ended jobs again; scheduled ones start now."""
        return await actions.change_ids(self._desk, "retry", ids, {})

    async def edit(self, id: str, args: Mapping[str, Any], requeue: bool = True) -> Changed:
        """Give a job other arguments, and run it again if it had ended."""
        return await actions.edit_job(self._desk, id, args, requeue)

    async def cancel(self, ids: Sequence[str], reason: str = "") -> Changed:
        """Cancel jobs; those that run are asked to stop."""
        return await actions.change_ids(self._desk, "cancel", ids, {"reason": reason} if reason else {})

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Delete jobs that do not run."""
        return await actions.change_ids(self._desk, "delete", ids, {})

    async def promote(self, ids: Sequence[str]) -> Changed:
        """Start scheduled jobs now."""
        return await actions.change_ids(self._desk, "promote", ids, {})

    async def reprioritise(self, ids: Sequence[str], priority: int) -> Changed:
        """Give jobs that have not started another priority, 0 to 9."""
        return await actions.change_ids(self._desk, "reprioritise", ids, {"priority": priority})

    async def reschedule(self, ids: Sequence[str], at: str = "", delay: Duration = "") -> Changed:
        """Give jobs that have not started another time: an instant in ISO 8601, or a duration from now."""
        params = {"at": at} if delay == "" else {"delay": delay}
        return await actions.change_ids(self._desk, "reschedule", ids, params | ({"at": at} if at else {}))

    async def move(self, ids: Sequence[str], queue: str) -> Changed:
        """Move jobs that do not run to another queue."""
        return await actions.change_ids(self._desk, "move", ids, {"queue": queue})

    async def bulk(self, action: str, filter: str, after: str = "", limit: int = 500, **params: Any) -> Changed:
        """One step of an action on all that a filter finds; call again with its cursor until that is empty.

        Actions: retry, cancel, delete, promote, reprioritise (priority), reschedule (at or delay), move (queue).
        """
        return await bulk.bulk(self._desk, action, filter, after, limit, params)

    # -- workers

    async def quiet_worker(self, id: str, reason: str = "") -> WorkerRow:
        """Let a worker claim nothing more; it finishes what it has, and stays."""
        return await controls.order_worker(self._desk, "quiet", id, reason)

    async def resume_worker(self, id: str, reason: str = "") -> WorkerRow:
        """Let a quiet worker claim again."""
        return await controls.order_worker(self._desk, "resume", id, reason)

    async def stop_worker(self, id: str, reason: str = "") -> WorkerRow:
        """Let a worker drain and end. Its supervisor starts no replacement."""
        return await controls.order_worker(self._desk, "stop", id, reason)

    async def serve_queue(self, id: str, queue: str) -> WorkerRow:
        """Let a worker serve a queue beside its others, until it ends."""
        return await controls.serve_queue(self._desk, id, queue, True)

    async def leave_queue(self, id: str, queue: str) -> WorkerRow:
        """Let a worker claim nothing more from a queue; jobs of it that run go on."""
        return await controls.serve_queue(self._desk, id, queue, False)

    # -- queues and tasks

    async def pause_queue(self, name: str) -> QueueRow:
        """Start no more jobs of a queue."""
        return await controls.on_queue(self._desk, "pause_queue", "pause", name, self.app.queue(name).pause)

    async def resume_queue(self, name: str) -> QueueRow:
        """End a pause, and end draining."""
        return await controls.on_queue(self._desk, "resume_queue", "pause", name, self.app.queue(name).resume)

    async def drain_queue(self, name: str) -> QueueRow:
        """Refuse new jobs. This does not wait until the queue is empty."""
        return await controls.drain_queue(self._desk, name)

    async def tune_queue(self, name: str, **limits: Any) -> QueueRow:
        """Set limits that go over those in the code: limit, rate, key_limit, key_rate, max_ready; None for no limit."""
        queue = self.app.queue(name)
        return await controls.on_queue(self._desk, "tune_queue", "tune", name, lambda: queue.tune(**limits), **limits)

    async def untune_queue(self, name: str) -> QueueRow:
        """Put the limits in the code back into effect."""
        return await controls.on_queue(self._desk, "untune_queue", "tune", name, self.app.queue(name).untune)

    async def purge_queue(
        self, name: str, confirm: str, states: Sequence[str] = ("ready", "scheduled", "waiting")
    ) -> Changed:
        """Delete the jobs of a queue, a bounded number per call. ``confirm``: the queue's name, typed by the user."""
        return await controls.change_queue(
            self._desk, "purge_queue", name, Change(action=Action.DELETE), states, confirm
        )

    async def move_queue(
        self, name: str, to: str, states: Sequence[str] = ("ready", "scheduled", "waiting")
    ) -> Changed:
        """Move the jobs of a queue to another, a bounded number per call."""
        change = Change(action=Action.MOVE, queue=check_name("queue", to))
        return await controls.change_queue(self._desk, "move_queue", name, change, states)

    async def pause_task(self, name: str) -> TaskRow:
        """Start no more jobs of a task."""
        return await controls.on_task(self._desk, "pause_task", "pause", name, self.app.task_gate(name).pause)

    async def resume_task(self, name: str) -> TaskRow:
        """End a pause."""
        return await controls.on_task(self._desk, "resume_task", "pause", name, self.app.task_gate(name).resume)

    async def tune_task(self, name: str, **limits: Any) -> TaskRow:
        """Set limits that go over those in the code: limit, rate; None for no limit."""
        gate = self.app.task_gate(name)
        return await controls.on_task(self._desk, "tune_task", "tune", name, lambda: gate.tune(**limits), **limits)

    async def untune_task(self, name: str) -> TaskRow:
        """Put the limits in the code back into effect."""
        return await controls.on_task(self._desk, "untune_task", "tune", name, self.app.task_gate(name).untune)

    async def open_breaker(self, name: str, seconds: float | None = None) -> BreakerInfo:
        """Open a breaker by hand, for so many seconds or until it is closed by hand."""
        return await controls.on_breaker(
            self._desk, "open_breaker", name, lambda breaker: breaker.open(seconds), seconds=seconds
        )

    async def close_breaker(self, name: str) -> BreakerInfo:
        """Close a breaker and keep it closed, whatever fails."""
        return await controls.on_breaker(self._desk, "close_breaker", name, Breaker.close)

    async def auto_breaker(self, name: str) -> BreakerInfo:
        """Let a breaker follow the errors again."""
        return await controls.on_breaker(self._desk, "auto_breaker", name, Breaker.auto)

    # -- schedules and workflows

    async def pause_schedule(self, name: str, reason: str = "") -> ScheduleRow:
        """Pause a schedule until it is resumed."""
        await controls.on_schedule(
            self._desk, "pause_schedule", name, lambda: self.app.schedules.pause(name, reason), reason=reason
        )
        return await schedules.one_schedule(self._desk, name)

    async def resume_schedule(self, name: str) -> ScheduleRow:
        """Resume a schedule, from its next time on."""
        await controls.on_schedule(self._desk, "resume_schedule", name, lambda: self.app.schedules.resume(name))
        return await schedules.one_schedule(self._desk, name)

    async def run_schedule(self, name: str) -> str:
        """Run a schedule now, besides its times; answers the id of the job."""
        run = self.app.schedules.run
        handle: Handle[Any] = await controls.on_schedule(self._desk, "run_schedule", name, lambda: run(name))
        return handle.id

    async def edit_schedule(self, name: str, spec: str, tz: str = "") -> ScheduleRow:
        """Give a schedule other times, in the words of ``ScheduleRow.spec``."""
        return await controls.edit_schedule(self._desk, name, spec, tz)

    async def remove_schedule(self, name: str) -> None:
        """Delete a schedule. One that the code declares comes back with the next worker that starts."""
        await controls.on_schedule(self._desk, "remove_schedule", name, lambda: self.app.schedules.remove(name))

    async def cancel_workflow(self, id: str, reason: str = "") -> WorkflowDetail:
        """Cancel a workflow with all its jobs."""
        return await controls.on_workflow(self._desk, "cancel_workflow", "cancel", id, controls.cancelling(reason))

    async def retry_workflow(self, id: str) -> WorkflowDetail:
        """Run again what failed in a workflow."""
        return await controls.on_workflow(self._desk, "retry_workflow", "retry", id, Change(action=Action.RETRY))

    async def cancel_workflows(self, ids: Sequence[str], reason: str = "") -> Changed:
        """Cancel workflows with all their jobs."""
        return await controls.change_workflows(
            self._desk, "cancel_workflow", "cancel", ids, controls.cancelling(reason)
        )

    async def retry_workflows(self, ids: Sequence[str]) -> Changed:
        """Run again what failed in workflows."""
        return await controls.change_workflows(self._desk, "retry_workflow", "retry", ids, Change(action=Action.RETRY))

    async def refuse(self, action: str, target: str, right: str) -> None:
        """Record that a user tried an action without the right, and raise ``Forbidden``: for callers that check before
        they call.
        """
        async with audit.act(self._desk, action, target) as deed:
            deed.need(right)

    # -- warnings

    async def mute_warning(self, code: str, where: str, lasts: Duration, reason: str) -> Warn:
        """Mute a warning for a time and for all users; its code and what it is about name it."""
        return await mutes.mute_warning(self._desk, code, where, lasts, reason)

    async def unmute_warning(self, code: str, where: str) -> Warn:
        """End the mute of a warning."""
        return await mutes.unmute_warning(self._desk, code, where)

    # -- saved filters

    async def save_view(self, name: str, filter: str) -> View:
        """Keep a filter under a name, for all users."""
        return await views.save_view(self._desk, name, filter)

    async def drop_view(self, name: str) -> None:
        """Forget a saved filter."""
        await views.drop_view(self._desk, name)
