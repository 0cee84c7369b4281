"""Sweeping: what has become due, expired, orphaned, undeclared or too old. Every step is bounded."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from windlass.store.jobs import SweepReply
from windlass.store.machine.codes import FAILED
from windlass.store.machine.flow import gates, lanes
from windlass.store.machine.graphs import audits, retention
from windlass.store.machine.graphs.staging import drop
from windlass.store.machine.graphs.todos import Todo, TodoKind, put_up, work_off
from windlass.store.machine.graphs.workset import Workset
from windlass.store.machine.items import items, logs
from windlass.store.machine.jobs.asides import next_parking, park
from windlass.store.machine.jobs.expiry import expire, promote
from windlass.store.machine.jobs.recovery import bury
from windlass.store.machine.tx import Tx

Gone = Callable[[Sequence[str]], Container[str]]
"""Which of these workers are proven to be gone, though their leases hold. A driver knows this, or it does not."""


def sweep(tx: Tx, limit: int, gone: Gone) -> SweepReply:
    reply = SweepReply(dead_workers=[], repaired=[])
    reply.expired = expire(tx, limit)
    left = limit - reply.expired
    promoted = promote(tx, left)
    for queue, count in promoted.plain.items():
        tx.wake(queue, count)
    reply.promoted = promoted.total
    left -= reply.promoted
    left -= reap(tx, left, reply, gone)
    reply.parked = park(tx, left)
    left -= reply.parked
    reply.pruned = prune(tx, left)
    left -= reply.pruned
    if tx.graphs:
        look_after_graphs(tx, limit, reply)
    lanes.sweep(tx)
    gates.sweep(tx)
    forgotten, pruned = items.sweep(tx, limit), logs.sweep(tx, limit)
    work_off(tx)
    reply.more = left <= 0 or limit in (forgotten, pruned) or bool(tx.todos)
    reply.next_check = next_check(tx)
    return reply


def reap(tx: Tx, limit: int, reply: SweepReply, gone: Gone) -> int:
    """Recover the jobs of dead workers, a bounded number at a time."""
    done = 0
    for n, id, mark in dead_workers(tx, gone):
        if done >= limit:
            break
        tx.run(tx.sql.workers.DEAD, (n,))
        reply.dead_workers.append(id)
        states = bury(tx, n, id, mark, True, limit - done)
        reply.quarantined += states.count(FAILED)
        reply.recovered += len(states) - states.count(FAILED)
        done += len(states)
    return done


def dead_workers(tx: Tx, gone: Gone) -> list[tuple[int, str, int]]:
    """Those whose lease is over, and those that are proven to be gone: number, id and mark.

    The proof is asked for only when a worker is late, a third of its lease after its last beat.
    """
    rows = tx.all(tx.sql.sweeps.LATE, (tx.now,))
    late = [id for _, id, _, dead in rows if not dead]
    proven = gone(late) if late else ()
    return [(n, id, mark) for n, id, mark, dead in rows if dead or id in proven]


def prune(tx: Tx, limit: int) -> int:
    """Drop what is past its bucket's age, bucket by bucket."""
    sql, pruned = tx.sql.sweeps, 0
    for bucket, size, age in tx.all(sql.TOO_OLD, (tx.now,)):
        if pruned < limit:
            tx.run(sql.PRUNE, (tx.now, bucket, 0, age, limit - pruned))
            pruned += size - tx.value(sql.SIZE, (bucket,))
    return pruned


def look_after_graphs(tx: Tx, limit: int, reply: SweepReply) -> None:
    """Graphs that were never committed, that are past their bucket's age, and that nothing moves any more."""
    for graph in audits.stale(tx, limit):
        drop(tx, graph)
    doomed = retention.prune_full(tx)
    if doomed:
        put_up(tx, [Todo(TodoKind.PRUNE, graph.n, 0, graph.n) for graph in doomed])
        reply.pruned += len(doomed)
    workset = Workset(tx)
    for broken in audits.audit(workset, limit):
        reply.repaired.append(str(broken.id))
        workset.event("workflow_repaired", [broken.id, broken.name, ""])
        put_up(tx, [Todo(TodoKind.REPAIR, broken.n, 0, broken.n)])
    workset.flush()


def next_check(tx: Tx) -> int:
    """When a sweep may next have something to do, in milliseconds from now."""
    if tx.todos:
        return 0
    times = (
        *tx.one(tx.sql.sweeps.TIMES),
        next_parking(tx),
        items.next_check(tx),
        *logs.next_check(tx),
        *audits.next_check(tx),
    )
    known = [time for time in times if time is not None]
    return max(0, min(known) - tx.now) if known else -1
