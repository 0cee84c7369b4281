"""Every statement of the machine's rules, in SQLite's own words: a module for each module of rules.

What a statement takes and what it answers is said by the Protocols in ``store/machine``. No rules are here.
"""

from __future__ import annotations

from windlass.store.machine.items.sql import ItemSql, LogSql
from windlass.store.machine.jobs.sql import (
    AsideSql,
    ChangeSql,
    ExpirySql,
    IntakeSql,
    MoveSql,
    NoteSql,
    RecoverySql,
    ReplacingSql,
    RoomSql,
    RowSql,
    SweepSql,
    ViewSql,
    WatchSql,
    WorkerSql,
)
from windlass.store.machine.reads.sql import FindSql, NewsSql, SummarySql, WalkSql
from windlass.store.machine.sql import TxSql
from windlass.store.sqlite.sql import (
    asides,
    changes,
    expiry,
    find,
    intake,
    items,
    logs,
    moves,
    news,
    notes,
    recovery,
    replacing,
    room,
    rows,
    summaries,
    sweeps,
    tx,
    views,
    walks,
    watches,
    workers,
)


class SQLiteStatements:
    """What SQLite brings to the machine."""

    tx: TxSql = tx
    asides: AsideSql = asides
    changes: ChangeSql = changes
    expiry: ExpirySql = expiry
    find: FindSql = find
    intake: IntakeSql = intake
    items: ItemSql = items
    logs: LogSql = logs
    moves: MoveSql = moves
    news: NewsSql = news
    notes: NoteSql = notes
    recovery: RecoverySql = recovery
    replacing: ReplacingSql = replacing
    room: RoomSql = room
    rows: RowSql = rows
    summaries: SummarySql = summaries
    sweeps: SweepSql = sweeps
    views: ViewSql = views
    walks: WalkSql = walks
    watches: WatchSql = watches
    workers: WorkerSql = workers


STATEMENTS = SQLiteStatements()
