"""The engine's calls: each is one function of the library on the server, and one round trip."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Finished, Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.core.limits import in_force
from windlass.errors import StoreClosed, StoreError
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer
from windlass.store.base import Clock, StoreSettings
from windlass.store.flow import GateInfo, Hold, Tuning, UniqueInfo
from windlass.store.graphs import GraphPage
from windlass.store.items import Commit, Committed, Item, LogInfo, LogKeep, Moment, Record, log_channel
from windlass.store.jobs import (
    Action,
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
from windlass.store.reads import Fault, Page, QueueInfo, StoreInfo, Total, WorkerInfo
from windlass.store.redis import library, wire
from windlass.store.redis.blocking import BlockingLink
from windlass.store.redis.commands import Word
from windlass.store.redis.convoy import Convoy
from windlass.store.redis.durability import describe
from windlass.store.redis.link import Link
from windlass.store.redis.location import parse_url
from windlass.store.redis.upgrade import upgrade
from windlass.store.shared import STATES, allowed, check_batch, check_commits

log = logging.getLogger("windlass.redis")

LOOKED_AT_ONCE = 500
"""How many records one call of a listing looks at: a few milliseconds, in which the server serves nobody else."""


class RedisStore:
    """Jobs on a Redis or Valkey server. For the form of the URL see ``location.parse_url``.

    Time is the server's; a ``clock`` replaces it in tests.
    """

    serial = True

    def __init__(self, url: str, settings: StoreSettings, clock: Clock | None = None) -> None:
        self.location = parse_url(url, settings.name)
        self.settings = settings
        self._clock = clock
        self._settings = wire.settings(settings, self.location.kind == "cluster")
        self._library, self._names = library.build()
        self._link = Link(self.location, self._library, self._returned)
        self._threads: BlockingLink | None = None
        self._convoy = Convoy(self._insert_together)
        self._listening: dict[str, Deliver] = {}
        self._watched: dict[str, set[str]] = {}
        self._returning: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._link.open()
        await upgrade(self._link, self.location, self._call)
        self._threads = self._threads or BlockingLink(
            self.location, self._library
        )  # connected by the first who needs it

    async def close(self) -> None:
        if self._returning is not None:
            self._returning.cancel()
        for name in list(self._listening):
            try:
                await self.unlisten(name)
            except StoreError as error:  # a server that is gone must not keep us from closing
                log.warning("could not sign off %s: %s", name, error)
        await self._link.close()
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    async def _call(self, function: str, *args: Word, durable: bool = False) -> Any:
        now = self._clock() if self._clock is not None else b""
        return await self._link.call(self._names[function], self._settings, now, *args, durable=durable)

    # -- the job path

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        if not jobs:
            return []
        return [wire.jobs.answer(said) for said in await self._call("insert", *wire.jobs.insert(jobs), durable=True)]

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        check_batch(len(nodes))
        args = wire.graphs.insert_graph(graph, first, nodes, commit)
        return wire.graphs.graph_answer(await self._call("insert_graph", *args, durable=True))

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        return self._convoy.insert(jobs) if jobs else []

    def _insert_together(self, jobs: Sequence[NewJob]) -> list[Answer]:
        if self._threads is None:
            raise StoreClosed(f"the connection to {self.location.shown} is not open")
        now = self._clock() if self._clock is not None else b""
        args = (self._settings, now, *wire.jobs.insert(jobs))
        return [wire.jobs.answer(said) for said in self._threads.call(self._names["insert"], *args, durable=True)]

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        check_batch(len(moves))
        args = wire.jobs.exchange(worker, seq, moves, want)
        return wire.jobs.exchange_reply(b"".join(await self._call("exchange", *args, durable=bool(moves))))

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        skills = wire.encode(wire.jobs.skills(presence))
        mark = hashlib.blake2b(skills, digest_size=12).hexdigest()
        shown = wire.encode(presence)
        args = (presence.id, acked_seq, presence.lease, mark, skills, shown, wire.encode(list(held)))
        return wire.jobs.beat_reply(await self._call("beat", *args))

    async def leave(self, worker: str, crashed: bool = False) -> None:
        while await self._call("leave", worker, int(crashed), durable=True):
            pass  # each call gives back a bounded number of jobs

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        return [id.decode() for id in await self._call("note", worker, wire.jobs.note(notes))]

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        return wire.jobs.sweep_reply(await self._call("sweep", limit))

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        check_batch(len(ids))
        reply, asked = ChangeReply([], {}, ""), b""
        if query is not None:
            page = await self._find(query, min(query.limit, limit, MAX_BATCH))
            ids, reply.cursor, asked = [job.id for job in page.jobs], page.cursor, wire.reads.query(query)
        if ids:
            states = allowed(change)
            marks = "".join("1" if state in states else "0" for state in STATES)
            args = (change.action, marks, argument(change), change.reason, asked, *ids)
            changed, skipped, why = wire.jobs.change_reply(await self._call("change", *args, durable=True))
            reply.changed, reply.skipped = changed, dict(zip(skipped, why, strict=True))
        return reply

    # -- gates, unique keys

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        check_batch(len(tunings))
        return wire.flow.gates(await self._call("tune", wire.flow.tune(tunings), durable=True)) if tunings else []

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        return wire.flow.gates(await self._call("gates", *names))

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        return [wire.flow.hold(packed) for packed in await self._call("holds", *ids)] if ids else []

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        return wire.flow.uniques(await self._call("uniques", *keys)) if keys else []

    # -- items and logs

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        check_commits(commits)
        replies = await self._call("commit", *wire.items.commit(commits), durable=True) if commits else []
        return [wire.items.committed(step, reply) for step, reply in zip(commits, replies, strict=True)]

    async def moment(self) -> Moment:
        return Moment(*map(int, await self._call("moment")))

    async def items(self, shelf: str, keys: Sequence[str]) -> list[Item]:
        return wire.items.items(shelf, keys, await self._call("items", shelf, *keys)) if keys else []

    async def shelf(
        self, name: str, after: str = "", until: str = "", limit: int = MAX_BATCH, newest_first: bool = False
    ) -> list[Item]:
        """Several calls, each of which looks at a bounded number of items."""
        low, high = f"({after}" if after else "-", f"({until}" if until else "+"
        start, end = (high, low) if newest_first else (low, high)
        found: list[Item] = []
        limit = min(limit, MAX_BATCH)
        while len(found) < limit:
            more, last, *rest = await self._call("shelf", name, int(newest_first), start, end, limit - len(found))
            found += wire.items.page(name, rest)
            if not more:
                break
            start = b"(" + last
        return found

    async def records(
        self, log: str, after: int = 0, limit: int = MAX_BATCH, *, stream: str | None = None, since: int = 0
    ) -> list[Record]:
        of = () if stream is None else (stream,)
        return wire.items.records(await self._call("records", log, after, min(limit, MAX_BATCH), since, *of))

    async def logs(self, names: Sequence[str] = ()) -> list[LogInfo]:
        found = wire.items.logs(await self._call("logs", *names))
        return found if names else sorted(found, key=lambda log: log.name)

    async def retain(self, log: str, keep: LogKeep) -> None:
        await self._call("retain", log, keep.age, keep.count, keep.size, durable=True)

    # -- waiting

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        mine = self._watched.setdefault(client, set())
        mine.update(ids)
        reply = wire.jobs.watch_reply(await self._call("watch", client, *ids))
        mine.difference_update(reply.missing, (item.id for item in reply.finished))
        return reply

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        every = ids is None
        if ids is None:
            logs = log_channel("")  # named, since the server itself knows for an hour only what a client watches
            ids = [id for id in self._watched.pop(client, ()) if id.startswith(logs)]
        elif client in self._watched:
            self._watched[client].difference_update(ids)
        while await self._call("unwatch", client, int(every), *ids) and every:
            pass  # each call forgets a bounded number

    async def listen(self, name: str, deliver: Deliver) -> None:
        known = name in self._listening
        self._listening[name] = deliver
        if not known:
            try:
                await self._link.subscribe(
                    name, lambda data: self._deliver(name, wire.jobs.finished(data) if data else [])
                )
            except BaseException:
                self._listening.pop(name, None)
                raise

    def _deliver(self, name: str, items: list[Finished]) -> None:
        if items and name in self._watched:
            self._watched[name].difference_update(item.id for item in items)
        if name in self._listening:
            self._listening[name](items)

    async def unlisten(self, name: str) -> None:
        if self._listening.pop(name, None) is not None:
            await self._link.unsubscribe(name)
            await self.unwatch(name)

    async def signal(self, names: Sequence[str]) -> None:
        if names:
            await self._call("signal", *names)

    def _returned(self) -> None:
        """The connection was lost and is back. Messages sent meanwhile were not kept for us."""
        if self._returning is None or self._returning.done():
            self._returning = asyncio.get_running_loop().create_task(self._make_up())

    async def _make_up(self) -> None:
        """Ask for everything that is awaited, and wake everyone who may have missed a wake-up."""
        for name in list(self._listening):
            ids = list(self._watched.get(name, ()))
            try:
                for start in range(0, len(ids), MAX_BATCH):
                    reply = await self.watch(name, ids[start : start + MAX_BATCH])
                    if reply.finished:
                        self._deliver(name, reply.finished)
            except StoreError as error:
                log.warning("could not ask again for what %s waits for: %s", name, error)
            self._deliver(name, [])

    # -- reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        return wire.records.records(await self._call("get", *ids)) if ids else []

    async def find(self, query: Query) -> Page:
        return await self._find(query, min(query.limit, MAX_BATCH))

    async def _find(self, query: Query, limit: int) -> Page:
        """Several calls, each of which looks at a bounded number of records."""
        if query.after and not query.after.isdigit():
            raise StoreError(f"cursor {query.after!r} is not one a listing gave out")
        page, asked, after = Page([], ""), wire.reads.query(query), int(query.after or 0)
        budget = self.settings.scan_limit
        while True:
            reply = await self._call("find", asked, after, limit - len(page.jobs), min(budget, LOOKED_AT_ONCE))
            after, budget = int(reply[0]), budget - int(reply[1])
            page.jobs += [job for job in wire.records.records(reply[2:]) if job is not None]
            if not after:
                return page
            if len(page.jobs) >= limit or budget <= 0:
                page.cursor, page.partial = str(after), len(page.jobs) < limit
                return page

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        reply = await self._call("inputs", *ids) if ids else []
        return [wire.graphs.inputs(reply[at], reply[at + 1]) for at in range(0, len(reply), 2)]

    async def graph(self, id: str) -> GraphInfo | None:
        found = wire.graphs.graphs(await self._call("graph", id))
        return found[0] if found else None

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        """Several calls, each of which looks at a bounded number of workflows."""
        if after and not after.isdigit():
            raise StoreError(f"cursor {after!r} is not one a listing gave out")
        wanted = "".join("1" if not states or state in states else "0" for state in STATES)
        page, behind, limit = GraphPage([], ""), int(after or 0), min(limit, MAX_BATCH)
        while len(page.graphs) < limit:
            cursor, *found = await self._call("workflows", behind, limit - len(page.graphs), wanted)
            page.graphs += wire.graphs.graphs(found)
            behind = int(cursor)
            page.cursor = str(behind or "")
            if not behind:
                break
        return page

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        found = await self._call("members", graph, after, min(limit, MAX_BATCH))
        return [job for job in wire.records.records(found) if job is not None]

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        return [wire.records.log(line) for line in await self._call("lines", id, after, limit)]

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        if kinds:
            return await self._events_of(after, 1 if after < 0 else limit, kinds)
        key = f"{self.location.tag}events"
        if after < 0:
            found = await self._link.command("XREVRANGE", key, "+", "-", "COUNT", 1)
        else:
            found = await self._link.command("XRANGE", key, f"({after}-0", "+", "COUNT", limit)
        return [wire.reads.entry(name, fields[1]) for name, fields in found]

    async def _events_of(self, after: int, limit: int, kinds: Sequence[str]) -> list[Entry]:
        """Several calls, each of which looks at a bounded number of entries."""
        found: list[Entry] = []
        place: Word = "+" if after < 0 else f"({after}-0"
        while place and len(found) < limit:
            place, *kept = await self._call("events", place, int(after < 0), limit - len(found), *kinds)
            found += [wire.reads.entry(name, packed) for name, packed in zip(kept[::2], kept[1::2], strict=True)]
        return found

    async def totals(self) -> list[Total]:
        return wire.reads.totals(await self._call("totals"))

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        return wire.reads.faults(await self._call("faults", min(limit, MAX_BATCH))) if limit > 0 else []

    async def queues(self) -> list[QueueInfo]:
        counts, ages, lanes, said = await self._call("queues")
        infos: dict[str, QueueInfo] = {}
        for field, number in zip(counts[::2], counts[1::2], strict=True):
            info = infos.setdefault(field[1:].decode(), QueueInfo(name=field[1:].decode(), counts={}))
            if int(number):
                info.counts[str(STATES[int(field[:1])])] = int(number)
        for queue, age in zip(ages[::2], ages[1::2], strict=True):
            infos[queue.decode()].oldest_ready = int(age)
        for queue, number in zip(lanes[::2], lanes[1::2], strict=True):
            if queue.decode() in infos:
                infos[queue.decode()].lanes = int(number)
        for queue, declared, tuned in zip(said[::3], said[1::3], said[2::3], strict=True):
            if queue.decode() in infos:
                infos[queue.decode()].limits = in_force(wire.flow.limits(tuned), wire.flow.limits(declared))
        return [infos[name] for name in sorted(infos)]

    async def workers(self) -> list[WorkerInfo]:
        rows = await self._call("workers")
        return [
            WorkerInfo(
                presence=wire.reads.presence(rows[at]), beat_age=rows[at + 1], alive=bool(rows[at + 2]),
                running=rows[at + 3], idle=bool(rows[at + 4]),
            )
            for at in range(0, len(rows), 5)
        ]  # fmt: skip

    async def info(self) -> StoreInfo:
        return await describe(self._link, self.location)


def argument(change: Change) -> Word:
    """The one value an action needs."""
    if change.action is Action.EDIT:
        return wire.jobs.edit(change)
    if change.action is Action.RESCHEDULE:
        return f"{change.at} {change.delay}"
    return change.priority if change.action is Action.REPRIORITISE else change.queue
