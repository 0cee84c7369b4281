"""Settling and claiming: the two halves of an exchange."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from windlass.core import lifecycle
from windlass.core.event import Group
from windlass.core.job import Claim, Fence, State
from windlass.core.lifecycle import Transition
from windlass.store.base import QueueInfo, Want
from windlass.store.memory import lookups
from windlass.store.memory.graphs import adopt, can_adopt
from windlass.store.memory.hub import Heap, Hub
from windlass.store.memory.records import ASIDE, NOT_HELD, SOLO, Row, WorkerRow
from windlass.store.memory.spreading import graph_of, refuses


def holder(worker: WorkerRow | None, id: str, fence: Fence) -> Row | None:
    """The job, if this worker still runs it under this fence."""
    if worker is None or worker.dead:
        return None
    row = worker.running.get(id)
    if row is None or row.run != fence.run or row.epoch != fence.epoch or row.seq != fence.seq:
        return None
    return row


def settle(hub: Hub, worker: WorkerRow, moves: Sequence[Transition], now: int) -> tuple[list[str], list[Group]]:
    """Apply what still may be; answers the refused ids and the events."""
    refused: list[str] = []
    groups: dict[str, Group] = {}
    for move in moves:
        row = holder(worker, move.id, move.fence)
        if row is None or (move.adopt and not can_adopt(hub, row, move)):
            refused.append(move.id)
            continue
        del worker.running[row.id]
        event = apply(hub, row, move, now, groups)
        data = (
            {"delay": move.delay} if event in ("retried", "snoozed") else {"reason": row.reason} if row.reason else None
        )
        if event not in groups:
            groups[event] = (event, worker.presence.id, [])
        groups[event][2].append([row.id, row.task, row.queue, data] if data else [row.id, row.task, row.queue])
    return refused, list(groups.values())


def apply(hub: Hub, row: Row, move: Transition, now: int, groups: dict[str, Group]) -> str:
    """One transition; answers the kind of event it was."""
    row.attempt, row.crashes, row.snoozes = move.attempt, move.crashes, move.snoozes
    if move.error is not None:
        row.error, row.fingerprint = move.error, move.fingerprint
    if move.yields_to_cancel and row.cancel:
        hub.finish(row, State.CANCELLED, now, row.reason)
        return "cancelled"
    if move.to is State.SCHEDULED:
        hub.make_scheduled(row, now + move.delay)
    elif move.to is State.READY:
        hub.make_ready(row, keep_place=move.event == "released")
        hub.wake(row.queue, 1)
    elif move.to is State.WAITING:
        started = adopt(hub, row, move, now)
        groups.setdefault(started[0], (started[0], "", []))[2].extend(started[2])
    else:
        row.result = move.result
        hub.finish(row, move.to, now, move.reason, move.keep_failed if move.to is State.FAILED else move.keep_done)
    return move.event


def claim(hub: Hub, worker: WorkerRow, seq: int, want: Want, now: int, ended: list[Row]) -> tuple[list[Claim], bool]:
    """Grant up to what is wanted; True with it when the worker must drain for a job that runs alone.

    ``ended``: what was found past its time, or in a graph that was stopped, and came to its end instead.
    """
    if len(worker.running) == 1:  # a job that runs alone has no neighbours
        (only,) = worker.running.values()
        if lifecycle.runs_alone(only.crashes, only.max_crashes):
            return [], True
    # A worker that drains asks for nothing, and must not lose its reservation by that.
    queues = [queue for queue, cap in want.queues if cap > 0] if want.total > 0 else worker.presence.queues
    solo = first_solo(hub, worker, queues, now, ended)
    if solo is not None:
        if worker.running:
            return [], True
        if want.total > 0:
            heapq.heappop(hub.solo[solo.queue])
            worker.reserved = ""
            return [grant(hub, worker, solo, seq, now)], False
    granted: list[Claim] = []
    for queue, cap in want.queues:
        take = min(cap, want.total - len(granted))
        if take > 0:
            granted.extend(claim_queue(hub, worker, queue, seq, take, now, ended))
    return granted, False


def first_solo(hub: Hub, worker: WorkerRow, queues: list[str], now: int, ended: list[Row]) -> Row | None:
    """The solo job this worker should take: one nobody else has reserved, or any at all if it is empty."""
    worker.reserved = ""
    for queue in queues:
        row = hub.head(hub.solo[queue], SOLO) if queue in hub.solo else None
        while row is not None and refuses(row):
            hub.finish(row, State.CANCELLED, now, graph_of(row).reason)
            ended.append(row)
            row = hub.head(hub.solo[queue], SOLO)
        if row is None or not worker.takes(queue, row.task, row.version):
            continue
        if row.expires and row.expires <= now:
            continue
        others = (other for other in hub.workers.values() if other is not worker and not other.dead)
        if not worker.running or not any(other.reserved == row.id and other.lease_until > now for other in others):
            worker.reserved = row.id
            return row
    return None


def claim_queue(
    hub: Hub, worker: WorkerRow, queue: str, seq: int, take: int, now: int, ended: list[Row]
) -> Iterable[Claim]:
    """Up to ``take`` jobs of one queue in ready order, what was set aside for others merged back in."""
    heaps = [(hub.ready[queue], NOT_HELD)]
    heaps += [(heap, ASIDE) for known, heap in hub.aside[queue].items() if worker.takes(queue, *known)]
    while take > 0:
        row = pop_first(hub, heaps)
        if row is None:
            return
        if row.expires and row.expires <= now:
            hub.expire(row, now)
            ended.append(row)
        elif row.links is not None and refuses(row):
            hub.finish(row, State.CANCELLED, now, graph_of(row).reason)
            ended.append(row)
        elif not worker.takes(queue, row.task, row.version):
            hub.set_aside(row, now)
        else:
            yield grant(hub, worker, row, seq, now)
            take -= 1


def pop_first(hub: Hub, heaps: list[tuple[Heap, str]]) -> Row | None:
    best: Heap | None = None
    for heap, hold in heaps:
        if hub.head(heap, hold) is not None and (best is None or heap[0][0] < best[0][0]):
            best = heap
    return heapq.heappop(best)[1] if best else None


def grant(hub: Hub, worker: WorkerRow, row: Row, seq: int, now: int) -> Claim:
    hub.set_state(row, State.RUNNING)
    row.epoch += 1
    row.hold, row.worker, row.seq, row.started_at = NOT_HELD, worker.presence.id, seq, now
    worker.running[row.id] = row
    return row.claim() if row.links is None else lookups.claim(hub, row)


def cancels(worker: WorkerRow) -> list[str]:
    return [row.id for row in worker.running.values() if row.cancel]


def wake_for_promoted(hub: Hub, promoted: dict[str, int], worker: WorkerRow) -> None:
    """Other idle workers for what just became due and this worker did not take."""
    for queue, count in promoted.items():
        left = count if hub.head(hub.ready[queue], NOT_HELD) is not None else 0
        idle, worker.idle = worker.idle, False
        hub.wake(queue, left)
        worker.idle = idle


def has_work(hub: Hub, worker: WorkerRow, queue: str) -> bool:
    if queue in hub.ready and hub.head(hub.ready[queue], NOT_HELD) is not None:
        return True
    if queue in hub.solo and hub.head(hub.solo[queue], SOLO) is not None:
        return True
    asides = hub.aside[queue].items() if queue in hub.aside else ()
    return any(hub.head(heap, ASIDE) is not None for known, heap in asides if worker.takes(queue, *known))


def queue_info(hub: Hub, name: str, now: int) -> QueueInfo:
    counts = {str(state): count for state, count in hub.counts[name].items() if count}
    heads = [hub.head(hub.ready[name], NOT_HELD), hub.head(hub.solo[name], SOLO)]
    heads += [hub.head(heap, ASIDE) for heap in hub.aside[name].values()]
    oldest = min((row.enqueued_at for row in heads if row is not None), default=-1)
    return QueueInfo(name=name, counts=counts, oldest_ready=now - oldest if oldest >= 0 else -1)
