"""Tasks that this app or a live worker declares, with a form for each whose signature is known here."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from windlass.calls.schema import task_schema
from windlass.console.desk import Desk
from windlass.console.forms import fields_of
from windlass.console.replies import TaskRow
from windlass.console.store_state import StoreState, store_state
from windlass.console.task_numbers import NOTHING, task_numbers
from windlass.core.chart import OTHER
from windlass.core.hints import did_you_mean
from windlass.core.terms import task_gate
from windlass.errors import NotFound


async def task_rows(desk: Desk, span: str = "") -> list[TaskRow]:
    """The tasks by name. ``span``: add their numbers over this time, and a last row for runs that are not
    told apart.
    """
    desk.need("read")
    now = await store_state(desk)
    names = {name for worker in now.workers if worker.alive for name in worker.presence.declares}
    known = sorted({name for name in names if not name.startswith("*")} | desk.app.tasks.keys())
    rows = [row for name in known if (row := task_row(desk, now, name)) is not None]
    if not span:
        return rows
    numbers = await task_numbers(desk, span)
    if OTHER in numbers:
        rows.append(TaskRow(name=OTHER, queue="", here=False))
    return [msgspec.structs.replace(row, numbers=numbers.get(row.name, NOTHING)) for row in rows]


def task_row(desk: Desk, now: StoreState, name: str) -> TaskRow | None:
    """One task; None if its queues are not in the user's scope."""
    task = desk.app.tasks.get(name)
    workers = [worker for worker in now.workers if worker.alive and name in worker.presence.declares]
    gate = now.gates.get(task_gate(name))
    paused = gate is not None and bool(gate.limits.paused)
    if task is None:
        # Its queue is not known here: users see it if they see a queue of a worker that declares it.
        seen = not desk.scoped or any(desk.access.sees(queue) for one in workers for queue in one.presence.queues)
        if not workers or not seen:
            return None
        versions = [version for worker in workers for version in worker.presence.declares[name].versions]
        return TaskRow(
            name=name, queue="", here=False, workers=len(workers), paused=paused, version=max(versions, default=1)
        )
    if not desk.access.sees(task.queue):
        return None
    return TaskRow(
        name=name, queue=task.queue, here=True, version=task.version, doc=inspect.cleandoc(task.__doc__ or ""),
        fields=fields_of(task), workers=len(workers), paused=paused, more=bool(task.codec.var_keyword),
    )  # fmt: skip


async def one_task(desk: Desk, name: str) -> TaskRow:
    desk.need("read")
    row = task_row(desk, await store_state(desk), name)
    if row is None:
        hint = did_you_mean(name, [row.name for row in await task_rows(desk)])
        raise NotFound(f"there is no task {name!r}{hint}: neither this app nor a live worker declares it")
    return row


async def one_schema(desk: Desk, name: str) -> dict[str, Any]:
    """JSON Schema of a task that this app declares."""
    row = await one_task(desk, name)
    if not row.here:
        raise NotFound(f"task {name!r} is not declared by this app, so nobody here knows its arguments")
    return task_schema(desk.app.tasks[name])
