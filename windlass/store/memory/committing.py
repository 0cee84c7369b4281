"""Commits: items, records and jobs changed in one step, if all that the step expects is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.store.items import Commit, Committed, StreamEnd
from windlass.store.memory import graphs, inserts, items, logs
from windlass.store.rules import is_as_expected, is_heeded

if TYPE_CHECKING:
    from windlass.store.memory.hub import Hub


def commit(hub: Hub, step: Commit, now: int) -> Committed:
    versions = [items.version(hub, put.shelf, put.key, now) for put in step.items]
    ends = [StreamEnd(logs.length(hub, new.log, new.stream)) for new in step.appends]
    if not is_as_expected(step, versions, [end.length for end in ends]):
        return Committed(done=False, items=[items.read(hub, put.shelf, put.key, now) for put in step.items], ends=ends)
    for put in step.items:
        items.write(hub, put, now)
    heed(hub, step)
    done = Committed(done=True, ends=[logs.append(hub, new, now) for new in step.appends])
    batch = inserts.InsertBatch(hub, now, bounded=False)
    done.answers = [batch.insert(job) for job in step.jobs]
    hub.record(now, batch.groups() + ([step.event] if step.event else []))
    if step.graph is not None:
        done.graph = graphs.insert_graph(hub, step.graph, 0, step.nodes, True, now)
    done.items = [items.read(hub, put.shelf, put.key, now) for put in step.items]
    return done


def heed(hub: Hub, step: Commit) -> None:
    """Tell workers that schedules changed: the jobs that come with the commit wake them, or else one worker is woken
    for it.
    """
    if is_heeded(step):
        hub.heeded += 1
        if not step.jobs:
            hub.wake_any()
