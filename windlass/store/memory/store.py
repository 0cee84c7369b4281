"""The memory engine's calls. Each takes the hub's lock, makes one atomic step, and sends what the step collected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakValueDictionary

import msgspec

from windlass.core.event import Entry
from windlass.core.graph import GraphInfo, Input, NewGraph
from windlass.core.job import Job, LogLine, NewJob, State
from windlass.core.lifecycle import Transition
from windlass.errors import StoreError
from windlass.store.answers import MAX_BATCH, Answer, GraphAnswer
from windlass.store.base import Clock, StoreSettings
from windlass.store.flow import GateInfo, Hold, Tuning, UniqueInfo
from windlass.store.graphs import GraphPage
from windlass.store.items import Commit, Committed, Item, LogInfo, LogKeep, Moment, Record
from windlass.store.jobs import (
    EVERY_EVENT,
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
from windlass.store.memory import (
    changes,
    claims,
    committing,
    event_stream,
    faults,
    graphs,
    items,
    logs,
    lookups,
    retention,
    sweeps,
    totals,
    tuning,
    unique,
    waking,
)
from windlass.store.memory.hub import Hub
from windlass.store.memory.inserts import InsertBatch
from windlass.store.memory.item_rows import Log
from windlass.store.memory.records import Row, WorkerRow, event_row
from windlass.store.memory.todos import work, work_off
from windlass.store.reads import Fault, Page, QueueInfo, StoreInfo, Total, WorkerInfo
from windlass.store.shared import check_batch, check_commits, host_clock

_hubs: WeakValueDictionary[str, Hub] = WeakValueDictionary()

MAX_INPUTS = 4


class MemoryStore:
    """A connection to the memory of this process. ``memory://`` is private; ``memory://name`` is shared by
    that name.
    """

    def __init__(self, url: str, settings: StoreSettings, clock: Clock = host_clock) -> None:
        name = url.removeprefix("memory://").strip("/")
        self.url = url
        hub = (_hubs.get(name) if name else None) or Hub(settings, clock)
        self.hub = _hubs.setdefault(name, hub) if name else hub
        self._mine: set[str] = set()

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        for name in list(self._mine):
            await self.unlisten(name)

    @contextmanager
    def _waking(self) -> Iterator[tuple[Hub, int]]:
        """A step that may bring the next due time nearer. A worker that exchanges is told of that by its answer."""
        with self._step() as (hub, now):
            due = waking.next_due(hub, now)
            yield hub, now
            waking.wake_fresh(hub, now)
            waking.wake_for_due(hub, due, now)

    @contextmanager
    def _step(self) -> Iterator[tuple[Hub, int]]:
        hub = self.hub
        with hub.lock:
            now = hub.now()
            yield hub, now
            if hub.touched:
                retention.prune_touched(hub, now)
            if hub.fresh:
                waking.wake_fresh(hub, now)
            if hub.outbox:
                hub.post()

    # -- the job path

    async def insert(self, jobs: Sequence[NewJob]) -> list[Answer]:
        return self.insert_here(jobs)

    def insert_here(self, jobs: Sequence[NewJob]) -> list[Answer]:
        check_batch(len(jobs))
        with self._waking() as (hub, now):
            batch = InsertBatch(hub, now)
            answers = [batch.insert(job) for job in jobs]
            hub.record(now, batch.groups())
            return answers

    async def insert_graph(self, graph: NewGraph, first: int, nodes: Sequence[NewJob], commit: bool) -> GraphAnswer:
        check_batch(len(nodes))
        with self._waking() as (hub, now):
            return graphs.insert_graph(hub, graph, first, nodes, commit, now)

    async def exchange(self, worker: str, seq: int, moves: Sequence[Transition], want: Want) -> ExchangeReply:
        check_batch(len(moves))
        with self._step() as (hub, now):
            row = hub.workers.get(worker)
            if row is None or row.dead:
                return ExchangeReply(refused=[move.id for move in moves], gone=True)
            if seq < row.last_seq:
                raise StoreError(f"worker {worker} sent exchange {seq} after {row.last_seq}")
            if seq == row.last_seq:
                granted = [lookups.claim(hub, job) for job in row.running.values() if job.seq == seq]
                return ExchangeReply(
                    granted, row.refused, claims.cancels(row), waking.next_due(hub, now), schedules=hub.heeded
                )
            row.last_seq = seq
            before = waking.next_due(hub, now)
            row.refused, groups = claims.settle(hub, row, moves, now)
            step = work(hub, now) if hub.todos else None
            waking.promote(hub, now, MAX_BATCH)
            if step is not None:
                groups += step.groups()
            want = Want(want.queues, min(want.total, MAX_BATCH), now=want.now)
            ended: list[Row] = []
            room = claims.claim(hub, row, seq, want, now, ended)
            granted = room.granted
            groups += sweeps.end_events(ended)
            groups.append(("started", worker, [[job.id, job.task, job.queue] for job in granted]))
            claims.wake_others(hub, row, now)
            if want.total == 0:  # the worker may be stopping, and set no alarm
                waking.wake_for_due(hub, before, now)
            row.idle = len(granted) < (want.total if want.now < 0 else min(want.now, want.total))
            if hub.todos:  # more than one step may do: the next exchange does the rest
                row.idle = False
                hub.tell({worker}, None)
            hub.record(now, groups)
            due = waking.next_due(hub, now)
            return ExchangeReply(
                granted, row.refused, claims.cancels(row), due, drain=room.drain, schedules=hub.heeded
            )  # fmt: skip

    async def beat(self, presence: Presence, acked_seq: int, held: Sequence[str]) -> BeatReply:
        with self._waking() as (hub, now):
            row = hub.workers.get(presence.id)
            if row is None and acked_seq:
                # This worker is buried, together with the number of its last exchange.
                return BeatReply(gone=True, lost=list(held))
            if row is None:
                row = hub.workers[presence.id] = WorkerRow()
                hub.record(now, [("worker_up", presence.id, [[""]])])
            elif row.dead or row.lease_until <= now:
                # This worker was judged dead: its jobs may run elsewhere by now, so it must not go on under this id.
                row.dead = True
                return BeatReply(gone=True, lost=list(held))
            if presence.declares != row.presence.declares or presence.queues != row.presence.queues:
                hub.undeclare(row, now)
            row.renew(presence, now)
            mine = set(held)
            missed = [job for job in row.running.values() if job.seq <= acked_seq and job.id not in mine]
            _, groups = sweeps.give_back(hub, row, missed, now, crashed=False)
            hub.record(now, groups + work_off(hub, now))
            lost = [id for id in held if id not in row.running]
            ready = any(claims.has_work(hub, row, queue, now) for queue in presence.queues)
            due, check = waking.next_due(hub, now), sweeps.next_check(hub, now)
            return BeatReply(False, lost, claims.cancels(row), ready, due, check, hub.heeded)

    async def leave(self, worker: str, crashed: bool = False) -> None:
        with self._waking() as (hub, now):
            row = hub.workers.get(worker)
            if row is not None:
                row.dead = True
                sweeps.bury(hub, row, now, crashed, len(row.running))
                hub.record(now, work_off(hub, now))

    async def note(self, worker: str, notes: Sequence[Note]) -> list[str]:
        with self._step() as (hub, now):
            row = hub.workers.get(worker)
            refused: list[str] = []
            progress: list[list[object]] = []
            lines: list[list[object]] = []
            for note in notes:
                job = claims.holder(row, note.id, note.fence)
                if job is None:
                    refused.append(note.id)
                    continue
                if note.progress is not None:
                    job.progress = note.progress
                    progress.append([*event_row(job), msgspec.json.decode(note.progress)])
                if note.logs:
                    lines.extend([*event_row(job), [level, text]] for level, text in note.logs)
                    add_logs(job, note.logs, now, hub.settings.logs_kept)
            hub.record(now, [("progress", worker, progress), ("log", worker, lines)])
            return refused

    async def sweep(self, limit: int = MAX_BATCH) -> SweepReply:
        with self._waking() as (hub, now):
            return sweeps.sweep(hub, now, limit)

    async def change(
        self, change: Change, ids: Sequence[str] = (), query: Query | None = None, limit: int = MAX_BATCH
    ) -> ChangeReply:
        check_batch(len(ids))
        with self._waking() as (hub, now):
            return changes.change(hub, change, ids, query, min(limit, MAX_BATCH), now)

    # -- gates and keys

    async def tune(self, tunings: Sequence[Tuning]) -> list[GateInfo]:
        check_batch(len(tunings))
        with self._waking() as (hub, now):
            return tuning.tune(hub, tunings, now)

    async def gates(self, names: Sequence[str] = ()) -> list[GateInfo]:
        with self._step() as (hub, now):
            return tuning.info(hub, names, now)

    async def holds(self, ids: Sequence[str]) -> list[Hold | None]:
        with self._step() as (hub, now):
            return [tuning.hold(hub, hub.jobs.get(id), now) for id in ids]

    async def uniques(self, keys: Sequence[str]) -> list[UniqueInfo | None]:
        with self._step() as (hub, now):
            return [unique.info(hub, key, now) for key in keys]

    # -- items and logs

    async def commit(self, commits: Sequence[Commit]) -> list[Committed]:
        check_commits(commits)
        with self._waking() as (hub, now):
            return [committing.commit(hub, step, now) for step in commits]

    async def moment(self) -> Moment:
        with self._step() as (hub, now):
            return Moment(now, hub.heeded)

    async def items(self, shelf: str, keys: Sequence[str]) -> list[Item]:
        with self._step() as (hub, now):
            return [items.read(hub, shelf, key, now) for key in keys]

    async def shelf(
        self, name: str, after: str = "", until: str = "", limit: int = MAX_BATCH, newest_first: bool = False
    ) -> list[Item]:
        with self._step() as (hub, now):
            return items.page(hub, name, after, until, limit, newest_first, now)

    async def records(
        self, log: str, after: int = 0, limit: int = MAX_BATCH, *, stream: str | None = None, since: int = 0
    ) -> list[Record]:
        with self.hub.lock:
            return logs.read(self.hub, log, after, limit, stream, since)

    async def logs(self, names: Sequence[str] = ()) -> list[LogInfo]:
        with self.hub.lock:
            return logs.info(self.hub, names)

    async def retain(self, log: str, keep: LogKeep) -> None:
        with self._waking() as (hub, _):
            hub.logs.setdefault(log, Log()).keep = keep

    # -- waiting

    async def watch(self, client: str, ids: Sequence[str]) -> WatchReply:
        with self._step() as (hub, _):
            reply = WatchReply([], [])
            for id in ids:
                row = hub.known(id)
                if id == EVERY_EVENT:
                    hub.followers.add(client)
                elif logs.follow(hub, client, id):
                    continue
                elif row is None:
                    reply.missing.append(id)
                elif row.state.terminal:
                    reply.finished.append(row.finished())
                else:
                    row.watchers = (row.watchers or set()) | {client}
            return reply

    async def unwatch(self, client: str, ids: Sequence[str] | None = None) -> None:
        with self._step() as (hub, _):
            if ids is None:
                hub.forget_watches(client)
            for id in ids or ():
                if id == EVERY_EVENT:
                    hub.followers.discard(client)
                elif logs.unfollow(hub, client, id):
                    continue
                elif (row := hub.known(id)) and row.watchers:
                    row.watchers.discard(client)

    async def listen(self, name: str, deliver: Deliver) -> None:
        with self.hub.lock:
            self.hub.mail[name] = (asyncio.get_running_loop(), deliver)
            self._mine.add(name)

    async def unlisten(self, name: str) -> None:
        with self.hub.lock:
            self._mine.discard(name)
            if self.hub.mail.pop(name, None) is not None:
                self.hub.forget_watches(name)

    async def signal(self, names: Sequence[str]) -> None:
        with self._step() as (hub, _):
            hub.tell(set(names), None)

    # -- reading

    async def get(self, ids: Sequence[str]) -> list[Job | None]:
        with self.hub.lock:
            rows = [self.hub.known(id) for id in ids]
            return [row.job() if row else None for row in rows]

    async def find(self, query: Query) -> Page:
        with self.hub.lock:
            return changes.find(self.hub, query)

    async def inputs(self, ids: Sequence[str]) -> list[list[Input]]:
        if len(ids) > MAX_INPUTS:
            raise StoreError(f"the inputs of {len(ids)} nodes in one call; at most {MAX_INPUTS} are allowed")
        with self.hub.lock:
            return [lookups.inputs(self.hub, id) for id in ids]

    async def graphs(self, states: Sequence[State] = (), after: str = "", limit: int = 100) -> GraphPage:
        with self.hub.lock:
            return lookups.graphs(self.hub, states, after, limit)

    async def graph(self, id: str) -> GraphInfo | None:
        with self.hub.lock:
            graph = self.hub.graphs.get(id)
            return lookups.info(graph) if graph is not None else None

    async def members(self, graph: str, after: int = -1, limit: int = MAX_BATCH) -> list[Job]:
        with self.hub.lock:
            return lookups.members(self.hub, self.hub.graphs.get(graph), after, limit)

    async def lines(self, id: str, after: int = -1, limit: int = MAX_BATCH) -> list[LogLine]:
        with self.hub.lock:
            row = self.hub.jobs.get(id)
            lines = (row.logs or []) if row else []
            return [line for line in lines if line.n > after][:limit]

    async def events(self, after: int, limit: int = 100, kinds: Sequence[str] = ()) -> list[Entry]:
        with self.hub.lock:
            return event_stream.read(self.hub.entries, after, limit, kinds)

    async def totals(self) -> list[Total]:
        with self.hub.lock:
            return totals.read(self.hub.totals)

    async def faults(self, limit: int = MAX_BATCH) -> list[Fault]:
        with self.hub.lock:
            return faults.read(self.hub, limit)

    async def queues(self) -> list[QueueInfo]:
        with self._step() as (hub, now):
            return [claims.queue_info(hub, name, now) for name in sorted(hub.counts)]

    async def workers(self) -> list[WorkerInfo]:
        with self._step() as (hub, now):
            return [
                WorkerInfo(
                    presence=row.presence, beat_age=now - row.beat_at, alive=not row.dead and row.lease_until > now,
                    running=len(row.running), idle=row.idle,
                )
                for row in hub.workers.values()
            ]  # fmt: skip

    async def info(self) -> StoreInfo:
        return StoreInfo(
            engine="memory", version="1", durability="none: jobs live as long as this process", location=self.url,
            warnings=["the memory store keeps nothing on disk; use it for tests and for work that may be lost"],
        )  # fmt: skip


def add_logs(job: Row, logs: list[tuple[str, str]], now: int, kept: int) -> None:
    lines = job.logs = job.logs or []
    start = lines[-1].n + 1 if lines else 0
    lines.extend(LogLine(start + i, now, level, text) for i, (level, text) in enumerate(logs))
    del lines[:-kept]
