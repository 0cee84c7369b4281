"""Where names listen: the channels of NOTIFY (ear.py), kept on the server so that others can send there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.store.machine.jobs import watches
from windlass.store.machine.tx import Tx, ids_json


def register(tx: Tx, name: str, channel: str) -> None:
    tx.run(
        "INSERT INTO mailboxes (name, path) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET path = excluded.path",
        (name, channel),
    )


def unregister(tx: Tx, name: str, channel: str) -> None:
    """Forget a name, unless somebody else has taken it over meanwhile."""
    if tx.value("SELECT 1 FROM mailboxes WHERE name = $1 AND path = $2", (name, channel)):
        _forget(tx, [name])


def channels(tx: Tx, names: Iterable[str]) -> dict[str, str]:
    """The channels of those that listen."""
    return dict(tx.all("SELECT name, path FROM mailboxes WHERE name IN (SELECT names($1::jsonb))", (ids_json(names),)))


def _forget(tx: Tx, names: Sequence[str]) -> None:
    watches.forget(tx, names)
    tx.run("DELETE FROM mailboxes WHERE name IN (SELECT names($1::jsonb))", (ids_json(names),))


def sweep(tx: Tx, buried: Sequence[str]) -> None:
    """Take away the mailboxes of buried workers, and those of clients whose connection is gone."""
    if buried:
        _forget(tx, buried)
