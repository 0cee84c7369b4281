"""Operators' actions and listings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from windlass.core.job import Finished, State
from windlass.store.base import MAX_BATCH, Action, Change, ChangeReply, Page, Query
from windlass.store.memory.hub import Hub, event_row
from windlass.store.memory.records import Row
from windlass.store.shared import ALLOWED


def change(hub: Hub, change: Change, ids: Sequence[str], query: Query | None, limit: int, now: int) -> ChangeReply:
    reply = ChangeReply([], {}, "")
    if query is not None:
        page = find(hub, query, limit)
        ids, reply.cursor = [job.id for job in page.jobs], page.cursor
    events: list[list[object]] = []
    for id in ids:
        row = hub.jobs.get(id)
        if row is None:
            reply.skipped[id] = "no such job"
        elif row.state not in ALLOWED[change.action]:
            reply.skipped[id] = str(row.state)
        else:
            if not (change.action is Action.CANCEL and row.state is State.RUNNING):
                events.append([*event_row(row), {"reason": change.reason}] if change.reason else event_row(row))
            ACTIONS[change.action](hub, row, change, now)
            reply.changed.append(id)
    hub.record(now, [(EVENTS[change.action], "", events)] if change.action in EVENTS else [])
    return reply


def cancel(hub: Hub, row: Row, change: Change, now: int) -> None:
    if row.state is State.RUNNING:
        row.cancel, row.reason = True, change.reason or "cancelled"
        hub.workers[row.worker].idle = False
        hub.tell({row.worker}, None)
    else:
        hub.finish(row, State.CANCELLED, now, change.reason or "cancelled")


def retry(hub: Hub, row: Row, change: Change, now: int) -> None:
    unfile(hub, row)
    row.run += 1
    row.attempt = row.crashes = row.snoozes = row.finished_at = row.expires = 0
    row.result = row.error = row.progress = None
    row.reason = row.fingerprint = ""
    hub.make_ready(row)
    hub.wake(row.queue, 1)


def promote(hub: Hub, row: Row, change: Change, now: int) -> None:
    hub.make_ready(row)
    hub.wake(row.queue, 1)


def move(hub: Hub, row: Row, change: Change, now: int) -> None:
    hub.counts[row.queue][row.state] -= 1
    row.queue = change.queue
    hub.counts[row.queue][row.state] += 1
    if row.state is State.READY:
        hub.make_ready(row)
        hub.wake(row.queue, 1)


def reprioritise(hub: Hub, row: Row, change: Change, now: int) -> None:
    row.priority = change.priority
    if row.state is State.READY:
        hub.make_ready(row)


def edit(hub: Hub, row: Row, change: Change, now: int) -> None:
    row.payload = change.payload


def delete(hub: Hub, row: Row, change: Change, now: int) -> None:
    if row.watchers:
        hub.tell(row.watchers, Finished(row.id, None, reason="deleted"))
    unfile(hub, row)
    hub.counts[row.queue][row.state] -= 1
    row.state, row.expires = State.SKIPPED, 0
    del hub.jobs[row.id]


def unfile(hub: Hub, row: Row) -> None:
    bucket = row.keep_failed if row.state is State.FAILED else row.keep_done
    if row.state.terminal and bucket in hub.buckets:
        hub.buckets[bucket].pop(row.id, None)


ACTIONS: dict[Action, Callable[[Hub, Row, Change, int], None]] = {
    Action.CANCEL: cancel,
    Action.RETRY: retry,
    Action.PROMOTE: promote,
    Action.MOVE: move,
    Action.REPRIORITISE: reprioritise,
    Action.EDIT: edit,
    Action.DELETE: delete,
}
EVENTS = {Action.CANCEL: "cancelled", Action.RETRY: "replayed", Action.DELETE: "deleted"}


def find(hub: Hub, query: Query, limit: int | None = None) -> Page:
    """A page by acceptance order. A real engine walks an index; the bound on what is looked at is the same."""
    limit = min(query.limit, limit or MAX_BATCH, MAX_BATCH)
    page = Page([], "")
    for looked, row in enumerate(behind(hub, query)):
        if len(page.jobs) == limit or looked == hub.settings.scan_limit:
            page.partial = len(page.jobs) < limit
            break
        page.cursor = str(row.n)
        if fits(row, query):
            page.jobs.append(row.job())
    else:
        page.cursor = ""
    return page


def behind(hub: Hub, query: Query) -> Iterable[Row]:
    rows: Iterable[Row] = hub.jobs.values() if query.oldest_first else reversed(hub.jobs.values())
    if not query.after:
        return rows
    after = int(query.after)
    return (row for row in rows if (row.n > after if query.oldest_first else row.n < after))


def fits(row: Row, query: Query) -> bool:
    return (
        (not query.queue or row.queue == query.queue)
        and (not query.states or row.state in query.states)
        and (not query.task or row.task == query.task)
        and (not query.fingerprint or row.fingerprint == query.fingerprint)
        and (not query.worker or row.worker == query.worker)
        and (not query.since or row.enqueued_at >= query.since)
        and (not query.until or row.enqueued_at < query.until)
    )
