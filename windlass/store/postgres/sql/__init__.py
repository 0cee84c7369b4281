"""Every statement of the machine's rules, in the words of PostgreSQL: a module for each module of rules.

What a statement takes and what it answers is said by the Protocols in ``store/machine``. No rules are here.
"""

from __future__ import annotations

from windlass.store.machine.flow.sql import (
    BookSql,
    CandidateSql,
    ClaimSql,
    ExchangeSql,
    GateSql,
    LaneSql,
    SettlingSql,
    TurnSql,
    UniqueSql,
)
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
from windlass.store.postgres.sql import (
    asides,
    audits,
    book,
    candidates,
    changes,
    claim,
    exchange,
    expiry,
    find,
    gates,
    inherited,
    intake,
    items,
    lanes,
    logs,
    lookups,
    moves,
    news,
    nodes,
    notes,
    opening,
    recovery,
    replacing,
    retention,
    room,
    rows,
    settling,
    staging,
    summaries,
    sweeps,
    todos,
    turns,
    tx,
    uniques,
    views,
    walks,
    watches,
    workers,
)


class PostgresStatements:
    """What PostgreSQL brings to the machine."""

    tx: TxSql = tx
    asides: AsideSql = asides
    audits: AuditSql = audits
    book: BookSql = book
    candidates: CandidateSql = candidates
    changes: ChangeSql = changes
    claim: ClaimSql = claim
    exchange: ExchangeSql = exchange
    expiry: ExpirySql = expiry
    find: FindSql = find
    gates: GateSql = gates
    inherited: InheritedSql = inherited
    intake: IntakeSql = intake
    items: ItemSql = items
    lanes: LaneSql = lanes
    logs: LogSql = logs
    lookups: LookupSql = lookups
    moves: MoveSql = moves
    news: NewsSql = news
    nodes: NodeSql = nodes
    notes: NoteSql = notes
    opening: OpeningSql = opening
    recovery: RecoverySql = recovery
    replacing: ReplacingSql = replacing
    retention: RetentionSql = retention
    room: RoomSql = room
    rows: RowSql = rows
    settling: SettlingSql = settling
    staging: StagingSql = staging
    summaries: SummarySql = summaries
    sweeps: SweepSql = sweeps
    todos: TodoSql = todos
    turns: TurnSql = turns
    uniques: UniqueSql = uniques
    views: ViewSql = views
    walks: WalkSql = walks
    watches: WatchSql = watches
    workers: WorkerSql = workers


STATEMENTS = PostgresStatements()
