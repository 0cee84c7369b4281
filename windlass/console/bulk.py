"""An action on all jobs that a filter finds, in steps: the caller goes on with the cursor, and may stop after any step.

No state is kept between steps. The cursor names the audit record that all steps share.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from windlass.console import job_rows, jobs, show
from windlass.console.actions import apply, make_change
from windlass.console.audit import act, record_at
from windlass.console.desk import Desk, page_size
from windlass.console.replies import Changed, Count
from windlass.console.search import SearchPlan, plan_search, search
from windlass.console.store_state import store_state
from windlass.core.job import Job, State
from windlass.errors import ConfigError
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Change, ChangeReply
from windlass.store.shared import ALLOWED

COUNTED, COUNT_SECONDS = 20_000, 1.0
"""How far a count goes: records and seconds."""

EXPORTED = 100_000
_MARK = "~"


# -- counting


async def count(desk: Desk, filter: str, action: str = "") -> Count:
    """How many jobs a filter finds in states the action applies to."""
    plan = for_action(plan_search(desk, filter), action)
    if plan is None:
        return Count(count=0, exact=True)
    if plan.indexed and not _narrowed(plan):
        return Count(count=_counted(desk, plan, await store_state(desk)), exact=True)
    found, looked, cursor, until = 0, 0, "", time.monotonic() + COUNT_SECONDS
    while True:
        page = await search(desk, plan, cursor, MAX_BATCH)
        found, looked, cursor = found + len(page.jobs), looked + max(page.looked, 1), page.cursor
        if not cursor:
            return Count(count=found, exact=True, looked=looked)
        if looked >= COUNTED or time.monotonic() > until:
            return Count(count=found, exact=False, looked=looked)


def _narrowed(plan: SearchPlan) -> bool:
    query = plan.query
    return bool(query.task or query.fingerprint or query.worker or query.since or query.until)


def _counted(desk: Desk, plan: SearchPlan, now: Any) -> int:
    """The number from the store's counts by queue and state."""
    names = [str(state) for state in plan.query.states or State]
    queues = [
        queue
        for queue in now.queues
        if desk.access.sees(queue.name) and plan.query.queue in ("", queue.name)
    ]  # fmt: skip
    return sum(queue.counts.get(name, 0) for queue in queues for name in names)


def for_action(plan: SearchPlan, action: str) -> SearchPlan | None:
    """The part of a filter that an action applies to; None if there is none."""
    if not action:
        return plan
    make_known(action)
    allowed = ALLOWED[Action(action)]
    if action == "retry":
        allowed |= ALLOWED[Action.PROMOTE]
    states = tuple(state for state in plan.query.states or State if state in allowed)
    # Jobs run again in the order they were accepted, also over several steps.
    query = msgspec.structs.replace(plan.query, states=states, oldest_first=action == "retry")
    return plan._replace(query=query) if states else None


def make_known(action: str) -> None:
    if action not in jobs.RIGHTS or action == "edit":
        make_change(action, {})


# -- changing


async def bulk(desk: Desk, action: str, filter: str, after: str, limit: int, params: Mapping[str, Any]) -> Changed:
    """Do one step."""
    key, _, cursor = after.partition(_MARK)
    store, most = await desk.store(), page_size(limit, MAX_BATCH)
    before = await record_at(store, key) if key else None
    mine = before is not None and (before.user, before.action, before.target) == (
        desk.access.user, f"bulk {action}", filter,
    )  # fmt: skip
    async with act(desk, f"bulk {action}", filter, params, key=key if mine else "") as deed:
        if after and not mine:
            raise ConfigError(f"cursor {after[:60]!r} is not one that this action on this filter gave out")
        if before is not None:
            deed.record.at, deed.record.count = before.at, before.count
        change = make_change(action, params)
        deed.need("purge" if action == "delete" else jobs.RIGHTS[action])
        if change.action is Action.MOVE:
            deed.need("move", change.queue)
        plan = for_action(plan_search(desk, filter), action)
        await deed.begin([plan.query.queue] if plan is not None and plan.query.queue else [])
        reply = await step(desk, plan, change, cursor, most) if plan is not None else ChangeReply()
        deed.record.count += len(reply.changed)
        onward = f"{deed.key}{_MARK}{reply.cursor}" if reply.cursor else ""
    return Changed(changed=reply.changed, skipped=reply.skipped, cursor=onward, count=deed.record.count)


async def step(desk: Desk, plan: SearchPlan, change: Change, cursor: str, most: int) -> ChangeReply:
    """Do one step. If the store can answer the whole filter, it finds and changes the jobs in one step of its own."""
    store = await desk.store()
    if plan.indexed and not desk.scoped and change.action is not Action.RETRY:
        if cursor and not cursor.isdigit():
            raise ConfigError(f"cursor {cursor[:40]!r} is not one a step gave out")
        query = msgspec.structs.replace(plan.query, after=cursor, limit=most)
        return await store.change(change, query=query, limit=most)
    found = await search(desk, plan, cursor, most)
    reply = await apply(desk, store, change, [job.id for job in found.jobs])
    return ChangeReply(reply.changed, reply.skipped, found.cursor)


# -- exporting


async def export(desk: Desk, filter: str, limit: int) -> AsyncIterator[bytes]:
    """A line of JSON per job, with arguments and result, the newest first."""
    async with act(desk, "export", filter) as deed:
        deed.need("values")
        plan, left, cursor = plan_search(desk, filter), page_size(limit, EXPORTED), ""
        await deed.begin([plan.query.queue] if plan.query.queue else [])
        while left:
            page = await search(desk, plan, cursor, min(left, MAX_BATCH))
            for job in page.jobs:
                yield _line(desk, job)
            deed.record.count += len(page.jobs)
            left, cursor = left - len(page.jobs), page.cursor
            if not cursor:
                break


def _line(desk: Desk, job: Job) -> bytes:
    row = msgspec.to_builtins(job_rows.job_row(desk.access, job))
    row["args"], row["result"] = _raw(desk, job.payload), _raw(desk, job.result)
    return msgspec.json.encode(row) + b"\n"


def _raw(desk: Desk, data: bytes | None) -> msgspec.Raw | None:
    """A value as it stands in an exported line; None if it is not JSON."""
    shown = show.cleaned(desk.access, data) if data is not None else None
    if shown is None:
        return None
    try:
        return msgspec.Raw(msgspec.json.format(shown, indent=-1))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
