"""Items: named values on shelves, in the order of their keys. Nobody looks into them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.store.answers import MAX_BATCH
from windlass.store.items import Item, Put
from windlass.store.machine.tx import Tx, ids_json

SWEPT_EVERY = 60_000
"""How often at least what has expired is forgotten. Nobody sees it meanwhile."""

Kept = dict[tuple[str, str], Item]


def read(tx: Tx, wanted: Sequence[tuple[str, str]]) -> Kept:
    """What there is of these shelves and keys."""
    return {
        (shelf, key): Item(shelf=shelf, key=key, body=body, ttl=until - tx.now if until else 0, version=version)
        for shelf, key, body, until, version in msgspec.convert(
            tx.all(tx.sql.items.READ, (ids_json(wanted), tx.now)), list[tuple[str, str, bytes, int, int]]
        )
    }  # fmt: skip


def write(tx: Tx, puts: Sequence[Put], kept: Kept) -> list[Item]:
    """Put what may be put; ``kept`` is what was there before. What is said last of a key holds."""
    for put in puts:
        where = (put.shelf, put.key)
        if put.body is None:
            tx.run(tx.sql.items.TAKE_OFF, where)
            kept.pop(where, None)
        elif put.body is not msgspec.UNSET:
            known = kept.get(where)
            version = known.version if known is not None and known.body == put.body else tx.take_ranks(1)
            tx.run(tx.sql.items.WRITE, (*where, version, tx.now + put.ttl if put.ttl else 0, put.body))
            kept[where] = Item(shelf=put.shelf, key=put.key, body=put.body, ttl=put.ttl, version=version)
    return shown(puts, kept)


def shown(puts: Sequence[Put], kept: Kept) -> list[Item]:
    return [kept.get((put.shelf, put.key)) or Item(shelf=put.shelf, key=put.key) for put in puts]


def items(tx: Tx, shelf: str, keys: Sequence[str]) -> list[Item]:
    kept = read(tx, [(shelf, key) for key in keys])
    return [kept.get((shelf, key)) or Item(shelf=shelf, key=key) for key in keys]


def page(tx: Tx, name: str, after: str, until: str, limit: int, newest_first: bool) -> list[Item]:
    # No key has a NUL, and no text comes between one and the character behind it: what cannot be asked everywhere is
    # said in other words.
    head, cut, _ = until.partition("\0")
    behind, before = after.partition("\0")[0], head + "\1" if cut else until or None
    sql, values = tx.sql.items, (name, behind, before, tx.now, min(limit, MAX_BATCH))
    upwards, downwards = (sql.PAGE_BEHIND, sql.PAGE_BEHIND_DOWN) if after else (sql.PAGE, sql.PAGE_DOWN)
    rows = msgspec.convert(tx.all(downwards if newest_first else upwards, values), list[tuple[str, bytes, int, int]])
    return [
        Item(shelf=name, key=key, body=body, ttl=ends - tx.now if ends else 0, version=version)
        for key, body, ends, version in rows
    ]  # fmt: skip


def sweep(tx: Tx, limit: int) -> int:
    """Forget what has expired; how much that was."""
    return len(tx.all(tx.sql.items.FORGET, (tx.now, limit)))


def next_check(tx: Tx) -> int | None:
    return tx.now + SWEPT_EVERY if tx.value(tx.sql.items.ANY_EXPIRES) else None
