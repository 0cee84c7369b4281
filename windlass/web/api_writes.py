"""The actions of the JSON API: each asks the console, which checks the right and the queue and writes the audit log."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from windlass.console.console import Console
from windlass.console.replies import Changed, QueueRow, ScheduleRow, TaskRow, View, Warn, WorkerRow
from windlass.console.workflow_replies import WorkflowDetail
from windlass.errors import ConfigError
from windlass.limits.breakers import BreakerInfo
from windlass.web import request_structs as ask
from windlass.web.request_structs import given

PARAMS = {"cancel": ("reason",), "reprioritise": ("priority",), "reschedule": ("at", "delay"), "move": ("queue",)}
"""What actions on jobs take; the others take nothing."""

NEEDED = {"reprioritise": ("priority",), "move": ("queue",)}


async def enqueue(console: Console, asked: ask.NewCall) -> ask.Enqueued:
    """Call a task."""
    return ask.Enqueued(await console.enqueue(asked.task, asked.args, **asked.options))


async def act_on_jobs(console: Console, asked: ask.JobAction) -> Changed:
    """Retry, cancel, delete, promote, reprioritise, reschedule or move jobs: some by id, or all a filter finds.

    Each action needs its own right.
    """
    params = params_of(asked)
    if (asked.ids is UNSET) == (asked.filter is UNSET):
        raise ConfigError("the body: give ids or a filter, and not both")
    if asked.filter is not UNSET:
        return await console.bulk(asked.action, asked.filter, asked.after, asked.limit, **params)
    changed: Changed = await getattr(console, asked.action)(asked.ids, **params)
    return changed


def params_of(asked: ask.JobAction) -> dict[str, Any]:
    params = given(asked.params)
    for name in params:
        if name not in PARAMS.get(asked.action, ()):
            raise ConfigError(f"the body: {asked.action} takes no {name!r} in params")
    for name in NEEDED.get(asked.action, ()):
        if name not in params:
            raise ConfigError(f"the body: {asked.action} needs {name!r} in params")
    if asked.action == "reschedule" and len(params) != 1:
        raise ConfigError("the body: reschedule needs 'at' or 'delay' in params, and not both")
    return params


async def edit_job(console: Console, asked: ask.NewArgs, id: str) -> Changed:
    """Give a job other arguments."""
    return await console.edit(id, asked.args, asked.requeue)


async def pause_queue(console: Console, name: str) -> QueueRow:
    """Start no more jobs of a queue."""
    return await console.pause_queue(name)


async def resume_queue(console: Console, name: str) -> QueueRow:
    """End a pause, and end draining."""
    return await console.resume_queue(name)


async def drain_queue(console: Console, name: str) -> QueueRow:
    """Refuse new jobs."""
    return await console.drain_queue(name)


async def tune_queue(console: Console, asked: ask.Limits, name: str) -> QueueRow:
    """Set limits that go over those in the code."""
    return await console.tune_queue(name, **given(asked))


async def untune_queue(console: Console, name: str) -> QueueRow:
    """Put the limits in the code back into effect."""
    return await console.untune_queue(name)


async def purge_queue(console: Console, asked: ask.Purge, name: str) -> Changed:
    """Delete the jobs of a queue, a bounded number per call: call again while the answer has a cursor."""
    return await console.purge_queue(name, asked.confirm, asked.states)


async def move_queue(console: Console, asked: ask.MoveAll, name: str) -> Changed:
    """Move the jobs of a queue to another, a bounded number per call: call again while the answer has a cursor."""
    return await console.move_queue(name, asked.to, asked.states)


async def pause_task(console: Console, name: str) -> TaskRow:
    """Start no more jobs of a task."""
    return await console.pause_task(name)


async def resume_task(console: Console, name: str) -> TaskRow:
    """End a pause."""
    return await console.resume_task(name)


async def tune_task(console: Console, asked: ask.TaskLimits, name: str) -> TaskRow:
    """Set limits that go over those in the code."""
    return await console.tune_task(name, **given(asked))


async def untune_task(console: Console, name: str) -> TaskRow:
    """Put the limits in the code back into effect."""
    return await console.untune_task(name)


async def quiet_worker(console: Console, asked: ask.Why, id: str) -> WorkerRow:
    """Let a worker claim nothing more; it finishes what it has, and stays."""
    return await console.quiet_worker(id, asked.reason)


async def resume_worker(console: Console, asked: ask.Why, id: str) -> WorkerRow:
    """Let a quiet worker claim again."""
    return await console.resume_worker(id, asked.reason)


async def stop_worker(console: Console, asked: ask.Why, id: str) -> WorkerRow:
    """Let a worker drain and end."""
    return await console.stop_worker(id, asked.reason)


async def open_breaker(console: Console, asked: ask.OpenFor, name: str) -> BreakerInfo:
    """Open a breaker by hand."""
    return await console.open_breaker(name, asked.seconds)


async def close_breaker(console: Console, name: str) -> BreakerInfo:
    """Close a breaker and keep it closed."""
    return await console.close_breaker(name)


async def auto_breaker(console: Console, name: str) -> BreakerInfo:
    """Let a breaker follow the errors again."""
    return await console.auto_breaker(name)


async def pause_schedule(console: Console, asked: ask.Why, name: str) -> ScheduleRow:
    """Pause a schedule until it is resumed."""
    return await console.pause_schedule(name, asked.reason)


async def resume_schedule(console: Console, name: str) -> ScheduleRow:
    """Resume a schedule, from its next time on."""
    return await console.resume_schedule(name)


async def run_schedule(console: Console, name: str) -> ask.Enqueued:
    """Run a schedule now, besides its times."""
    return ask.Enqueued(await console.run_schedule(name))


async def edit_schedule(console: Console, asked: ask.NewTimes, name: str) -> ScheduleRow:
    """Give a schedule other times."""
    return await console.edit_schedule(name, asked.spec, asked.tz)


async def remove_schedule(console: Console, name: str) -> ask.Done:
    """Delete a schedule. One that the code declares comes back with the next worker that starts."""
    await console.remove_schedule(name)
    return ask.Done()


async def cancel_workflow(console: Console, asked: ask.Why, id: str) -> WorkflowDetail:
    """Cancel a workflow with all its jobs."""
    return await console.cancel_workflow(id, asked.reason)


async def retry_workflow(console: Console, id: str) -> WorkflowDetail:
    """Run again what failed in a workflow."""
    return await console.retry_workflow(id)


async def mute_warning(console: Console, asked: ask.NewMute) -> Warn:
    """Mute a warning for a time: it is shown as muted, and no notice of it is sent."""
    return await console.mute_warning(asked.code, asked.where, asked.lasts, asked.reason)


async def unmute_warning(console: Console, asked: ask.Warned) -> Warn:
    """End the mute of a warning."""
    return await console.unmute_warning(asked.code, asked.where)


async def save_view(console: Console, asked: ask.NewView) -> View:
    """Keep a filter under a name, for all users."""
    return await console.save_view(asked.name, asked.filter)


async def drop_view(console: Console, name: str) -> ask.Done:
    """Forget a saved filter."""
    await console.drop_view(name)
    return ask.Done()
