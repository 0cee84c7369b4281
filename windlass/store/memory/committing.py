"""Commits: items, records and jobs changed in one step, if all that the step expects is there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from windlass.store.items import ANY, HEEDED, Commit, Committed, StreamEnd
from windlass.store.memory import graphs, inserts, items, logs

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def commit(hub: Hub, step: Commit, now: int) -> Committed:
    if not is_as_expected(hub, step, now):
        ends = [StreamEnd(logs.length(hub, new.log, new.stream)) for new in step.appends]
        return Committed(done=False, items=[items.read(hub, put.shelf, put.key, now) for put in step.items], ends=ends)
    for put in step.items:
        items.write(hub, put, now)
    heed(hub, step)
    done = Committed(done=True, ends=[logs.append(hub, new, now) for new in step.appends])
    batch = inserts.Batch(hub, now, bounded=False)
    done.answers = [batch.insert(job) for job in step.jobs]
    hub.record(now, batch.groups() + ([step.event] if step.event else []))
    if step.graph is not None:
        done.graph = graphs.insert_graph(hub, step.graph, 0, step.nodes, True, now)
    done.items = [items.read(hub, put.shelf, put.key, now) for put in step.items]
    return done


def heed(hub: Hub, step: Commit) -> None:
    """Workers are told of changed schedules: by jobs that come with the change, else one of them by itself."""
    if any(put.shelf == HEEDED and put.body is not msgspec.UNSET for put in step.items):
        hub.heeded += 1
        if not step.jobs:
            hub.wake_any()


def is_as_expected(hub: Hub, step: Commit, now: int) -> bool:
    for put in step.items:
        if put.expect not in (ANY, items.version(hub, put.shelf, put.key, now)):
            return False
    added = Counter[tuple[str, str]]()
    for new in step.appends:
        stream = (new.log, new.stream)
        if new.expect not in (ANY, logs.length(hub, *stream) + added[stream]):
            return False
        added[stream] += len(new.bodies)
    return True
