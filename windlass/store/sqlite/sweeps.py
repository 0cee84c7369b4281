"""Sweeping: what has become due, expired, orphaned, undeclared or too old. Every step is bounded."""

from __future__ import annotations

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
from windlass.store.sqlite.mailbox import nobody_there, remove_leftover
from windlass.store.sqlite.mending import audit as audit_jobs
from windlass.store.sqlite.tx import FileTx
from windlass.store.sqlite.watches import forget_paths

MAILBOX_PROBES = 50
"""Mailboxes looked at in one sweep for leftovers of dead clients."""


def sweep(tx: FileTx, limit: int) -> SweepReply:
    reply = SweepReply(dead_workers=[], repaired=[])
    audit_jobs(tx)
    reply.expired = expire(tx, limit)
    left = limit - reply.expired
    promoted = promote(tx, left)
    for queue, count in promoted.plain.items():
        tx.wake(queue, count)
    reply.promoted = promoted.total
    left -= reply.promoted
    left -= reap(tx, left, reply)
    reply.parked = park(tx, left)
    left -= reply.parked
    reply.pruned = prune(tx, left)
    left -= reply.pruned
    forget_mailboxes(tx)
    if tx.graphs:
        look_after_graphs(tx, limit, reply)
    lanes.sweep(tx)
    gates.sweep(tx)
    forgotten, pruned = items.sweep(tx, limit), logs.sweep(tx, limit)
    work_off(tx)
    reply.more = left <= 0 or limit in (forgotten, pruned) or bool(tx.todos)
    reply.next_check = next_check(tx)
    return reply


def reap(tx: FileTx, limit: int, reply: SweepReply) -> int:
    """Recover the jobs of dead workers, a bounded number at a time."""
    done = 0
    for n, id, mark in dead_workers(tx):
        if done >= limit:
            break
        tx.run("UPDATE workers SET dead = 1 WHERE n = ?", (n,))
        reply.dead_workers.append(id)
        states = bury(tx, n, id, mark, True, limit - done)
        reply.quarantined += states.count(FAILED)
        reply.recovered += len(states) - states.count(FAILED)
        done += len(states)
        _forget_dead(tx, id)
    return done


def _forget_dead(tx: FileTx, worker: str) -> None:
    """The mailbox of a worker whose last job was recovered."""
    path = tx.value("SELECT path FROM mailboxes WHERE name = ?1 AND ?1 NOT IN (SELECT id FROM workers)", (worker,))
    if path is not None:
        forget_paths(tx, [path])
        if nobody_there(path):
            remove_leftover(path)


def dead_workers(tx: FileTx) -> list[tuple[int, str, int]]:
    """Those whose lease is over, and those whose mailbox proves that their process is gone.

    The proof is asked for only when a worker is late, a third of its lease after its last beat.
    """
    rows = tx.all(
        "SELECT w.n, w.id, w.mark, w.dead OR w.lease_until <= ?1, m.path FROM workers AS w "
        "LEFT JOIN mailboxes AS m ON m.name = w.id "
        "WHERE w.dead OR w.lease_until <= ?1 OR w.beat_at + w.lease / 3 < ?1 ORDER BY w.n", (tx.now,)
    )  # fmt: skip
    return [(n, id, mark) for n, id, mark, dead, path in rows if dead or (path and nobody_there(path))]


def prune(tx: FileTx, limit: int) -> int:
    """Drop what is past its bucket's age, bucket by bucket."""
    old = tx.all(
        "SELECT n, size, age FROM buckets WHERE size > 0 AND age >= 0 "
        "AND age = CAST(substr(name, instr(name, '|') + 1) AS INTEGER) AND age + (SELECT finished_at FROM jobs "
        "WHERE bucket = buckets.n AND bucket > 0 ORDER BY place LIMIT 1) <= ?", (tx.now,)
    )  # fmt: skip
    pruned = 0
    for bucket, size, age in old:
        if pruned < limit:
            tx.run("INSERT INTO prune VALUES (?, ?, 0, ?, ?)", (tx.now, bucket, age, limit - pruned))
            pruned += size - tx.value("SELECT size FROM buckets WHERE n = ?", (bucket,))
    return pruned


def look_after_graphs(tx: FileTx, limit: int, reply: SweepReply) -> None:
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


def forget_mailboxes(tx: FileTx) -> None:
    """Clients that died leave a mailbox behind; look at a few at random."""
    # A worker's mailbox is the proof of its death: it stays until the worker has been reaped.
    sql = "SELECT path FROM mailboxes WHERE name NOT IN (SELECT id FROM workers) ORDER BY random() LIMIT ?"
    gone = [path for (path,) in tx.all(sql, (MAILBOX_PROBES,)) if nobody_there(path)]
    if gone:
        forget_paths(tx, gone)
        for path in gone:
            remove_leftover(path)


def next_check(tx: Tx) -> int:
    """When a sweep may next have something to do, in milliseconds from now."""
    if tx.todos:
        return 0
    times = tx.one(
        "SELECT (SELECT min(lease_until) FROM workers), "
        "(SELECT min(expires_at) FROM jobs WHERE expires_at > 0 AND state < 3)"
    )
    times = (*times, next_parking(tx), items.next_check(tx), *logs.next_check(tx), *audits.next_check(tx))
    known = [time for time in times if time is not None]
    return max(0, min(known) - tx.now) if known else -1
