"""Every statement of the machine's rules, in SQLite's own words: a module for each module of rules.

What a statement takes and what it answers is said by the Protocols in ``store/machine``. No rules are here.
"""

from __future__ import annotations

from windlass.store.machine.items.sql import ItemSql
from windlass.store.machine.sql import TxSql
from windlass.store.sqlite.sql import items, tx


class SQLiteStatements:
    """What SQLite brings to the machine."""

    tx: TxSql = tx
    items: ItemSql = items


STATEMENTS = SQLiteStatements()
