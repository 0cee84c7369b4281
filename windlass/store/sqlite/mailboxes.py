"""Where names listen: the paths of their sockets (mailbox.py), kept in the file so that others can send there.

A worker's mailbox also proves its death: a socket that nobody has open was left behind by a process that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.store.machine.jobs import watches
from windlass.store.machine.tx import ids_json
from windlass.store.sqlite.mailbox import nobody_there, remove_leftover
from windlass.store.sqlite.tx import FileTx

PROBES = 50
"""Mailboxes looked at in one sweep for leftovers of dead clients."""

_THESE = "(SELECT value FROM json_each(?))"


def register(tx: FileTx, name: str, path: str) -> None:
    tx.run(
        "INSERT INTO mailboxes (name, path) VALUES (?, ?) ON CONFLICT DO UPDATE SET path = excluded.path", (name, path)
    )


def unregister(tx: FileTx, name: str, path: str) -> None:
    """Forget a name, unless somebody else has taken it over meanwhile."""
    if tx.value("SELECT 1 FROM mailboxes WHERE name = ? AND path = ?", (name, path)):
        _forget(tx, [name])


def paths(tx: FileTx, names: Iterable[str]) -> dict[str, str]:
    """The paths of those that listen."""
    return dict(tx.all(f"SELECT name, path FROM mailboxes WHERE name IN {_THESE}", (ids_json(names),)))


def forget_paths(tx: FileTx, gone: Sequence[str]) -> None:
    """Forget mailboxes nobody reads any more, and what they watched. Those of workers wait until a sweep reaps them."""
    sql = f"SELECT name FROM mailboxes WHERE path IN {_THESE} AND name NOT IN (SELECT id FROM workers)"
    _forget(tx, [name for (name,) in tx.all(sql, (ids_json(gone),))])


def _forget(tx: FileTx, names: Sequence[str]) -> None:
    watches.forget(tx, names)
    tx.run(f"DELETE FROM mailboxes WHERE name IN {_THESE}", (ids_json(names),))


def without_process(tx: FileTx, workers: Sequence[str]) -> set[str]:
    """Those of these workers whose mailboxes prove that their processes are gone."""
    return {name for name, path in paths(tx, workers).items() if nobody_there(path)}


def sweep(tx: FileTx, buried: Sequence[str]) -> None:
    """Take away the mailboxes of buried workers, and those that clients have left behind: a few are looked at."""
    # A worker's mailbox is the proof of its death: it stays until the last of its jobs has been recovered.
    sql = "SELECT path FROM mailboxes WHERE name NOT IN (SELECT id FROM workers)"
    over = tx.all(f"{sql} AND name IN {_THESE}", (ids_json(buried),)) if buried else []
    seen = tx.all(f"{sql} ORDER BY random() LIMIT ?", (PROBES,))
    left = {path for (path,) in over + seen if nobody_there(path)}
    gone = left | {path for (path,) in over}
    if gone:
        forget_paths(tx, sorted(gone))
        for path in left:
            remove_leftover(path)
