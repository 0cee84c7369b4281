"""Every statement of the machine's rules, in SQLite's own words: a module for each module of rules.

What a statement takes and what it answers is said by the Protocols in ``store/machine``. No rules are here.
"""

from __future__ import annotations

from windlass.store.machine.graphs.sql import (
    AuditSql,
    InheritedSql,
    LookupSql,
    NodeSql,
    OpeningSql,
    RetentionSql,
    StagingSql,
    TodoSql,
)
from windlass.store.machine.items.sql import ItemSql
from windlass.store.machine.sql import TxSql
from windlass.store.sqlite.sql import audits, inherited, items, lookups, nodes, opening, retention, staging, todos, tx


class SQLiteStatements:
    """What SQLite brings to the machine."""

    tx: TxSql = tx
    audits: AuditSql = audits
    inherited: InheritedSql = inherited
    items: ItemSql = items
    lookups: LookupSql = lookups
    nodes: NodeSql = nodes
    opening: OpeningSql = opening
    retention: RetentionSql = retention
    staging: StagingSql = staging
    todos: TodoSql = todos


STATEMENTS = SQLiteStatements()
