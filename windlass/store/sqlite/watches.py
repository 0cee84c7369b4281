"""Who waits for which job, and where they listen."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.jobs import EVERY_EVENT, WatchReply
from windlass.store.machine.codes import FIRST_TERMINAL
from windlass.store.machine.items import logs
from windlass.store.machine.jobs.moves import finished
from windlass.store.machine.tx import Tx, ids_json

# Nodes that are no jobs: joins, and jobs of a graph whose turn to be accepted has not come yet.
NODES = """
SELECT -v.n, v.id, v.state, v.result, v.error, v.reason, v.shape > 0
FROM json_each(?) AS w CROSS JOIN nodes AS v ON v.id = w.value CROSS JOIN graphs AS g ON g.n = v.graph
WHERE g.state >= 0 AND (v.shape > 0 OR EXISTS (SELECT 1 FROM parts WHERE n = v.n))
"""


def watch(tx: Tx, client: str, ids: Sequence[str]) -> WatchReply:
    reply = WatchReply([], [])
    if EVERY_EVENT in ids:
        tx.run("UPDATE mailboxes SET follows = 1 WHERE name = ?", (client,))
    followed = [id for id in ids if logs.is_log(id)]
    logs.follow(tx, client, followed)
    ids = [id for id in ids if id != EVERY_EVENT and id not in followed]
    rows = {row[1]: row for row in tx.all(
        "SELECT n, id, state, iif(state > 3, result, NULL), iif(state > 3, error, NULL), reason, "
        "node AND state = 4 AND result IS NULL AND (SELECT replaced FROM nodes WHERE n = node) FROM jobs "
        "WHERE id IN (SELECT value FROM json_each(?))", (ids_json(ids),)
    )}  # fmt: skip
    if tx.graphs and len(rows) < len(ids):
        rows |= {row[1]: row for row in tx.all(NODES, (ids_json(id for id in ids if id not in rows),))}
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
        tx.run("INSERT OR IGNORE INTO watches SELECT value, ? FROM json_each(?)", (client, numbers))
        tx.run("UPDATE jobs SET watched = 1 WHERE n IN (SELECT value FROM json_each(?))", (numbers,))
        if any(n < 0 for n in waiting):
            tx.run("UPDATE nodes SET watched = 1 WHERE n IN (SELECT -value FROM json_each(?))", (numbers,))
    return reply


def unwatch(tx: Tx, client: str, ids: Sequence[str] | None) -> None:
    """The jobs stay marked as watched: whoever ends them finds nobody to tell."""
    if ids is None or EVERY_EVENT in ids:
        tx.run("UPDATE mailboxes SET follows = 0 WHERE name = ?", (client,))
    logs.unfollow(tx, client, None if ids is None else [id for id in ids if logs.is_log(id)])
    if ids is None:
        tx.run("DELETE FROM watches WHERE name = ?", (client,))
        return
    tx.run(
        "DELETE FROM watches WHERE name = ?1 AND job IN "
        "(SELECT n FROM jobs WHERE id IN (SELECT value FROM json_each(?2)) "
        "UNION ALL SELECT -v.n FROM json_each(?2) AS w CROSS JOIN nodes AS v ON v.id = w.value)",
        (client, ids_json(ids)),
    )  # fmt: skip


def register(tx: Tx, name: str, path: str) -> None:
    tx.run(
        "INSERT INTO mailboxes (name, path) VALUES (?, ?) ON CONFLICT DO UPDATE SET path = excluded.path", (name, path)
    )


def forget_paths(tx: Tx, paths: Sequence[str]) -> None:
    """Forget mailboxes nobody reads any more, and what they watched. Those of workers wait until a sweep reaps them."""
    names = ids_json(name for (name,) in tx.all(
        "SELECT name FROM mailboxes WHERE path IN (SELECT value FROM json_each(?)) "
        "AND name NOT IN (SELECT id FROM workers)", (ids_json(paths),)
    ))  # fmt: skip
    tx.run("DELETE FROM watches WHERE name IN (SELECT value FROM json_each(?))", (names,))
    tx.run("DELETE FROM followers WHERE name IN (SELECT value FROM json_each(?))", (names,))
    tx.run("DELETE FROM mailboxes WHERE name IN (SELECT value FROM json_each(?))", (names,))


def unregister(tx: Tx, name: str, path: str) -> None:
    """Forget a name, unless somebody else has taken it over meanwhile."""
    if tx.value("SELECT 1 FROM mailboxes WHERE name = ? AND path = ?", (name, path)):
        tx.run("DELETE FROM watches WHERE name = ?", (name,))
        logs.unfollow(tx, name, None)
        tx.run("DELETE FROM mailboxes WHERE name = ?", (name,))


def signal(tx: Tx, names: Sequence[str]) -> None:
    """A wake-up for whoever listens to these names."""
    for name in names:
        tx.tell(name)
