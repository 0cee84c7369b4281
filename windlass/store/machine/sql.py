"""The statements that the rules need, by name: what each takes and answers. A driver brings them in its own words.

A statement takes its values by position. ``JSON`` among them is text of one JSON list. Where the order of rows
matters it is said.
"""

from __future__ import annotations

from typing import Protocol

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


class TxSql(Protocol):
    """What every transaction begins and ends with, and the small moves that all operations are made of."""

    BEGIN: str
    """→ last instant, shift of the clock, ranks, heeded, shortest lease, and whether there are: idle workers,
    followers of events, graphs, todos, lanes, gates, unique keys; the schema; when time next opens a lane."""
    EXTEND_LEASES: str
    """gap, last instant: leases that held then hold so much longer, where the gap is over half a lease."""
    FINISH: str
    """now, shift, ranks, heeded, JSON of counts, kinds of events, JSON of groups of events, how many groups are kept"""
    FOLLOWERS: str
    """→ names that are told of every event"""
    COUNTED: str
    """queue, state → how many of its jobs are in this state, as kept before this transaction"""
    COUNTED_IN: str
    """JSON of queues, state → (queue, how many)"""
    PRESENCE: str
    """worker's number → what it said of itself, as JSON"""
    IDLE: str
    """a worker's number to leave out → (number, id, mark) of idle workers, in order of numbers"""
    FIRST_IDLE: str
    """→ (number, id) of the first idle worker"""
    BUSY: str
    """JSON of workers' numbers: they are no longer idle"""


class Statements(Protocol):
    """All of them."""

    tx: TxSql
    asides: AsideSql
    audits: AuditSql
    book: BookSql
    candidates: CandidateSql
    changes: ChangeSql
    claim: ClaimSql
    exchange: ExchangeSql
    expiry: ExpirySql
    find: FindSql
    gates: GateSql
    inherited: InheritedSql
    intake: IntakeSql
    items: ItemSql
    lanes: LaneSql
    logs: LogSql
    lookups: LookupSql
    moves: MoveSql
    news: NewsSql
    nodes: NodeSql
    notes: NoteSql
    opening: OpeningSql
    recovery: RecoverySql
    replacing: ReplacingSql
    retention: RetentionSql
    room: RoomSql
    rows: RowSql
    settling: SettlingSql
    staging: StagingSql
    summaries: SummarySql
    sweeps: SweepSql
    todos: TodoSql
    turns: TurnSql
    uniques: UniqueSql
    views: ViewSql
    walks: WalkSql
    watches: WatchSql
    workers: WorkerSql
