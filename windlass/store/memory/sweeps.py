"""What time does to jobs: due, expired, orphaned, undeclared, past retention. Every step is bounded."""

from __future__ import annotations

import heapq

from windlass.core import lifecycle
from windlass.core.event import Row as EventRow
from windlass.core.job import State
from windlass.store.base import SweepReply
from windlass.store.memory.hub import Hub, event_row
from windlass.store.memory.records import ASIDE, Row, WorkerRow

CAN_EXPIRE = (State.WAITING, State.SCHEDULED, State.READY)


def watch_expiry(hub: Hub, row: Row) -> None:
    heapq.heappush(hub.expiring, (row.expires, row.n, row))


def sweep(hub: Hub, now: int, limit: int) -> SweepReply:
    reply = SweepReply(dead_workers=[])
    reply.expired = expire_due(hub, now, limit)
    left = limit - reply.expired
    promoted = hub.promote(now, left)
    for queue, count in promoted.items():
        hub.wake(queue, count)
    reply.promoted = sum(promoted.values())
    left -= reply.promoted
    left -= reap(hub, now, left, reply)
    reply.parked = park(hub, now, left)
    left -= reply.parked
    for bucket in list(hub.buckets):
        pruned = hub.prune(bucket, now, left)
        reply.pruned, left = reply.pruned + pruned, left - pruned
    reply.more = left <= 0
    reply.next_check = next_check(hub, now)
    return reply


def expire_due(hub: Hub, now: int, limit: int) -> int:
    rows: list[EventRow] = []
    dead: list[EventRow] = []
    while hub.expiring and hub.expiring[0][0] <= now and len(rows) + len(dead) < limit:
        when, _, row = heapq.heappop(hub.expiring)
        if row.expires == when and row.state in CAN_EXPIRE:
            (dead if row.expire_to is State.FAILED else rows).append([*event_row(row), {"reason": lifecycle.EXPIRED}])
            hub.expire(row, now)
    hub.record(now, [("cancelled", "", rows), ("failed", "", dead)])
    return len(rows) + len(dead)


def reap(hub: Hub, now: int, limit: int, reply: SweepReply) -> int:
    """Recover the jobs of workers whose lease is over, a bounded number at a time."""
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
    states: list[State] = []
    lost: list[EventRow] = []
    failed: list[EventRow] = []
    for row in list(worker.running.values())[:limit]:
        state = hub.recover(worker, row, now, crashed)
        states.append(state)
        lost.append(event_row(row))
        if state is State.FAILED:
            failed.append([*event_row(row), {"reason": row.reason}])
        elif state is State.READY:
            hub.wake(row.queue, 1)
    name = worker.presence.id
    down: list[EventRow] = []
    if not worker.running:
        del hub.workers[name]
        down = [[""]]
    kind = "lost" if crashed else "released"
    hub.record(now, [(kind, name, lost), ("failed", name, failed), ("worker_down", name, down)])
    return states


def park(hub: Hub, now: int, limit: int) -> int:
    """Dead-letter what no live worker has declared for long enough; release what one declares by now."""
    parked: list[EventRow] = []
    live = [worker for worker in hub.workers.values() if not worker.dead and worker.lease_until > now]
    for queue, asides in hub.aside.items():
        for (task, version), heap in list(asides.items()):
            if any(queue in worker.presence.queues and worker.takes(queue, task, version) for worker in live):
                continue
            stale = [row for rank, row in heap if stands(row, rank) and due_to_park(hub, row, now)]
            for row in stale[: limit - len(parked)]:
                row.error = lifecycle.unknown_error(task, version, now - row.aside_since)
                row.fingerprint = "unknown-task"
                hub.finish(row, State.FAILED, now, lifecycle.UNKNOWN)
                parked.append([*event_row(row), {"reason": lifecycle.UNKNOWN}])
            if hub.head(heap, ASIDE) is None:
                del asides[(task, version)]
    hub.record(now, [("failed", "", parked)])
    return len(parked)


def stands(row: Row, rank: int) -> bool:
    return row.state is State.READY and row.hold == ASIDE and row.rank == rank


def due_to_park(hub: Hub, row: Row, now: int) -> bool:
    return row.aside_since + hub.settings.unknown_after <= now


def next_check(hub: Hub, now: int) -> int:
    """When a sweep may next have something to do, in milliseconds from now."""
    while hub.expiring and not (hub.expiring[0][2].state in CAN_EXPIRE and hub.expiring[0][2].expires):
        heapq.heappop(hub.expiring)
    times = [worker.lease_until for worker in hub.workers.values()]
    times += [hub.expiring[0][0]] if hub.expiring else []
    for asides in hub.aside.values():
        for heap in asides.values():
            row = hub.head(heap, ASIDE)
            times += [row.aside_since + hub.settings.unknown_after] if row else []
    return max(0, min(times) - now) if times else -1
