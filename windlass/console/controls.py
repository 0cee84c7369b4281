"""Actions on queues, tasks, breakers, workers, schedules and workflows: each checks its right and leaves a record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from windlass.console import show
from windlass.console.audit import AuditedAction, act
from windlass.console.desk import Desk
from windlass.console.overview import one_flowing
from windlass.console.queues import breaker_rows, doubt, sees_gate, worker_row
from windlass.console.replies import Changed, QueueRow, ScheduleRow, TaskRow, WorkerRow
from windlass.console.schedules import one_schedule, queue_of, schedule_of, timing_of
from windlass.console.tasks import one_task
from windlass.console.workflow_replies import WorkflowDetail
from windlass.console.workflows import graph_of, one_workflow
from windlass.core.hints import did_you_mean
from windlass.core.ids import check_name
from windlass.core.job import State
from windlass.core.option_parsers import parse_states
from windlass.core.schedule import begin, decode_plan
from windlass.core.terms import queue_gate
from windlass.core.timing import Cron, find_zone
from windlass.errors import ConfigError, EnqueueError, Forbidden, NotFound, WindlassError
from windlass.handles.gates import retune
from windlass.limits.breakers import Breaker, BreakerInfo
from windlass.operate import orders
from windlass.operate.timetable import TRIES, put, read_row
from windlass.store.answers import MAX_BATCH
from windlass.store.base import Store
from windlass.store.jobs import Action, Change, ChangeReply, Query
from windlass.store.reads import WorkerInfo

STEPS = 20
"""Steps of a thousand jobs that one call makes."""


# -- queues


async def on_queue(
    desk: Desk, action: str, right: str, name: str, do: Callable[[], Awaitable[None]], **details: Any
) -> QueueRow:
    async with act(desk, action, name, details) as deed:
        deed.need("read")  # the answer shows the queue, so the right to read is checked before the change
        deed.need(right, check_name("queue", name))
        note = await doubt(desk, name)
        await deed.begin([name])
        await do()
        deed.record.count = 1
    try:
        row = await one_flowing(desk, name)
    except NotFound:  # the queue has no jobs and no limits any more, so there is nothing to show
        row = QueueRow(name=name)
    return msgspec.structs.replace(row, note=note) if note else row


async def drain_queue(desk: Desk, name: str) -> QueueRow:
    """Refuse new jobs in a queue. The caller sees in the queue when it is empty."""

    async def drain() -> None:
        await retune(desk.app, queue_gate(name), draining=True)

    return await on_queue(desk, "drain_queue", "pause", name, drain)


async def change_queue(
    desk: Desk, action: str, name: str, change: Change, states: Sequence[str], confirm: str | None = None
) -> Changed:
    """Change all jobs of a queue in some states, in bounded steps. With a ``cursor`` in the answer there are more: call
    again.
    """
    details = {"states": list(states), **({"to": change.queue} if change.queue else {})}
    async with act(desk, action, name, details) as deed:
        deed.need("purge" if change.action is Action.DELETE else "move", check_name("queue", name))
        if change.action is Action.MOVE:
            deed.need("move", change.queue)
        if confirm is not None and confirm != name:
            raise ConfigError(f"to purge queue {name!r}, type its name: {confirm!r} is another")
        if change.queue == name:
            raise ConfigError(f"queue {name}: its jobs are in {name} already")
        named = [name, *([change.queue] if change.queue else [])]
        note = "; ".join(filter(None, [await doubt(desk, each) for each in named]))
        wanted = parse_states(list(states))
        if not wanted or State.RUNNING in wanted:
            raise ConfigError(f"queue {name}: running jobs are left alone; give other states")
        await deed.begin([name])
        done = await _in_steps(desk, deed, Query(queue=name, states=wanted, oldest_first=True), change)
    return msgspec.structs.replace(done, note=note) if note else done


async def _in_steps(desk: Desk, deed: AuditedAction, query: Query, change: Change) -> Changed:
    store, cursor = await desk.store(), ""
    skipped: dict[str, str] = {}
    for _ in range(STEPS):
        page = msgspec.structs.replace(query, after=cursor, limit=MAX_BATCH)
        reply = await store.change(change, query=page)
        deed.record.count += len(reply.changed)
        skipped, cursor = dict([*skipped.items(), *reply.skipped.items()][:MAX_BATCH]), reply.cursor
        if not cursor:
            break
    return Changed(skipped=skipped, cursor=cursor, count=deed.record.count)


# -- tasks and breakers


async def on_task(
    desk: Desk, action: str, right: str, name: str, do: Callable[[], Awaitable[None]], **details: Any
) -> TaskRow:
    async with act(desk, action, name, details) as deed:
        deed.need(right)
        row = await one_task(desk, name)
        if not sees_gate(desk, "task", name):
            raise Forbidden(f"task {name!r} is not declared here, and nobody knows whose queues it is for", right=right)
        await deed.begin([row.queue] if row.queue else [])
        await do()
        deed.record.count = 1
    return await one_task(desk, name)


async def on_breaker(
    desk: Desk, action: str, name: str, do: Callable[[Breaker], Awaitable[BreakerInfo]], **details: Any
) -> BreakerInfo:
    async with act(desk, action, name, details) as deed:
        deed.need("tune")
        known = [info.name for info in await breaker_rows(desk)]
        if name not in known:
            raise NotFound(f"there is no breaker {name!r}{did_you_mean(name, known)}")
        await deed.begin()
        # Not app.breaker(), which would make a breaker for every name a user types.
        info = await do(desk.app.breakers.known.get(name) or Breaker(desk.app.connections, name))
        deed.record.count = 1
    return info


# -- workers


async def order_worker(desk: Desk, order: str, id: str, reason: str) -> WorkerRow:
    """Let a worker claim no more, claim again, or end."""

    said = show.one_line(reason, 500)

    async def give(store: Store, found: str) -> None:
        await orders.give(store, order, [found], said)

    info = await _tell_worker(desk, f"{order}_worker", id, {"reason": reason} if reason else {}, give)
    return worker_row(desk, info, [], orders.Given(orders.Order(order), 0, said))


async def serve_queue(desk: Desk, id: str, queue: str, on: bool) -> WorkerRow:
    """Let a worker serve a queue beside its others, or leave it."""

    async def give(store: Store, found: str) -> None:
        await orders.serve(store, queue, [found], on=on)

    info = await _tell_worker(desk, "serve_queue" if on else "leave_queue", id, {"queue": queue}, give, queue)
    return worker_row(desk, info, [])


async def _tell_worker(
    desk: Desk, action: str, id: str, details: dict[str, Any], give: Callable[[Store, str], Awaitable[None]],
    queue: str = "",
) -> WorkerInfo:  # fmt: skip
    """Give a worker an order. The user must see all its queues. Answers the worker as it was: it may have
    left by now.
    """
    async with act(desk, action, id, details) as deed:
        deed.need("read")
        deed.need("workers", check_name("queue", queue) if queue else None)
        store = await desk.store()
        workers = [info for info in await store.workers() if any(map(desk.access.sees, info.presence.queues))]
        [found] = orders.find_workers([id], workers)
        deed.record.target = found
        [info] = [info for info in workers if info.presence.id == found]
        if not all(map(desk.access.sees, info.presence.queues)):
            raise Forbidden(f"worker {found} also serves queues that {desk.access.user} may not see", right="workers")
        await deed.begin(info.presence.queues)
        await give(store, found)
        deed.record.count = 1
    return info


# -- schedules


async def on_schedule(desk: Desk, action: str, name: str, do: Callable[[], Awaitable[Any]], **details: Any) -> Any:
    async with act(desk, action, name, details) as deed:
        deed.need("schedules")
        await deed.begin([queue_of(await schedule_of(desk, name))])
        answer = await do()
        deed.record.count = 1
    return answer


async def edit_schedule(desk: Desk, name: str, spec: str, tz: str) -> ScheduleRow:
    """Change the times of a schedule and nothing else. A schedule declared by the code then belongs to the operator."""

    async def change() -> None:
        store = await desk.store()
        for _ in range(TRIES):
            row, now = await read_row(store, name)
            if row is None:
                raise NotFound(f"there is no schedule {name!r}")
            before = decode_plan(row.body)
            zone = find_zone(tz, f"schedule {name}").key if tz else before.tz
            timing = timing_of(spec, zone)
            own = timing.tz if isinstance(timing, Cron) else ""
            plan = msgspec.structs.replace(before, timing=timing, tz=own or zone, code=False)
            begun, slot = begin(plan, now)
            if not slot:
                raise ConfigError(f"schedule {name} would never run: {spec}")
            changed = msgspec.structs.replace(row, body=begun.encode(), next_slot=slot)
            if (await put(store, [changed]))[0] is not None:
                return
        raise EnqueueError(f"schedule {name} is being changed by others all the time")

    await on_schedule(desk, "edit_schedule", name, change, spec=spec, tz=tz)
    return await one_schedule(desk, name)


# -- workflows


async def on_workflow(desk: Desk, action: str, right: str, id: str, change: Change) -> WorkflowDetail:
    reply = await change_workflows(desk, action, right, [id], change)
    if id in reply.skipped:
        await graph_of(desk, id)
        raise WindlassError(f"workflow {id} was left as it is: it is {reply.skipped[id]}")
    return await one_workflow(desk, id)


async def change_workflows(desk: Desk, action: str, right: str, ids: Sequence[str], change: Change) -> Changed:
    """Change workflows as wholes. All queues of a workflow must be in the user's scope."""
    wanted = list(dict.fromkeys(ids))
    target = wanted[0] if len(wanted) == 1 else f"{len(wanted)} workflows"
    details = {**({"reason": change.reason} if change.reason else {}), **({"ids": wanted} if len(wanted) > 1 else {})}
    async with act(desk, action, target, details) as deed:
        deed.need(right)
        if not wanted or len(wanted) > MAX_BATCH:
            raise ConfigError(f"{action}: give from 1 to {MAX_BATCH:,} ids, not {len(wanted):,}")
        known = [id for id in wanted if await _is_there(desk, id)]
        await deed.begin()
        reply = await (await desk.store()).change(change, known) if known else ChangeReply()
        deed.record.count = len(reply.changed)
    skipped = {id: "running" if why == State.WAITING else why for id, why in reply.skipped.items()}
    missing = {id: "no such workflow" for id in wanted if id not in known}
    return Changed(changed=reply.changed, skipped=missing | skipped, count=len(reply.changed))


async def _is_there(desk: Desk, id: str) -> bool:
    try:
        await graph_of(desk, id)
    except NotFound:
        return False
    return True


def cancelling(reason: str) -> Change:
    return Change(action=Action.CANCEL, reason=show.one_line(reason, 500))
