"""Cells: small values by name that end by the store's clock. Locks and marks are made of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.store.base import Cell
from windlass.store.sqlite.tx import Tx, ids_json

READ = "SELECT version, value, until FROM cells WHERE name = ? AND until > ?"
READ_ALL = (
    "SELECT c.name, version, c.value, until FROM json_each(?) AS e CROSS JOIN cells AS c ON c.name = e.value "
    "WHERE until > ?"
)
WRITE = "INSERT OR REPLACE INTO cells (name, version, value, until) VALUES (?, ?, ?, ?)"


def swap(tx: Tx, name: str, expect: int, value: bytes | None, ttl: int) -> Cell:
    version, kept, until = msgspec.convert(tx.one(READ, (name, tx.now)) or (0, b"", tx.now), tuple[int, bytes, int])
    if expect not in (-1, version):
        return Cell(name=name, version=version, value=kept, expires_in=until - tx.now)
    if value is None:
        tx.run("DELETE FROM cells WHERE name = ?", (name,))
        return Cell(name=name, done=True)
    if not version or value != kept:
        version = tx.take_ranks(1)
    tx.run(WRITE, (name, version, value, tx.now + ttl))
    return Cell(name=name, version=version, value=value, expires_in=ttl, done=True)


def cells(tx: Tx, names: Sequence[str]) -> list[Cell]:
    found = {
        name: Cell(name=name, version=version, value=value, expires_in=until - tx.now)
        for name, version, value, until in msgspec.convert(
            tx.all(READ_ALL, (ids_json(names), tx.now)), list[tuple[str, int, bytes, int]]
        )
    }
    return [found.get(name) or Cell(name=name) for name in names]
