"""What is said of many jobs at once: queues, and dead letters by fingerprint. Only the first or last is read."""

from __future__ import annotations

import msgspec

from windlass.core.limits import NO_LIMITS
from windlass.core.terms import queue_gate
from windlass.store.answers import MAX_BATCH
from windlass.store.machine.tx import Tx
from windlass.store.reads import Fault, QueueInfo
from windlass.store.shared import STATES

COUNTS = "SELECT queue, what, many FROM counts WHERE task = '' ORDER BY queue, what"
# When the oldest of the first ones was accepted: in ready order, set aside, waiting to run alone, in lanes.
OLDEST = """
SELECT c.queue, min((
    SELECT enqueued_at FROM jobs WHERE state = 2 AND jobs.queue = c.queue AND hold = h.value ORDER BY place LIMIT 1
))
FROM counts AS c CROSS JOIN json_each('[0, 1, 2, 3]') AS h
WHERE c.task = '' AND c.what = 2 AND c.many > 0 GROUP BY c.queue
"""
LANES = "SELECT queue, count(*) FROM lanes WHERE head > 0 GROUP BY queue"
# The index alone; only the newest of each is looked up.
FAULTS = """
SELECT f.fingerprint, f.dead, j.id FROM (
    SELECT fingerprint, count(*) AS dead, max(n) AS newest FROM jobs INDEXED BY jobs_failed_fingerprint
    WHERE state = 5 GROUP BY fingerprint ORDER BY dead DESC, newest DESC LIMIT ?
) AS f CROSS JOIN jobs AS j ON j.n = f.newest ORDER BY f.dead DESC, f.newest DESC
"""


def queues(tx: Tx) -> list[QueueInfo]:
    infos: dict[str, QueueInfo] = {}
    for queue, state, many in msgspec.convert(tx.all(COUNTS), list[tuple[str, int, int]]):
        info = infos.get(queue)
        if info is None:
            limits = tx.book.limits(queue_gate(queue)) if tx.gates else NO_LIMITS
            info = infos[queue] = QueueInfo(name=queue, counts={}, limits=limits)
        if many:
            info.counts[str(STATES[state])] = many
    for queue, at in tx.all(OLDEST):
        if at is None:  # a job that is counted here was lost
            continue
        infos[queue].oldest_ready = tx.now - at
    for queue, lanes in tx.all(LANES) if tx.lanes else ():
        if queue in infos:
            infos[queue].lanes = lanes
    return list(infos.values())


def faults(tx: Tx, limit: int) -> list[Fault]:
    """The dead letters by fingerprint, the most frequent first."""
    return msgspec.convert(tx.all(FAULTS, (min(limit, MAX_BATCH),)), list[Fault])
