"""What time does to jobs: it makes them due, expired, orphaned, parked or pruned. Every step is bounded."""

from __future__ import annotations

import heapq

from windlass.core import lifecycle
from windlass.core.event import Group
from windlass.core.event import Row as EventRow
from windlass.core.job import State
from windlass.store.answers import MAX_BATCH
from windlass.store.jobs import SweepReply
from windlass.store.memory import audits, endings, gates, items, logs, retention, waking
from windlass.store.memory.hub import Hub
from windlass.store.memory.records import ASIDE, Row, WorkerRow, event_row
from windlass.store.memory.todos import work_off

CAN_EXPIRE = (State.WAITING, State.SCHEDULED, State.READY)


def sweep(hub: Hub, now: int, limit: int) -> SweepReply:
    reply = SweepReply(dead_workers=[])
    reply.expired = expire_due(hub, now, limit)
    left = limit - reply.expired
    promoted = waking.promote(hub, now, left)
    reply.promoted = sum(promoted.values())
    left -= reply.promoted
    left -= reap(hub, now, left, reply)
    reply.parked = park(hub, now, left)
    left -= reply.parked
    for bucket in list(hub.buckets):
        pruned = retention.prune(hub, bucket, now, left)
        reply.pruned, left = reply.pruned + pruned, left - pruned
    left -= logs.sweep(hub, now, left)
    fade(hub, now)
    audits.drop_stale(hub, now)
    reply.repaired = audits.audit(hub, now, limit)
    groups: list[Group] = [("workflow_repaired", "", [[id, hub.graphs[id].new.name, ""] for id in reply.repaired])]
    hub.record(now, groups + work_off(hub, now))
    reply.more = left <= 0 or bool(hub.todos)
    reply.next_check = next_check(hub, now)
    return reply


def fade(hub: Hub, now: int) -> None:
    """Forget what has outlived its use: items, windows of unique keys, gates that say nothing."""
    for _ in range(MAX_BATCH):
        if not hub.fading or hub.fading[0][0] > now:
            break
        heapq.heappop(hub.fading)[2](now)
    for gate in list(hub.gates.values()):
        gates.forget(hub, gate, now)


def expire_due(hub: Hub, now: int, limit: int) -> int:
    expired: list[Row] = []
    while hub.expiring and hub.expiring[0][0] <= now and len(expired) < limit:
        when, _, row = heapq.heappop(hub.expiring)
        if row.expires == when and row.state in CAN_EXPIRE:
            endings.expire(hub, row, now)
            expired.append(row)
    hub.record(now, end_events(expired))
    return len(expired)


def end_events(rows: list[Row]) -> list[Group]:
    ended: dict[State, list[EventRow]] = {State.CANCELLED: [], State.FAILED: []}
    for row in rows:
        ended[row.state].append([*event_row(row), {"reason": row.reason}])
    return [(str(state), "", events) for state, events in ended.items()]


def reap(hub: Hub, now: int, limit: int, reply: SweepReply) -> int:
    """Recover the jobs of workers whose lease is over, at most ``limit``."""
    done = 0
    for worker in list(hub.workers.values()):
        if (worker.dead or worker.lease_until <= now) and done < limit:
            worker.dead = True
            reply.dead_workers.append(worker.presence.id)
            states = bury(hub, worker, now, True, limit - done)
            reply.quarantined += states.count(State.FAILED)
            reply.recovered += len(states) - states.count(State.FAILED)
            done += len(states)
    return done


def bury(hub: Hub, worker: WorkerRow, now: int, crashed: bool, limit: int) -> list[State]:
    """Give a dead worker's jobs back; its row goes with the last of them."""
    hub.undeclare(worker, now)
    states, groups = give_back(hub, worker, list(worker.running.values())[:limit], now, crashed)
    if not worker.running:
        del hub.workers[worker.presence.id]
        groups.append(("worker_down", worker.presence.id, [[""]]))
    hub.record(now, groups)
    return states


def give_back(hub: Hub, worker: WorkerRow, rows: list[Row], now: int, crashed: bool) -> tuple[list[State], list[Group]]:
    """Give back claims that leave their worker unsettled. Answers where they went, and the events."""
    states: list[State] = []
    left: list[EventRow] = []
    ended: dict[State, list[EventRow]] = {State.FAILED: [], State.CANCELLED: []}
    for row in rows:
        states.append(endings.recover(hub, worker, row, now, crashed))
        left.append(event_row(row))
        if row.state.terminal:
            ended[row.state].append([*event_row(row), {"reason": row.reason}])
    name = worker.presence.id
    groups: list[Group] = [("lost" if crashed else "released", name, left)]
    return states, groups + [(str(state), name, events) for state, events in ended.items()]


def park(hub: Hub, now: int, limit: int) -> int:
    """End jobs as dead letters that no live worker has declared for long enough; release those that a worker declares
    by now.
    """
    parked: list[EventRow] = []
    for queue, asides in hub.aside.items():
        for (task, version), heap in list(asides.items()):
            if hub.is_declared(queue, task, version, now):
                continue
            due = now - hub.settings.unknown_after
            stale = [row for rank, row in heap if stands(row, rank) and hub.unknown_since(row) <= due]
            for row in stale[: limit - len(parked)]:
                row.error = lifecycle.unknown_error(task, version, now - hub.unknown_since(row))
                row.fingerprint = "unknown-task"
                endings.finish(hub, row, State.FAILED, now, lifecycle.UNKNOWN)
                parked.append([*event_row(row), {"reason": lifecycle.UNKNOWN}])
            if hub.head(heap, ASIDE) is None:
                del asides[(task, version)]
                hub.declared.pop((queue, task, version), None)
    hub.record(now, [("failed", "", parked)])
    return len(parked)


def stands(row: Row, rank: int) -> bool:
    return row.state is State.READY and row.hold == ASIDE and row.rank == rank


def next_check(hub: Hub, now: int) -> int:
    """Milliseconds until a sweep may next have something to do."""
    if hub.todos:
        return 0
    while hub.expiring and not (hub.expiring[0][2].state in CAN_EXPIRE and hub.expiring[0][2].expires):
        heapq.heappop(hub.expiring)
    times = [worker.lease_until for worker in hub.workers.values()]
    times += [hub.expiring[0][0]] if hub.expiring else []
    times += audits.next_check(hub) + items.next_check(hub, now) + logs.next_check(hub, now)
    for queue, asides in hub.aside.items():
        for known, heap in asides.items():
            row = hub.head(heap, ASIDE)
            if row and not hub.is_declared(queue, *known, now):
                times.append(hub.unknown_since(row) + hub.settings.unknown_after)
    return max(0, min(times) - now) if times else -1
