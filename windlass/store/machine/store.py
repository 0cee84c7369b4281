"""The calls of an engine on the machine: each is an operation that its database runs in a transaction.

What only a driver can do is left to it: opening and closing, the hot path, who listens, and what it promises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Job, LogLine, NewJob, State
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer
from windlass.store.flow import GateInfo, Hold, Tuning, UniqueInfo
from windlass.store.graphs import GraphPage  # fmt: skip
from windlass.store.items import Commit, Committed, Item, LogInfo, LogKeep, Moment, Record
from windlass.store.jobs import (
    BeatReply,
    Change,
    ChangeReply,
    Note,
    Presence,
    Query,
    WatchReply,
)
from windlass.store.machine.flow import gates, uniques
from windlass.store.machine.graphs import lookups, staging
from windlass.store.machine.items import committing, items, logs
from windlass.store.machine.jobs import changes, intake, rows, watches, workers
from windlass.store.machine.jobs.notes import lines, note
from windlass.store.machine.ops import Kind
from windlass.store.machine.reads import find, news, summaries
from windlass.store.machine.tx import Memo
from windlass.store.reads import Fault, Page, QueueInfo, Total, WorkerInfo
from windlass.store.shared import check_batch, check_commits

READ, RELAXED, DURABLE = Kind.READ, Kind.RELAXED, Kind.DURABLE

T = TypeVar("T")

BRIEF, FEW = 256, 8
"""Up to so many jobs a call is over so soon that it may run on the event loop's own thread, where an engine can."""

MAX_INPUTS = 4


class Transacting(Protocol):
    """A database that runs operations in transactions."""

    memo: Memo

    async def run(self, kind: Kind, work: Callable[[Any], T], brief: bool = False) -> T: ...


class MachineStore:
    """All of the contract that is the same for every engine on the machine."""

    def __init__(self, database: Transacting) -> None:
        self._database = database

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        return await self._database.run(DURABLE, lambda tx: intake.insert(tx, jobs), brief=len(jobs) <= FEW)

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        check_batch(len(nodes))
        brief = len(nodes) <= FEW and not self._database.memo.todos
        return await self._database.run(
            DURABLE, lambda tx: staging.insert_graph(tx, graph, first, nodes, commit), brief
        )  # fmt: skip

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        return await self._database.run(RELAXED, lambda tx: workers.beat(tx, presence, acked_seq, held))

    async def leave(self, worker: str, crashed: bool = False) -> None:
        await self._database.run(DURABLE, lambda tx: workers.leave(tx, worker, crashed))

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        return await self._database.run(RELAXED, lambda tx: note(tx, worker, notes))

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        check_batch(len(ids))
        bound = min(limit, MAX_BATCH)
        return await self._database.run(DURABLE, lambda tx: changes.change(tx, change, ids, query, bound))

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        check_batch(len(tunings))
        return await self._database.run(DURABLE, lambda tx: gates.tune(tx, tunings))

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        return await self._database.run(READ, lambda tx: gates.gates(tx, names))

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        return await self._database.run(READ, lambda tx: gates.holds(tx, ids))

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        return await self._database.run(READ, lambda tx: uniques.uniques(tx, keys))

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        check_commits(commits)
        brief = sum(len(step.items) + len(step.jobs) + len(step.appends) for step in commits) <= FEW
        return await self._database.run(DURABLE, lambda tx: [committing.commit(tx, step) for step in commits], brief)

    async def moment(self) -> Moment:
        return await self._database.run(READ, lambda tx: Moment(tx.now, tx.heeded), brief=True)

    async def items(self, shelf: str, keys: Sequence[str]) -> list[Item]:
        # Not a mere read: a clock that was set back must be seen, or a lock would last longer.
        return await self._database.run(RELAXED, lambda tx: items.items(tx, shelf, keys), brief=len(keys) <= FEW)

    async def shelf(
        self, name: str, after: str = "", until: str = "", limit: int = MAX_BATCH, newest_first: bool = False
    ) -> list[Item]:
        return await self._database.run(READ, lambda tx: items.page(tx, name, after, until, limit, newest_first))

    async def records(
        self, log: str, after: int = 0, limit: int = MAX_BATCH, *, stream: str | None = None, since: int = 0
    ) -> list[Record]:
        return await self._database.run(READ, lambda tx: logs.records(tx, log, after, limit, stream, since))

    async def logs(self, names: Sequence[str] = ()) -> list[LogInfo]:
        return await self._database.run(READ, lambda tx: logs.infos(tx, names))

    async def retain(self, log: str, keep: LogKeep) -> None:
        await self._database.run(DURABLE, lambda tx: logs.retain(tx, log, keep))

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        return await self._database.run(RELAXED, lambda tx: watches.watch(tx, client, ids), brief=len(ids) <= BRIEF)

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        await self._database.run(RELAXED, lambda tx: watches.unwatch(tx, client, ids))

    async def signal(self, names: Sequence[str]) -> None:
        await self._database.run(RELAXED, lambda tx: watches.signal(tx, names))

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return await self._database.run(READ, lambda tx: rows.get(tx, ids), brief=len(ids) <= BRIEF)

    async def find(self, query: Query) -> Page:
        return await self._database.run(READ, lambda tx: find.find(tx, query))

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        if len(ids) > MAX_INPUTS:
            raise StoreError(f"the inputs of {len(ids)} nodes in one call; at most {MAX_INPUTS} are allowed")
        return await self._database.run(READ, lambda tx: [lookups.inputs(tx, id) for id in ids])

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        return await self._database.run(READ, lambda tx: lookups.graphs(tx, states, after, limit))

    async def graph(self, id: str) -> GraphInfo | None:
        return await self._database.run(READ, lambda tx: lookups.graph(tx, id))

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        return await self._database.run(READ, lambda tx: lookups.members(tx, graph, after, limit))

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        return await self._database.run(READ, lambda tx: lines(tx, id, after, limit))

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        return await self._database.run(READ, lambda tx: news.events(tx, after, limit, kinds))

    async def totals(self) -> list[Total]:
        return await self._database.run(READ, news.totals)

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        return await self._database.run(READ, lambda tx: summaries.faults(tx, limit))

    async def queues(self) -> list[QueueInfo]:
        return await self._database.run(READ, summaries.queues)

    async def workers(self) -> list[WorkerInfo]:
        return await self._database.run(READ, summaries.workers)
