"""Commits: items, records and jobs changed in one step, if all that the step expects is there."""

from __future__ import annotations

from windlass.store.items import Commit, Committed, StreamEnd
from windlass.store.machine.graphs.staging import insert_graph
from windlass.store.machine.items import items, logs
from windlass.store.machine.jobs.intake import insert
from windlass.store.machine.tx import Tx
from windlass.store.rules import is_as_expected, is_heeded


def commit(tx: Tx, step: Commit) -> Committed:
    kept = items.read(tx, [(put.shelf, put.key) for put in step.items]) if step.items else {}
    ends = [StreamEnd(logs.length(tx, new.log, new.stream)) for new in step.appends]
    versions = [known.version for known in items.shown(step.items, kept)]
    if not is_as_expected(step, versions, [end.length for end in ends]):
        return Committed(done=False, items=items.shown(step.items, kept), ends=ends)
    done = Committed(done=True, items=items.write(tx, step.items, kept))
    heed(tx, step)
    done.ends = [logs.append(tx, new) for new in step.appends]
    if step.jobs:
        done.answers = insert(tx, step.jobs, pressed=False)
    if step.graph is not None:
        done.graph = insert_graph(tx, step.graph, 0, step.nodes, True)
    if step.event is not None:
        tx.record(*step.event)
    return done


def heed(tx: Tx, step: Commit) -> None:
    """Workers are told of changed schedules: by jobs that come with the change, else one of them by itself."""
    if is_heeded(step):
        tx.heeded += 1
        if not step.jobs:
            tx.wake_any()
