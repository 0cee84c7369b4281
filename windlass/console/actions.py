"""Actions on jobs, by id: each checks its right, stays within the user's queues, and leaves a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from windlass.calls.task import Task
from windlass.console import jobs, show
from windlass.console.audit import AuditedAction, act
from windlass.console.desk import Desk
from windlass.console.replies import Changed
from windlass.core.access import REDACTED
from windlass.core.duration import instant_ms, to_ms
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.core.job import Job
from windlass.core.options import CALL_NAMES, hint, parse_options
from windlass.errors import ConfigError, NotFound
from windlass.operate.admin import edit_change, retry_jobs
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Action, Change, ChangeReply

NO_JOB = "no such job"

PARAMS: dict[str, tuple[str, ...]] = {
    "retry": (),
    "cancel": ("reason",),
    "delete": (),
    "promote": (),
    "reprioritise": ("priority",),
    "reschedule": ("at", "delay"),
    "move": ("queue",),
}
"""Actions on many jobs, and what each may be given."""


def make_change(action: str, params: Mapping[str, Any]) -> Change:
    """An action with its parameters, checked."""
    if action not in PARAMS:
        raise ConfigError(f"there is no action {action!r}{did_you_mean(action, PARAMS)}; one of {', '.join(PARAMS)}")
    for name in params:
        if name not in PARAMS[action]:
            raise ConfigError(f"{action} takes no {name!r}" + did_you_mean(name, PARAMS[action]))
    if action == "reprioritise":
        level = parse_options({"priority": params.get("priority")}, ("priority",), action)["priority"]
        return Change(action=Action.REPRIORITISE, priority=level)
    if action == "reschedule":
        return _reschedule(params.get("at"), params.get("delay"))
    if action == "move":
        return Change(action=Action.MOVE, queue=check_name("queue", params.get("queue")))
    reason = params.get("reason") or ""
    if not isinstance(reason, str):
        raise ConfigError(f"reason is {reason!r}; give a text")
    return Change(action=Action(action), reason=show.one_line(reason, 500))


def _reschedule(at: object, delay: object) -> Change:
    nothing = (None, "")
    if (at in nothing) == (delay in nothing):
        raise ConfigError("reschedule: give at or delay, and not both")
    if at in nothing:
        return Change(action=Action.RESCHEDULE, delay=to_ms(delay, "delay"))
    return Change(action=Action.RESCHEDULE, at=instant_ms(_datetime(at), "at"))


def _datetime(value: object) -> object:
    """An instant from a JSON body."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ConfigError(f"at is {value!r}; give a time such as 2026-11-01T10:00:00Z") from None


# -- by id


async def change_ids(desk: Desk, action: str, ids: Sequence[str], params: Mapping[str, Any]) -> Changed:
    """One action on some jobs, at most a thousand."""
    wanted = list(dict.fromkeys(ids))
    details = {**params, **({"ids": wanted} if len(wanted) > 1 else {})}
    target = wanted[0] if len(wanted) == 1 else f"{len(wanted)} jobs"
    async with act(desk, action, target, details) as deed:
        if not wanted or len(wanted) > MAX_BATCH:
            raise ConfigError(f"{action}: give from 1 to {MAX_BATCH:,} ids, not {len(wanted):,}")
        change = make_change(action, params)
        check_rights(deed, action, change)
        store = await desk.store()
        seen = await visible(desk, store, wanted)
        await deed.begin(job.queue for job in seen.values())
        reply = await apply(desk, store, change, list(seen))
        deed.record.count = len(reply.changed)
        skipped = {id: NO_JOB for id in wanted if id not in seen} | reply.skipped
    return Changed(changed=reply.changed, skipped=skipped, count=len(reply.changed))


def check_rights(deed: AuditedAction, action: str, change: Change) -> None:
    deed.need(jobs.RIGHTS[action])
    if change.action is Action.MOVE:
        deed.need("move", change.queue)


async def visible(desk: Desk, store: Store, ids: Sequence[str]) -> dict[str, Job]:
    """The jobs among these that the user may see. A workflow's id names no job, although its end has that id."""
    found = await store.get(ids)
    return {job.id: job for job in found if job is not None and job.task and desk.access.sees(job.queue)}


async def apply(desk: Desk, store: Store, change: Change, ids: Sequence[str]) -> ChangeReply:
    if not ids:
        return ChangeReply()
    if change.action is Action.RETRY:
        return await retry_jobs(desk.app, ids)
    return await store.change(change, ids)


# -- new arguments


async def edit_job(desk: Desk, id: str, args: Mapping[str, Any], requeue: bool) -> Changed:
    """Give a job other arguments. Parts of the old ones that the user could not see stay."""
    async with act(desk, "edit", id, {"arguments": sorted(map(str, args)), "requeue": requeue}) as deed:
        for right in ("edit", "values", *(["retry"] if requeue else [])):
            deed.need(right)
        job = await jobs.one_job(desk, id)
        before = _plain(job.payload)
        change = edit_change(
            desk.app.declared, job, desk.access.restore(dict(args), before), desk.app.settings.max_payload
        )
        await deed.begin([job.queue])
        store = await desk.store()
        reply = await store.change(change, [id])
        if reply.changed and requeue and job.state.terminal:
            reply = await store.change(Change(action=Action.RETRY), [id])
        deed.record.count = len(reply.changed)
    return Changed(changed=reply.changed, skipped=reply.skipped, count=len(reply.changed))


def _plain(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


# -- new jobs


async def enqueue(desk: Desk, task: str, args: Mapping[str, Any] | None, options: Mapping[str, Any]) -> str:
    given = dict(args or {})
    told = {name: value for name, value in options.items() if name in ("queue", "delay", "at", "priority", "id")}
    async with act(desk, "enqueue", task, {"arguments": sorted(map(str, given)), **told}) as deed:
        chosen = call_options(options)
        declared = desk.app.tasks.get(task)
        queue = chosen.get("queue") or (declared.queue if declared is not None else "default")
        deed.need("enqueue", check_name("queue", queue))
        if declared is not None:
            # A worker runs any task it declares: naming an own queue must not call a task of another one.
            deed.need("enqueue", declared.queue)
        if REDACTED in given.values():
            raise ConfigError(f"an argument is {REDACTED!r}, which stands for a value that was hidden; give the value")
        await deed.begin([queue])
        deed.record.details["id"] = id = await _call(desk, task, declared, given, queue, chosen)
        deed.record.count = 1
    return id


def call_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON can express them; empty ones are left out, as forms send them."""
    chosen = {name: value for name, value in options.items() if value not in (None, "")}
    for name in chosen:
        if name not in CALL_NAMES:
            raise ConfigError(f"a call has no option {name!r}{hint(name, CALL_NAMES)}")
    if "at" in chosen:
        chosen["at"] = _datetime(chosen["at"])
    return chosen


async def _call(
    desk: Desk, name: str, task: Task[Any, Any] | None, args: dict[str, Any], queue: str, options: dict[str, Any]
) -> str:
    try:
        if task is None:
            if not (desk.app.handlers.get(queue) or await _is_known(desk, name)):
                known = ", ".join(sorted(desk.app.tasks)) or "none"
                raise NotFound(f"there is no task {name!r}{did_you_mean(name, desk.app.tasks)}; known are {known}")
            rest = {option: value for option, value in options.items() if option != "queue"}
            return (await desk.app.queue(queue).add(name, args, **rest)).id
        positional, named = _split(task, args)
        return (await task.options(**options).enqueue(*positional, **named)).id
    except (TypeError, AttributeError, RecursionError) as error:
        # The value is of a kind that the option's parser never gets from code.
        raise ConfigError(f"task {name}: {error}") from error


async def _is_known(desk: Desk, name: str) -> bool:
    for worker in await (await desk.store()).workers():
        seen = not desk.scoped or any(map(desk.access.sees, worker.presence.queues))
        if worker.alive and seen and name in worker.presence.declares:
            return True
    return False


def _split(task: Task[Any, Any], args: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments. ``*rest`` is the name of variable positional arguments in a payload."""
    codec = task.codec
    rest = args.pop(f"*{codec.var_positional}", None) if codec.var_positional else None
    if not rest:
        return [], args
    if not isinstance(rest, list):
        raise ConfigError(f"task {task.name}: *{codec.var_positional} is no list; give one")
    missing = [name for name in codec.positional if name not in args]
    if missing:
        raise ConfigError(f"task {task.name}: with *{codec.var_positional}, give {', '.join(missing)} too")
    return [*(args.pop(name) for name in codec.positional), *rest], args
