"""How jobs end, are deleted, and go back when their worker is lost: all that must be one step with the end."""

from __future__ import annotations

from windlass.core import lifecycle
from windlass.core.graph import because
from windlass.core.job import Finished, State
from windlass.store.memory import faults, lanes, retention, states, unique
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import Row, WorkerRow


def finish(hub: Hub, row: Row, state: State, now: int, reason: str = "", keep: str = "") -> None:
    """Move a job from any state to a terminal one: file it for retention, and tell those who wait for it."""
    was = row.state
    states.set_state(hub, row, state)
    row.finished_at, row.reason, row.worker, row.cancel = now, reason, "", False
    if row.terms is not None:
        free_lane_and_key(hub, row)
    if row.watchers:
        hub.tell(row.watchers, row.finished())
        row.watchers = None
    failed = state is State.FAILED
    if failed:
        faults.enter(hub, row)
    bucket = keep or (row.keep_failed if failed else row.keep_done) or retention.default_bucket(hub, row.queue, failed)
    row.keep_failed, row.keep_done = (bucket, row.keep_done) if failed else (row.keep_failed, bucket)
    if row.links is not None and _ended_in_graph(hub, row, was):
        return
    retention.file(hub, row, bucket)


def free_lane_and_key(hub: Hub, row: Row) -> None:
    """Free the lane and the unique key of a job with terms that is over or gone."""
    lanes.let_go(hub, row)
    if row.terms is not None and row.terms.unique:
        unique.let_go(hub, row)


def cancel(hub: Hub, row: Row, now: int, reason: str) -> None:
    """End a job that does not run; ask the worker of one that does."""
    if row.state is not State.RUNNING:
        finish(hub, row, State.CANCELLED, now, reason)
        return
    row.cancel, row.reason = True, reason
    hub.workers[row.worker].idle = False
    hub.tell({row.worker}, None)


def delete(hub: Hub, row: Row) -> None:
    """Delete the record at once, and tell those who wait for it."""
    if row.watchers:
        hub.tell(row.watchers, Finished(row.id, None, reason="deleted"))
    retention.unfile(hub, row)
    if row.links is not None:
        _stop_awaited(hub, row, row.state, "deleted")
        retention.forget_awaited(hub, row)
    hub.counts[row.queue][row.state] -= 1
    row.state, row.expires = State.SKIPPED, 0
    del hub.jobs[row.id]
    lanes.leave(hub, row)
    if row.terms is not None:
        free_lane_and_key(hub, row)


def expire(hub: Hub, row: Row, now: int) -> None:
    """End a job whose time to start has passed."""
    if row.expire_to is State.FAILED:
        row.error, row.fingerprint = lifecycle.expired_error(), "expired"
    finish(hub, row, row.expire_to, now, lifecycle.EXPIRED)


def recover(hub: Hub, worker: WorkerRow, row: Row, now: int, crashed: bool) -> State:
    """Put a claim whose worker left or died where the rules say; a ready job keeps its old place."""
    worker.running.pop(row.id, None)
    if not crashed:
        if row.cancel:
            finish(hub, row, State.CANCELLED, now, row.reason)
        else:
            states.make_ready(hub, row, keep_place=True)
        return row.state
    row.crashes += 1
    row.max_crashes = worker.max_crashes(row)
    state = lifecycle.after_crash(row.crashes, row.max_crashes, row.cancel)
    if state is State.FAILED:
        silent = now - worker.beat_at if worker.lease_until <= now else 0
        row.error = lifecycle.crash_error(row.crashes, worker.presence.id, silent)
        row.fingerprint = lifecycle.crash_mark(silent)
        finish(hub, row, state, now, lifecycle.crash_reason(silent))
    elif state is State.CANCELLED:
        finish(hub, row, state, now, row.reason)
    elif row.crash_delay:
        states.make_scheduled(hub, row, now + row.crash_delay)
    else:
        states.make_ready(hub, row, keep_place=True)
    return state


def _ended_in_graph(hub: Hub, row: Row, was: State) -> bool:
    """Put up a todo for what the end of a node means for others. False: the node is filed like any job."""
    place = row.links
    assert place is not None
    _stop_awaited(hub, row, was, row.reason or "cancelled")
    graph = place.graph
    place.culprit = ""  # the node itself is at fault; a node that was given up gets another culprit later
    if graph is None:
        return False
    graph.stamp += 1
    if place.links.outs:
        hub.todo("spread", graph, row)
    if place.links.aftermath:
        return False
    graph.counts[row.state] += 1
    return True


def _stop_awaited(hub: Hub, row: Row, was: State, reason: str) -> None:
    """Stop the graph that a job waited for, when the job itself no longer waits."""
    awaited = hub.graphs.get(row.links.awaits) if row.links is not None and was is State.WAITING else None
    if awaited is not None and awaited.under_way:
        if reason == lifecycle.EXPIRED:  # the job's time has passed, not that of the graph's jobs
            reason = because(row.task, row.id, State.CANCELLED, expired=True)
        hub.stop(awaited, "cancel", reason)
