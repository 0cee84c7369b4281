"""What operators do to jobs by id, and the listing of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from windlass.core.event import Group
from windlass.core.job import State
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import Action, Change, ChangeReply, Query
from windlass.store.memory import endings, lanes, states, unique
from windlass.store.memory.graphs import change_graph, change_member, retry_all
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import Row, event_row
from windlass.store.memory.spreading import graph_of, refuses
from windlass.store.memory.todos import open_early, restart, work_off
from windlass.store.reads import Page
from windlass.store.shared import allowed


def change(hub: Hub, change: Change, ids: Sequence[str], query: Query | None, limit: int, now: int) -> ChangeReply:
    reply = ChangeReply([], {}, "")
    if query is not None:
        page = find(hub, query, limit)
        ids, reply.cursor = [job.id for job in page.jobs], page.cursor
    if change.action is Action.RETRY:
        ids = sorted(ids, key=lambda id: row.n if (row := hub.known(id)) else 0)
    events: list[list[object]] = []
    groups: list[Group] = []
    for id in ids:
        if (why_not := act(hub, id, change, now, events, groups)) is not None:
            reply.skipped[id] = why_not
        else:
            reply.changed.append(id)
    if change.action in EVENTS:
        groups.append((EVENTS[change.action], "", events))
    hub.record(now, groups + work_off(hub, now))
    return reply


def act(hub: Hub, id: str, change: Change, now: int, events: list[list[object]], groups: list[Group]) -> str | None:
    """Apply one change to one id. Answers the reason if the change is not possible."""
    if (graph := hub.graphs.get(id)) is not None:
        return change_graph(hub, graph, change, now)
    row = hub.jobs.get(id)
    if row is None and (node := hub.known(id)) is not None and node.task:
        groups += open_early(hub, node, now)
        row = node
    if row is None:
        return "no such job"
    if row.state not in allowed(change):
        return str(row.state)
    if row.links is not None and (why_not := change_member(hub, row, change.action)) is not None:
        return why_not
    if change.action is Action.RETRY and (held := unique.in_the_way(hub, row, now)) is not None:
        return held
    if change.action is Action.RETRY and refuses(row):
        retry_all(hub, graph_of(row), now)  # the whole graph, or the end would run before the nodes it waits for
        return None
    if not (change.action is Action.CANCEL and row.state is State.RUNNING):
        events.append([*event_row(row), {"reason": change.reason}] if change.reason else event_row(row))
    ACTIONS[change.action](hub, row, change, now)
    return None


def cancel(hub: Hub, row: Row, change: Change, now: int) -> None:
    endings.cancel(hub, row, now, change.reason or "cancelled")


def retry(hub: Hub, row: Row, change: Change, now: int) -> None:
    restart(hub, row)
    unique.hold_again(hub, row)
    if row.links is not None and row.links.open > 0:
        states.make_waiting(hub, row)
    else:
        states.make_ready(hub, row)


def promote(hub: Hub, row: Row, change: Change, now: int) -> None:
    states.make_ready(hub, row)


def move(hub: Hub, row: Row, change: Change, now: int) -> None:
    if not row.state.terminal:
        lanes.let_go(hub, row)
    hub.counts[row.queue][row.state] -= 1
    row.queue, row.rank = change.queue, 0
    hub.counts[row.queue][row.state] += 1
    if row.state is State.READY:
        states.make_ready(hub, row)


def reprioritise(hub: Hub, row: Row, change: Change, now: int) -> None:
    row.priority = change.priority
    in_strict_lane = row.lane is not None and row.lane.strict  # where priority has no effect
    if row.state is State.READY and not in_strict_lane:
        states.make_ready(hub, row)


def reschedule(hub: Hub, row: Row, change: Change, now: int) -> None:
    due = max(change.at, now + change.delay if change.delay else 0)
    if due > now:
        states.make_scheduled(hub, row, due)
    elif row.state is State.SCHEDULED:
        states.make_ready(hub, row)


def edit(hub: Hub, row: Row, change: Change, now: int) -> None:
    row.payload = change.payload
    if change.terms is not msgspec.UNSET:
        row.terms = change.terms


def delete(hub: Hub, row: Row, change: Change, now: int) -> None:
    endings.delete(hub, row)


ACTIONS: dict[Action, Callable[[Hub, Row, Change, int], None]] = {
    Action.CANCEL: cancel,
    Action.RETRY: retry,
    Action.PROMOTE: promote,
    Action.MOVE: move,
    Action.REPRIORITISE: reprioritise,
    Action.RESCHEDULE: reschedule,
    Action.EDIT: edit,
    Action.DELETE: delete,
}
EVENTS = {Action.CANCEL: "cancelled", Action.RETRY: "replayed", Action.DELETE: "deleted"}


def find(hub: Hub, query: Query, limit: int | None = None) -> Page:
    """A page of jobs in the order they were accepted. Other engines walk an index; the bound on records looked at is
    the same.
    """
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
