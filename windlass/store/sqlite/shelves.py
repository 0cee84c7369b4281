"""Shelves: small records that are not jobs, in the order of their keys. Nobody looks into them.

Text is compared by its UTF-8 bytes, which is the order of code points.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.store.base import MAX_BATCH, Item
from windlass.store.sqlite.tx import Tx

SWEPT_EVERY = 60_000
"""How often at least what has expired is forgotten. Nobody sees it meanwhile."""

PUT = "INSERT OR REPLACE INTO shelves (shelf, key, until, body) VALUES (?, ?, ?, ?)"
TAKE_OFF = "DELETE FROM shelves WHERE shelf = ? AND key = ?"
PAGE = (
    "SELECT key, body, until FROM shelves WHERE shelf = ? AND key {0} ? AND key < ? AND (until = 0 OR until > ?) "
    "ORDER BY key {1} LIMIT ?"
)
FORGET = """
DELETE FROM shelves WHERE (shelf, key) IN (
    SELECT shelf, key FROM shelves WHERE until > 0 AND until <= ? ORDER BY until LIMIT ?
) RETURNING 1
"""
ANY_EXPIRES = "SELECT 1 FROM shelves WHERE until > 0 LIMIT 1"


def shelve(tx: Tx, items: Sequence[Item]) -> None:
    for item in items:
        if item.body is None:
            tx.run(TAKE_OFF, (item.shelf, item.key))
        else:
            tx.run(PUT, (item.shelf, item.key, tx.now + item.ttl if item.ttl else 0, item.body))


def shelf(tx: Tx, name: str, after: str, until: str, limit: int, newest_first: bool) -> list[Item]:
    # Every text is smaller than bytes: that is the end of a shelf.
    values = (name, after, until or b"", tx.now, min(limit, MAX_BATCH))
    sql = PAGE.format(">" if after else ">=", "DESC" if newest_first else "ASC")
    rows = msgspec.convert(tx.all(sql, values), list[tuple[str, bytes, int]])
    return [Item(shelf=name, key=key, body=body, ttl=ends - tx.now if ends else 0) for key, body, ends in rows]


def sweep(tx: Tx, limit: int) -> int:
    """Forget what has expired; how much that was."""
    return len(tx.all(FORGET, (tx.now, limit)))


def next_check(tx: Tx) -> int | None:
    return tx.now + SWEPT_EVERY if tx.value(ANY_EXPIRES) else None
