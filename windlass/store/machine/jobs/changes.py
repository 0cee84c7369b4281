"""Operators' actions on jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.job import Finished
from windlass.core.terms import Terms, is_strict, lane_of
from windlass.store.jobs import Action, Change, ChangeReply, Query
from windlass.store.machine.codes import CANCELLED, FIRST_TERMINAL, READY, RUNNING, SCHEDULED, to_text
from windlass.store.machine.flow.lanes import leave
from windlass.store.machine.flow.uniques import take_again, wake_for_due
from windlass.store.machine.graphs import membership
from windlass.store.machine.graphs.todos import work_off
from windlass.store.machine.jobs.expiry import SHIFT_READY
from windlass.store.machine.jobs.moves import shift
from windlass.store.machine.reads.find import find
from windlass.store.machine.tx import Tx, encode, ids_json
from windlass.store.shared import STATES, allowed


class Target(NamedTuple):
    """A job an action is about."""

    n: int
    id: str
    task: str
    queue: str
    state: int
    worker: int
    bucket: int
    crashes: int
    max_crashes: int
    node: int
    lane: str | None


def change(tx: Tx, change: Change, ids: Sequence[str], query: Query | None, limit: int) -> ChangeReply:
    reply = ChangeReply([], {}, "")
    if query is not None:
        page = find(tx, query, limit, patience=0.0)
        ids, reply.cursor = [job.id for job in page.jobs], page.cursor
    graphs = membership.on_graphs(tx, change, ids) if tx.graphs else {}
    others = [id for id in ids if id not in graphs]
    found = {row[1]: Target(*row) for row in (tx.all(tx.sql.changes.TARGETS, (ids_json(others),)) if others else ())}
    if change.action is Action.RETRY:
        ids = sorted(ids, key=lambda id: found[id].n if id in found else 0)
    members = [target.node for target in found.values() if target.node]
    refused = membership.why_not(tx, change.action, members) if members else {}
    targets: dict[str, Target] = {}
    for id in ids:
        target = found.get(id)
        reason = graphs[id] if id in graphs else _why_not(change, target, refused)
        if reason:
            reply.skipped[id] = reason
        elif target is not None:
            targets[id] = target
    if change.action is Action.RETRY and targets:
        for id, reason in take_again(tx, [target.n for target in targets.values()]).items():
            reply.skipped[id] = reason
            del targets[id]
    if targets:
        ACTIONS[change.action](tx, change, list(targets.values()))
    reply.changed = [id for id in dict.fromkeys(ids) if id not in reply.skipped]
    work_off(tx)
    return reply


def _why_not(change: Change, target: Target | None, refused: Mapping[int, str]) -> str:
    if target is None:
        return "no such job"
    if STATES[target.state] not in allowed(change):
        return str(STATES[target.state])
    return refused.get(target.node, "")


def _event(target: Target, change: Change) -> list[Any]:
    row: list[Any] = [target.id, target.task, target.queue]
    return [*row, {"reason": change.reason}] if change.reason else row


def numbers(targets: list[Target]) -> str:
    return ids_json(target.n for target in targets)


def cancel(tx: Tx, change: Change, targets: list[Target]) -> None:
    reason = change.reason or "cancelled"
    running = [target for target in targets if target.state == RUNNING]
    pending = [target for target in targets if target.state != RUNNING]
    shift(tx, ([t.n, CANCELLED, 0, 0, reason, None, None, t.crashes, t.max_crashes] for t in pending))
    tx.record("cancelled", "", [_event(target, change) for target in pending])
    if running:
        tx.run(tx.sql.changes.ASK_TO_CANCEL, (reason, numbers(running)))
        for (name,) in tx.all(tx.sql.changes.ROUSE, (ids_json({target.worker for target in running}),)):
            tx.tell(name)


def retry(tx: Tx, change: Change, targets: list[Target]) -> None:
    members = [target.node for target in targets if target.node]
    done = membership.retry(tx, members) if members else ()
    news = [_event(target, change) for target in targets if not target.node or target.node in done]
    tx.record("replayed", "", news)
    targets = [target for target in targets if not target.node]
    tx.run(tx.sql.changes.LESS, (encode(list(Counter(target.bucket for target in targets).items())).decode(),))
    tx.run(tx.sql.nodes.AGAIN, (numbers(targets),))
    make_ready(tx, [target._replace(crashes=0) for target in targets])


def make_ready(tx: Tx, targets: list[Target]) -> None:
    in_lanes = shift(tx, ([t.n, *SHIFT_READY, t.crashes, t.max_crashes] for t in targets))
    for queue, count in (Counter(target.queue for target in targets) - in_lanes).items():
        tx.wake(queue, count)


def promote(tx: Tx, change: Change, targets: list[Target]) -> None:
    make_ready(tx, targets)


def move(tx: Tx, change: Change, targets: list[Target]) -> None:
    leave(tx, numbers(targets), deleted=False)
    tx.run(tx.sql.changes.MOVE, (change.queue, numbers(targets)))  # a place in a strict lane is one in a queue
    for target in targets:
        tx.count(target.queue, target.state, -1)
        tx.count(change.queue, target.state, 1)
    make_ready(tx, [target._replace(queue=change.queue) for target in targets if target.state == READY])


def reprioritise(tx: Tx, change: Change, targets: list[Target]) -> None:
    tx.run(tx.sql.changes.PRIORITY, (change.priority, numbers(targets)))
    # In a strict lane priority does not count.
    placed = [target for target in targets if target.state == READY and not is_strict(target.lane or "")]
    shift(tx, ([t.n, *SHIFT_READY, t.crashes, t.max_crashes] for t in placed))


def reschedule(tx: Tx, change: Change, targets: list[Target]) -> None:
    due = change.at or tx.now + change.delay
    if due > tx.now:
        wake_for_due(tx, due, targets[0].queue)
        shift(tx, ([t.n, SCHEDULED, due, 0, None, None, None, t.crashes, t.max_crashes] for t in targets))
    else:
        make_ready(tx, [target for target in targets if target.state != READY])


def edit(tx: Tx, change: Change, targets: list[Target]) -> None:
    tx.run(tx.sql.changes.PAYLOAD, (to_text(change.payload), numbers(targets)))
    if change.terms is not msgspec.UNSET:
        tx.run(
            tx.sql.changes.TERMS, (encode([_terms_row(target, change.terms or None) for target in targets]).decode(),)
        )


def _terms_row(target: Target, terms: Terms | None) -> list[Any]:
    lane = lane_of(terms, target.task, False) or None
    if terms is None:
        return [target.n, None, lane, 0]
    return [target.n, encode(terms).decode(), lane, terms.seq]


def delete(tx: Tx, change: Change, targets: list[Target]) -> None:
    waited_for = numbers([target for target in targets if target.state < FIRST_TERMINAL])
    for id, name in tx.all(tx.sql.changes.WATCHED, (waited_for,)):
        tx.tell(name, Finished(id, None, reason="deleted"))
    leave(tx, numbers(targets))
    tx.run(tx.sql.changes.DELETE, (numbers(targets),))
    tx.record("deleted", "", [_event(target, change) for target in targets])


ACTIONS: dict[Action, Callable[[Tx, Change, list[Target]], None]] = {
    Action.CANCEL: cancel,
    Action.RETRY: retry,
    Action.PROMOTE: promote,
    Action.MOVE: move,
    Action.REPRIORITISE: reprioritise,
    Action.RESCHEDULE: reschedule,
    Action.EDIT: edit,
    Action.DELETE: delete,
}
