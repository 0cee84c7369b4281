"""Who waits for which job, and who follows events and logs. Where they listen is the driver's business."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.jobs import EVERY_EVENT, WatchReply
from windlass.store.machine.codes import FIRST_TERMINAL
from windlass.store.machine.items import logs
from windlass.store.machine.jobs.moves import finished
from windlass.store.machine.tx import Tx, ids_json


def watch(tx: Tx, client: str, ids: Sequence[str]) -> WatchReply:
    reply, sql = WatchReply([], []), tx.sql.watches
    if EVERY_EVENT in ids:
        tx.run(sql.FOLLOW, (client,))
    followed = [id for id in ids if logs.is_log(id)]
    logs.follow(tx, client, followed)
    ids = [id for id in ids if id != EVERY_EVENT and id not in followed]
    rows = {row[1]: row for row in tx.all(sql.JOBS, (ids_json(ids),))}
    if tx.graphs and len(rows) < len(ids):
        rows |= {row[1]: row for row in tx.all(sql.NODES, (ids_json(id for id in ids if id not in rows),))}
    waiting: list[int] = []
    for id in ids:
        row = rows.get(id)
        if row is None:
            reply.missing.append(id)
        elif row[2] >= FIRST_TERMINAL:
            reply.finished.append(finished(*row[1:]))
        else:
            waiting.append(row[0])
    if waiting:
        numbers = ids_json(waiting)
        tx.run(sql.ADD, (client, numbers))
        tx.run(sql.MARK_JOBS, (numbers,))
        if any(n < 0 for n in waiting):
            tx.run(sql.MARK_NODES, (numbers,))
    return reply


def unwatch(tx: Tx, client: str, ids: Sequence[str] | None) -> None:
    """``ids`` None: all. The jobs stay marked as watched: whoever ends them finds nobody to tell."""
    sql = tx.sql.watches
    if ids is None or EVERY_EVENT in ids:
        tx.run(sql.UNFOLLOW, (client,))
    if ids is None:
        forget(tx, [client])
        return
    logs.unfollow(tx, client, [id for id in ids if logs.is_log(id)])
    tx.run(sql.DROP, (client, ids_json(ids)))


def forget(tx: Tx, clients: Sequence[str]) -> None:
    """Nobody listens under these names any more."""
    tx.run(tx.sql.watches.DROP_ALL, (ids_json(clients),))
    logs.unfollow_all(tx, clients)


def signal(tx: Tx, names: Sequence[str]) -> None:
    """A wake-up for whoever listens to these names."""
    for name in names:
        tx.tell(name)
