"""The engine's calls: each is an operation handed to the database thread. The operations are in the modules beside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import apsw

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.errors import StoreClosed, StoreError
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer
from windlass.store.base import Clock, StoreSettings
from windlass.store.flow import GateInfo, Hold, Tuning, UniqueInfo
from windlass.store.graphs import GraphPage  # fmt: skip
from windlass.store.items import Commit, Committed, Item, LogInfo, LogKeep, Moment, Record
from windlass.store.jobs import (
    BeatReply,
    Change,
    ChangeReply,
    Deliver,
    ExchangeReply,
    Note,
    Presence,
    Query,
    SweepReply,
    Want,
    WatchReply,
)
from windlass.store.machine.flow import gates, uniques
from windlass.store.machine.graphs import lookups, staging
from windlass.store.machine.items import committing, items, logs
from windlass.store.machine.jobs import changes, intake, rows, watches, workers
from windlass.store.machine.jobs.notes import lines, note
from windlass.store.machine.reads import find, news, summaries
from windlass.store.machine.tx import Tx
from windlass.store.reads import Fault, Page, QueueInfo, StoreInfo, Total, WorkerInfo
from windlass.store.shared import check_batch, check_commits, host_clock
from windlass.store.sqlite import exchange, mailboxes, mending, sweeps
from windlass.store.sqlite.connection import SCHEMA
from windlass.store.sqlite.location import parse_url
from windlass.store.sqlite.mailbox import HAVE_SOCKETS, Mailbox
from windlass.store.sqlite.ops import Kind
from windlass.store.sqlite.thread import Database

READ, RELAXED, DURABLE = Kind.READ, Kind.RELAXED, Kind.DURABLE

PROMISES = {
    "full": "an accepted job survives a power cut (synchronous=FULL)",
    "normal": "an accepted job survives the death of every process; a power cut may undo the last moments "
    "(synchronous=NORMAL)",
}


BRIEF, FEW = 256, 8
"""Up to so many jobs a claim, or an insert, is over so soon that it may run on the event loop's own thread."""

MAX_INPUTS = 4


class SQLiteStore:
    """Jobs in one local file. For the form of the URL see ``location.parse_url``."""

    def __init__(self, url: str, settings: StoreSettings, clock: Clock = host_clock) -> None:
        self.url = url
        self.location = parse_url(url)
        self._database = Database(self.location, settings, clock)

    async def open(self) -> None:
        if self._database.closed:
            await asyncio.to_thread(self._database.start)

    async def close(self) -> None:
        if not self._database.closed:
            for name in list(self._database.mailboxes):
                with contextlib.suppress(StoreError):  # a file that cannot be written must not keep it open
                    await self.unlisten(name)
        await asyncio.to_thread(self._database.stop)

    # -- the job path

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        return await self._database.run(DURABLE, lambda tx: intake.insert(tx, jobs), brief=len(jobs) <= FEW)

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        check_batch(len(nodes))
        brief = len(nodes) <= FEW and not self._database.memo.todos
        return await self._database.run(
            DURABLE, lambda tx: staging.insert_graph(tx, graph, first, nodes, commit), brief
        )  # fmt: skip

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        return self._database.run_here(DURABLE, lambda tx: intake.insert(tx, jobs))

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        check_batch(len(moves))
        # A claim lost in a power cut loses nothing, since the worker is gone too; a settle must stay.
        kind = DURABLE if moves else RELAXED
        brief = want.total <= BRIEF and (want.idle or not (moves or self._database.memo.todos))
        return await self._database.run(kind, lambda tx: exchange.exchange(tx, worker, seq, moves, want), brief)

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        return await self._database.run(RELAXED, lambda tx: workers.beat(tx, presence, acked_seq, held))

    async def leave(self, worker: str, crashed: bool = False) -> None:
        await self._database.run(DURABLE, lambda tx: workers.leave(tx, worker, crashed))

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        return await self._database.run(RELAXED, lambda tx: note(tx, worker, notes))

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        return await self._database.run(DURABLE, lambda tx: sweeps.sweep(tx, limit))

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        check_batch(len(ids))
        bound = min(limit, MAX_BATCH)
        return await self._database.run(DURABLE, lambda tx: changes.change(tx, change, ids, query, bound))

    # -- flow control

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        check_batch(len(tunings))
        return await self._database.run(DURABLE, lambda tx: gates.tune(tx, tunings))

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        return await self._database.run(READ, lambda tx: gates.gates(tx, names))

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        return await self._database.run(READ, lambda tx: gates.holds(tx, ids))

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        return await self._database.run(READ, lambda tx: uniques.uniques(tx, keys))

    # -- items and logs

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

    # -- waiting

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        return await self._database.run(RELAXED, lambda tx: watches.watch(tx, client, ids), brief=len(ids) <= BRIEF)

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        await self._database.run(RELAXED, lambda tx: watches.unwatch(tx, client, ids))

    async def listen(self, name: str, deliver: Deliver) -> None:
        if name in self._database.mailboxes:
            self._database.mailboxes[name].deliver = deliver
            return
        if self._database.closed:
            raise StoreClosed()
        if not HAVE_SOCKETS:
            return
        box = self._database.mailboxes[name] = Mailbox(deliver)
        await self._database.run(RELAXED, lambda tx: mailboxes.register(tx, name, box.path))

    async def unlisten(self, name: str) -> None:
        box = self._database.mailboxes.pop(name, None)
        if box is not None:
            box.close()
            await self._database.run(RELAXED, lambda tx: mailboxes.unregister(tx, name, box.path))

    async def signal(self, names: Sequence[str]) -> None:
        await self._database.run(RELAXED, lambda tx: watches.signal(tx, names))

    # -- reading

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

    async def info(self) -> StoreInfo:
        details, corrupt = await self._database.run(READ, lambda tx: (details_of(tx), mending.aside(tx)))
        full = self.location.durability == "full"
        warnings = [] if full else ["a power cut may undo the last moments (durability=normal)"]
        if corrupt:
            warnings.append(
                f"{corrupt} damaged records were put aside in the table corrupt; their jobs are dead letters"
            )
        return StoreInfo(
            engine="sqlite", version=apsw.sqlite_lib_version(), durability=PROMISES[self.location.durability],
            location=str(self.location.path), warnings=warnings,
            details=details | {"synchronous": self.location.durability, "timeout": f"{self.location.timeout:g} s"},
        )  # fmt: skip


def details_of(tx: Tx) -> dict[str, str]:
    pages, size = tx.one("SELECT page_count, page_size FROM pragma_page_count, pragma_page_size")
    return {
        "schema": str(SCHEMA),
        "journal": str(tx.value("PRAGMA journal_mode")),
        "size": f"{pages * size} bytes",
        "jobs": str(tx.value("SELECT coalesce(sum(many), 0) FROM counts WHERE task = ''")),
        "driver": f"apsw {apsw.apsw_version()}",
    }
